// Package checkpoint publishes the ledger as a transparency log: a Merkle tree over the
// hashes of its records, signed checkpoints of the tree and of the tree of chains, and
// tiles from which every client can compute inclusion and consistency proofs. It also
// proves and signs the end of a chain. Formats are those of c2sp.org/tlog-checkpoint and
// c2sp.org/tlog-tiles; service/LEDGER.md describes them for outsiders.
//
// The SQL ledger stays the primary record. The tree follows it in the order of places and is a
// pure function of it: every process over the same database computes and signs the same
// tree, even several of them over one directory. Only hashes leave the package.
//
// A log server's library such as Tessera v1.0.4 does not fit. It assigns places to
// entries itself, so two processes that follow one ledger would add a row twice. Its
// POSIX driver panics in a goroutine of its own, and ends the service, when its
// directory cannot be opened. Its fsck accepts the files that are served here.
package checkpoint

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/witness"
)

const (
	// Dir is the folder of the tree in the data directory.
	Dir      = "tlog"
	noteFile = "checkpoint" // the newest signed checkpoint
	pageRows = 4096         // records read in one transaction
	interval = time.Second  // between two looks at the ledger
	// busy is that interval while this process commits. A witness, who serves others too, is not asked so often.
	busy = 250 * time.Millisecond

	// cosignEvery is how often the witness signs an unchanged checkpoint anew, so that members see
	// that it is not an old one. cosignPause is the pause after it did not.
	cosignEvery = time.Minute
	cosignPause = 10 * time.Second
)

// IsSigned reports whether a data directory has a signed checkpoint.
func IsSigned(dataDir string) bool {
	_, err := os.Stat(filepath.Join(dataDir, Dir, noteFile))
	return err == nil
}

// ErrContradiction means that the ledger does not match a signed checkpoint any more.
// The text names the first row in question.
var ErrContradiction = errors.New("the ledger contradicts its signed checkpoint")

// Checkpoint is a signed statement about the first N records.
type Checkpoint struct {
	Origin string // which log: the note's first line
	tlog.Tree
	Chains chain.Hash // root of the tree of chains
	Opens  wire.Opens // of the vault that signed it
	Note   []byte     // as it is served; nil when nothing was signed yet

	// tree has the root Chains; nil in one that was read and not compared yet.
	tree *chain.Tree

	key Key // that signed it; nil in one that was read
}

// Key signs for a log. The vault has the secret and writes what is signed: nothing but signatures comes out of it.
type Key interface {
	Version() int64
	Public() ed25519.PublicKey
	// Sign signs with this version of the key.
	Sign(ctx context.Context, q vaultwire.Sign) (vaultwire.Signed, error)
	// The others are those of [vaultwire.Vault].
	Extend(ctx context.Context, e vaultwire.Extension) error
	NewestTree(ctx context.Context) (vaultwire.Tree, error)
	Follow(ctx context.Context, q vaultwire.Follow) (vaultwire.Followed, error)
	Unvouched(ctx context.Context, q vaultwire.LettingIn) (vaultwire.Unvouched, error)
}

// Keys returns the keys of a log as a transaction sees them, the oldest first. The
// newest signs; another process may just have added it.
type Keys func(ctx context.Context, tx *store.Tx) ([]Key, error)

// Places tells of the records of the ledger.
type Places interface {
	// Settle waits until every record from before has its place.
	Settle(ctx context.Context) error
	// OnCommit adds a function that is called after each commit of this process. It must return at once.
	OnCommit(f func())
}

