// Package witness is a witness of transparency logs (c2sp.org/tlog-witness). It signs a
// checkpoint only when the checkpoint continues the one that it signed before. A log
// whose readers require its signature cannot show two of them two histories. One that
// replays also sees that the trees of chains continue each other (replay.go). The package
// also has the log's side (client.go).
package witness

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/semaphore"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/cosign"
	"github.com/svcfs/svcfs/service/throttle"
)

const (
	// Path is where logs send checkpoints.
	Path = "/add-checkpoint"
	// maxRequest bounds a request, in bytes: 63 hashes and a checkpoint.
	maxRequest = 64 << 10
	// maxProof is the number of hashes of a proof (c2sp.org/tlog-witness).
	maxProof = 63
	// maxRecords bounds a tree: package tlog does not end for sizes near 2^63.
	maxRecords = 1 << 48
	// sizeType is the content type of a conflict.
	sizeType = "text/x.tlog.size"

	// perSecond is how many checkpoints an address may send in a second, and atOnce how many it may have
	// saved up: a service sends one a second, and more while members ask for its checkpoints.
	perSecond = 20
	atOnce    = 120
	// maxConnections and maxPerAddress bound the open connections, in all and from one address, and the
	// second one requests under way, also behind a trusted proxy. A service needs one for each of its processes.
	maxConnections = 256
	maxPerAddress  = 16
	// requestTime is how long a request may take to come, and requestPatience an answer to go; idle is how long
	// a connection stays open without a request.
	requestTime     = 5 * time.Second
	requestPatience = 10 * time.Second
	idle            = time.Minute
	maxHeader       = 16 << 10 // bytes

	keyFile    = "witness.key" // seed of the Ed25519 key, 32 bytes
	latestFile = "latest-"     // …, and the start of the hash of the origin: the checkpoint that was signed last
)

// Witness is one witness. It is safe for concurrent use; one process opens a
// directory at a time.
type Witness struct {
	// Replays has it follow the records of the logs, and sign what they give alone. It is set before the first request.
	Replays bool

	dir    string
	signer *cosign.Signer
	logs   map[string]note.Verifiers // by origin
	marks  []byte                    // key of marks

	callers  *throttle.Throttle[netip.Addr] // by network
	underWay *throttle.Slots[netip.Addr]    // requests, by network

	replaying *semaphore.Weighted // a few replays at a time, whoever asks; they have come whole

	mu sync.Mutex // held from the comparison with the latest checkpoint until the new one is kept
}

// Open opens the witness in a directory, making both at the first start. logs are
// the verifier keys of logs that it witnesses.
func Open(dir, name string, logs []string) (*Witness, error) {
	w := &Witness{dir: dir, logs: make(map[string]note.Verifiers), callers: throttle.New[netip.Addr](perSecond, atOnce),
		underWay: throttle.NewSlots[netip.Addr](maxPerAddress), replaying: semaphore.NewWeighted(mostReplays)}
	keys := make(map[string][]note.Verifier)
	for _, text := range logs {
		v, err := note.NewVerifier(text)
		if err != nil {
			return nil, fmt.Errorf("key of a log %.200q: want NAME+HASH+KEY, as URL/tlog/key shows it", text)
		}
		keys[v.Name()] = append(keys[v.Name()], v)
	}
	for origin, list := range keys {
		w.logs[origin] = note.VerifierList(list...)
	}
	if err := ownfile.MakeFolder(dir); err != nil {
		return nil, fmt.Errorf("make the witness's directory: %w", err)
	}
	seed, err := readSeed(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("read the witness's key: %w", err)
	}
	w.marks = marksKey(seed)
	w.signer, err = cosign.NewSigner(name, ed25519.NewKeyFromSeed(seed), time.Now)
	return w, err
}

// readSeed reads the seed of the key, or makes one. Witnesses that start at the same
// time all take the seed that was kept first.
func readSeed(file string) ([]byte, error) {
	seed, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		fresh := make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(fresh) // never fails
		if err := ownfile.Create(file, fresh); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		seed, err = os.ReadFile(file)
	}
	if err == nil && len(seed) != ed25519.SeedSize {
		err = fmt.Errorf("%s is damaged: it has %d bytes, not %d", file, len(seed), ed25519.SeedSize)
	}
	return seed, err
}