// Log is the tree in one data directory. It is safe for concurrent use. It
// makes no file before the first [Log.Update].
type Log struct {
	store  *store.Store
	dir    string
	origin string
	keys   Keys
	places Places
	logger *slog.Logger
	now    func() time.Time

	news     chan struct{} // a commit of this process; of one, for all that come meanwhile
	interval time.Duration // between two looks
	busy     time.Duration // the same while there are commits

	witness *witness.Client // nil = none; used in turn
	names   *following

	// turn is held while the tree grows, and guards feed, walk, chains and compared. It
	// comes before mu.
	turn      chan struct{}
	feed      feed
	told      sync.Once   // that the witness replays
	walk      ledger.Walk // newest record that is in the tree
	chains    chain.Tree  // where the chains end there
	compared  bool        // the records below the checkpoint found at the start were compared with it
	countedAt time.Time   // when the vault last said how many keys it gave out
	cosignAt  time.Time   // when the witness is asked again, at the earliest

	behindAt    vaultwire.Tree // of the vault, when it was behind walk
	behindSince time.Time      // since when it is that

	mu     sync.Mutex // guards the rest
	hashes *os.File
	signed Checkpoint // newest
	given  chain.Tree // where the chains end in the newest tree of the log that the vault has
	failed error      // ErrContradiction or ledger.ErrBroken: nothing is signed any more
	behind bool       // the last attempt to sign failed, and the next may succeed
}

// New returns the log of a data directory. origin names it in checkpoints; now is the
// clock of the ledger's records. With a witness, nil for none, the log publishes only checkpoints that the witness
// signed too. memory is that of the service, in bytes: a part of it is for names that are read.
func New(s *store.Store, dataDir, origin string, keys Keys, places Places, w *witness.Client, memory int64,
	logger *slog.Logger, now func() time.Time) *Log {
	l := &Log{store: s, dir: filepath.Join(dataDir, Dir), origin: origin, keys: keys, places: places, witness: w,
		logger: logger, now: now, names: newFollowing(s, memory, logger), turn: make(chan struct{}, 1),
		news: make(chan struct{}, 1), interval: interval, busy: busy}
	if w != nil {
		l.busy = interval
	}
	places.OnCommit(l.committed)
	return l
}

// Origin names the log of a contract at a public address, as
// c2sp.org/tlog-checkpoint recommends: host/contract.
func Origin(host, contract string) string {
	return strings.NewReplacer(" ", "", "+", "").Replace(host + "/" + contract)
}

// Problem returns why no checkpoint is signed any more, or nil.
func (l *Log) Problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Behind reports that the newest records could not be signed, for example while a
// witness does not answer.
func (l *Log) Behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.behind
}

// Opens is what the vault counted, in the newest checkpoint of this process.
func (l *Log) Opens() wire.Opens {
	signed, _ := l.newest()
	return signed.Opens
}

// newest returns the checkpoint and the file that are served.
func (l *Log) newest() (Checkpoint, *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signed, l.hashes
}

// Close closes the tree, and ends what follows names.
func (l *Log) Close() error {
	l.names.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.witness != nil {
		l.witness.Close()
	}
	if l.hashes == nil {
		return nil
	}
	file := l.hashes
	l.hashes = nil // a second call does nothing
	return file.Close()
}