// Key returns the verifier key, which readers of a log require.
func (w *Witness) Key() string { return w.signer.Verifier.String() }

// Server answers [Path], within bounds for each address, on a listener of the caller's. trusted are the
// proxies whose X-Forwarded-For is believed.
func (w *Witness) Server(trusted []netip.Prefix) *http.Server {
	open := throttle.NewConnections(maxConnections, maxPerAddress, trusted)
	return &http.Server{Handler: w.Handler(trusted), ReadTimeout: requestTime, WriteTimeout: requestPatience,
		IdleTimeout: idle, MaxHeaderBytes: maxHeader,
		ConnState: open.Changed, ConnContext: open.Context}
}

// Handler answers [Path], and [ReplayPath] where the witness replays.
func (w *Witness) Handler(trusted []netip.Prefix) http.Handler {
	mux := http.NewServeMux()
	busy := refuse(http.StatusTooManyRequests, "too many requests, here or from this address: wait a second and send "+
		"it again")
	answer := func(path string, most int64, f func(r *http.Request, body []byte) (string, error)) {
		mux.HandleFunc("POST "+path, func(rw http.ResponseWriter, r *http.Request) {
			caller := throttle.Network(throttle.Address(r, trusted))
			if !w.callers.Allow(caller) {
				respond(rw, "", busy)
				return
			}
			leave, ok := w.underWay.Take(caller)
			if !ok {
				respond(rw, "", busy)
				return
			}
			defer leave()
			body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, most))
			if err != nil {
				http.Error(rw, "the request is too long, or was cut", http.StatusBadRequest)
				return
			}
			text, err := f(r, body)
			respond(rw, text, err)
		})
	}
	answer(Path, maxRequest, func(r *http.Request, body []byte) (string, error) {
		return w.add(string(body), r.Header.Get(markHeader))
	})
	if w.Replays {
		answer(ReplayPath, maxReplay, func(r *http.Request, body []byte) (string, error) {
			if w.replaying.Acquire(r.Context(), 1) != nil {
				return "", busy
			}
			defer w.replaying.Release(1)
			return w.replay(body)
		})
	}
	return mux
}

func respond(rw http.ResponseWriter, text string, err error) {
	status, contentType := http.StatusOK, "text/plain; charset=utf-8"
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		status, text = refused.Status, refused.Text+"\n"
		switch status {
		case http.StatusConflict:
			contentType, text = sizeType, fmt.Sprintf("%d\n", refused.Size)
		case http.StatusPreconditionRequired:
			text = fmt.Sprintf("%d\n%s", refused.Size, text)
		case http.StatusTooManyRequests:
			rw.Header().Set("Retry-After", "1")
		}
	case err != nil:
		status, text = http.StatusInternalServerError, "the witness cannot keep what it signs: ask its operator\n"
	}
	rw.Header().Set("Content-Type", contentType)
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text) // the caller may be gone
}

// Refusal is the reason for not signing a checkpoint.
type Refusal struct {
	Status int   // of HTTP
	Size   int64 // of the checkpoint that was signed last, with 409; from which on the log is to be replayed, with 428
	Text   string
}

// Error returns status and reason.
func (r *Refusal) Error() string { return fmt.Sprintf("status %d %.400q", r.Status, r.Text) }

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

// Add checks a request, keeps its checkpoint and returns the signature line.
func (w *Witness) Add(request string) (signature string, err error) { return w.add(request, "") }