// begin waits for the turn. The caller calls end after it.
func (l *Log) begin(ctx context.Context) (end func(), err error) {
	select {
	case l.turn <- struct{}{}:
		end = func() { <-l.turn }
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := l.Problem(); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// Cosign has the witness sign the newest checkpoint once more if it did so a minute ago. It does
// nothing without a witness. After an error the checkpoint stays as it is.
func (l *Log) Cosign(ctx context.Context) error {
	end, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	signed, _ := l.newest()
	wait := l.cosignAt.Sub(l.now())
	if l.witness == nil || signed.tree == nil || wait > 0 && wait <= cosignEvery { // else the clock went back
		return nil
	}
	l.cosignAt = l.now().Add(cosignPause)
	return l.noted(ctx, true)
}

// Update brings the tree up to the newest record and signs it. The first call compares
// every record with the tree on disk. [ErrContradiction] and [ledger.ErrBroken] are
// final: the tree stays as it is for the investigation.
func (l *Log) Update(ctx context.Context) error {
	end, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return l.noted(ctx, false)
}

// noted is update, whose error it notes. That of a signature once more is not one of new records.
func (l *Log) noted(ctx context.Context, again bool) error {
	err := l.update(ctx, again)
	for space.IsFull(err) && space.GiveUp(filepath.Dir(l.dir)) {
		err = l.update(ctx, again)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, ErrContradiction), errors.Is(err, ledger.ErrBroken):
		l.failed = err
	case !again && (err == nil || ctx.Err() == nil): // otherwise the caller has left
		l.behind = err != nil
	}
	return err
}

// Settle waits until every record from before has its place, at most a few seconds: then it is [wire.CodeUnavailable].
func (l *Log) Settle(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	err := l.places.Settle(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return unproven("the ledger's newest records have no place in it yet: try again in a moment", err)
	}
	return err
}

// open opens the tree on disk, or begins an empty one.
func (l *Log) open(keys []Key) error {
	if _, file := l.newest(); file != nil {
		return nil
	}
	if err := ownfile.MakeFolder(l.dir); err != nil {
		return fmt.Errorf("make tree directory: %w", err)
	}
	found, err := l.load(keys)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(l.dir, hashesFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open tree: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signed, l.hashes = found, file
	return nil
}

// load reads the newest signed checkpoint; a missing one is no error. A checkpoint that
// this service did not sign is a contradiction.
func (l *Log) load(keys []Key) (Checkpoint, error) {
	raw, err := os.ReadFile(filepath.Join(l.dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, nil
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	c, err := parseAny(raw, keys)
	if err != nil {
		return c, fmt.Errorf("%w: %s was not signed with a key of this log: %w", ErrContradiction,
			filepath.Join(Dir, noteFile), err)
	}
	return c, nil
}

// text is the body of a checkpoint: origin, size, root, root of the tree of chains, counts of keys.
func (c Checkpoint) text() string {
	return wire.CheckpointText(c.Origin, c.N, chain.Hash(c.Hash), c.Chains, c.Opens)
}

// parse reads a checkpoint that key signed, under whatever origin it has.
func parse(raw []byte, key ed25519.PublicKey) (Checkpoint, error) {
	origin, _, _ := strings.Cut(string(raw), "\n")
	text, err := note.NewEd25519VerifierKey(origin, key)
	if err != nil {
		return Checkpoint{}, err
	}
	verifier, err := note.NewVerifier(text)
	if err != nil {
		return Checkpoint{}, err
	}
	opened, err := note.Open(raw, note.VerifierList(verifier))
	if err != nil {
		return Checkpoint{}, err
	}
	c := Checkpoint{Origin: origin, Note: raw}
	lines := strings.SplitN(opened.Text, "\n", 5)
	if len(lines) < 5 {
		return c, errors.New("it has too few lines")
	}
	if c.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return c, errors.New("its size is not a number")
	}
	root, err := tlog.ParseHash(strings.TrimPrefix(lines[3], wire.ChainsLine))
	if err != nil {
		return c, errors.New("its root of chains is not a hash")
	}
	if counts := strings.TrimSuffix(lines[4], "\n"); counts != "" { // of an earlier build without
		if c.Opens, err = wire.ParseOpens(counts); err != nil {
			return c, fmt.Errorf("its counts of keys: %w", err)
		}
	}
	c.Chains = chain.Hash(root)
	if c.Hash, err = tlog.ParseHash(lines[2]); err != nil || c.text() != opened.Text {
		return c, errors.New("it is not written as this service writes it")
	}
	return c, nil
}

// VerifierKey is the public key under which checkpoints of origin are verified,
// in the form of golang.org/x/mod/sumdb/note.
func (l *Log) VerifierKey(ctx context.Context) (string, error) {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return "", err
	}
	return verifierKey(l.origin, newest(keys))
}

func verifierKey(origin string, key Key) (string, error) {
	return note.NewEd25519VerifierKey(origin, key.Public())
}

// signer has the signature of one note.
type signer struct {
	note.Verifier
	text   string // the verifier key
	signed vaultwire.Signed
}

func newSigner(ctx context.Context, key Key, q vaultwire.Sign) (*signer, error) {
	text, err := verifierKey(q.Origin, key)
	if err != nil {
		return nil, fmt.Errorf("make verifier key: %w", err)
	}
	v, err := note.NewVerifier(text)
	if err != nil {
		return nil, fmt.Errorf("name the log %q: %w", q.Origin, err)
	}
	signed, err := key.Sign(ctx, q)
	return &signer{v, text, signed}, err
}

// Sign gives the signature of the note, whose text the vault wrote too.
func (s *signer) Sign([]byte) ([]byte, error) { return s.signed.Signature, nil }