// add is Add with the mark of the checkpoint's tree, for a witness that replays.
func (w *Witness) add(request, mark string) (signature string, err error) {
	head, signed, ok := strings.Cut(request, "\n\n")
	if !ok {
		return "", refuse(http.StatusBadRequest, "want a line \"old SIZE\", hashes, an empty line and a checkpoint")
	}
	lines := strings.Split(head, "\n")
	old, proof, err := parseHead(lines)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "%v", err)
	}
	origin, _, _ := strings.Cut(signed, "\n")
	keys, ok := w.logs[origin]
	if !ok {
		return "", refuse(http.StatusNotFound, "the log %.200q is not witnessed here", origin)
	}
	opened, err := note.Open([]byte(signed), keys)
	if err != nil {
		return "", refuse(http.StatusForbidden, "the checkpoint was not signed by the log")
	}
	now, err := parseTree(opened.Text)
	if err != nil || old > now.N {
		return "", refuse(http.StatusBadRequest, "the checkpoint makes no sense after one of %d records", old)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before, err := w.latest(origin)
	if err != nil {
		return "", err
	}
	if err := continues(now, before.Tree, old, proof); err != nil {
		return "", err
	}
	isKept := now.N == before.N && uncounted(before.text) == uncounted(opened.Text)
	if now.N == before.N && before.text != "" && !isKept {
		return "", refuse(http.StatusConflict, "another checkpoint of %d records was signed, which differs in its "+
			"extension lines", now.N)
	}
	if w.Replays && !(isKept && before.isReplayed) {
		if err := w.follows(before, opened.Text, now, mark); err != nil {
			return "", err
		}
		signed, isKept = signed+"\n"+replayedLine, false
	}
	out, err := note.Sign(&note.Note{Text: opened.Text}, w.signer)
	if err != nil {
		return "", fmt.Errorf("cosign: %w", err)
	}
	if !isKept { // anybody may send it again, and a sync each time would wear out the disk
		if err := ownfile.Replace(w.latestFile(origin), []byte(signed)); err != nil {
			return "", err
		}
	}
	return strings.TrimPrefix(string(out), opened.Text+"\n"), nil
}

// uncounted is a checkpoint without what the vault counted, which differs between two of one tree.
func uncounted(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, wire.OpensLine)
	}), "\n")
}

// continues checks that a tree continues the one signed last.
func continues(now, before tlog.Tree, old int64, proof tlog.TreeProof) error {
	switch {
	case old != before.N, old == now.N && old > 0 && now.Hash != before.Hash:
		return &Refusal{Status: http.StatusConflict, Size: before.N, Text: "another checkpoint was signed last"}
	case (old == 0 || old == now.N) && len(proof) > 0:
		return refuse(http.StatusUnprocessableEntity, "the request has a proof where none is needed")
	case old == 0 || old == now.N:
		return nil
	case tlog.CheckTree(proof, now.N, now.Hash, before.N, before.Hash) != nil:
		return refuse(http.StatusUnprocessableEntity,
			"the checkpoint does not continue the one of %d records that was signed last", before.N)
	}
	return nil
}

func parseHead(lines []string) (old int64, proof tlog.TreeProof, err error) {
	text, ok := strings.CutPrefix(lines[0], "old ")
	if old, err = strconv.ParseInt(text, 10, 64); !ok || err != nil || old < 0 || strconv.FormatInt(old, 10) != text {
		return 0, nil, errors.New("want a line \"old SIZE\" first")
	}
	if len(lines) > 1+maxProof {
		return 0, nil, fmt.Errorf("a proof has %d hashes at most", maxProof)
	}
	for _, line := range lines[1:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return 0, nil, errors.New("a line of the proof is not a hash in base64")
		}
		proof = append(proof, hash)
	}
	return old, proof, nil
}

// parseTree reads size and root of a checkpoint's text.
func parseTree(text string) (tlog.Tree, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 {
		return tlog.Tree{}, errors.New("a checkpoint has three lines")
	}
	t, err := tlog.ParseTree([]byte("go.sum database tree\n" + lines[1] + "\n" + lines[2] + "\n"))
	if empty, _ := tlog.TreeHash(0, nil); err == nil && (t.N > maxRecords || t.N == 0 && t.Hash != empty) {
		err = errors.New("no such tree")
	}
	return t, err
}

func (w *Witness) latestFile(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return filepath.Join(w.dir, latestFile+hex.EncodeToString(sum[:16]))
}

// kept is the checkpoint of a log that was signed last, zero for none.
type kept struct {
	tlog.Tree
	text       string
	isReplayed bool // it was signed because its records gave it
}

func (w *Witness) latest(origin string) (k kept, err error) {
	raw, err := os.ReadFile(w.latestFile(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("read the checkpoint signed last: %w", err)
	}
	// it was verified, maybe with a key that the log has replaced since
	if k.Tree, err = parseTree(string(raw)); err != nil {
		return k, fmt.Errorf("the checkpoint signed last is damaged: %w", err)
	}
	text, _, _ := strings.Cut(string(raw), "\n\n")
	k.text, k.isReplayed = text+"\n", strings.HasSuffix(string(raw), "\n"+replayedLine)
	return k, nil
}
