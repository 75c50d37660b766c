package witness_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire/cosign"
	"github.com/svcfs/svcfs/service/witness"
)

const origin = "files.example.org/svc.testnet"

// log is a small transparency log in memory.
type log struct {
	t      *testing.T
	signer note.Signer
	key    string
	hashes []tlog.Hash
	n      int64
}

func newLog(t *testing.T, seed byte) *log {
	t.Helper()
	secret := ed25519.NewKeyFromSeed(append(make([]byte, 31), seed))
	public, err := note.NewEd25519VerifierKey(origin, secret.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(public, "+", 3)
	s, err := note.NewSigner("PRIVATE+KEY+" + origin + "+" + parts[1] + "+" +
		base64.StdEncoding.EncodeToString(append([]byte{1}, secret.Seed()...)))
	if err != nil {
		t.Fatal(err)
	}
	return &log{t: t, signer: s, key: public}
}

func (l *log) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

// grow adds records with a text.
func (l *log) grow(n int, text string) {
	for range n {
		sum := sha256.Sum256(fmt.Append(nil, text, l.n))
		more, err := tlog.StoredHashesForRecordHash(l.n, tlog.RecordHash(sum[:]), l)
		if err != nil {
			l.t.Fatal(err)
		}
		l.hashes = append(l.hashes, more...)
		l.n++
	}
}

func (l *log) checkpoint() string {
	root, err := tlog.TreeHash(l.n, l)
	if err != nil {
		l.t.Fatal(err)
	}
	raw, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\nan extension\n", origin, l.n, root)}, l.signer)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(raw)
}

func (l *log) proof(old int64) (text string) {
	proof, err := tlog.ProveTree(l.n, old, l)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, h := range proof {
		text += h.String() + "\n"
	}
	return text
}

// The answers of c2sp.org/tlog-witness, one after the other of one witness.
func TestWitnessAnswers(t *testing.T) {
	l, other, forked := newLog(t, 1), newLog(t, 2), newLog(t, 1)
	dir := t.TempDir()
	w, err := witness.Open(dir, "w.example.org", []string{l.key})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w.Handler(nil))
	t.Cleanup(server.Close)
	verifier, err := cosign.NewVerifier(w.Key())
	if err != nil {
		t.Fatal(err)
	}
	l.grow(5, "a")
	five := l.checkpoint()
	l.grow(4, "a")
	nine := l.checkpoint()
	forked.grow(5, "a")
	forked.grow(4, "b")
	other.grow(5, "a")
	stranger := strings.ReplaceAll(five, origin, "elsewhere.example.org")
	long := strings.Repeat(sixtyFour(1), 64)
	for _, tc := range []struct {
		name, request string
		status        int
		body          string
	}{
		{"nothing", "", 400, ""},
		{"no size", "size 0\n\n" + five, 400, ""},
		{"zeroes", "old 00\n\n" + five, 400, ""},
		{"negative", "old -1\n\n" + five, 400, ""},
		{"no hash", "old 0\nx\n\n" + five, 400, ""},
		{"64 hashes", "old 0\n" + long + "\n" + five, 400, ""},
		{"too long", "old 0\n\n" + strings.Repeat("x", 70<<10), 400, ""},
		{"another log", "old 0\n\n" + stranger, 404, ""},
		{"another key", "old 0\n\n" + other.checkpoint(), 403, ""},
		{"old beyond", "old 6\n\n" + five, 400, ""},
		{"old that was not", "old 3\n\n" + five, 409, "0\n"},
		{"proof of nothing", "old 0\n" + sixtyFour(1) + "\n" + five, 422, ""},
		{"first", "old 0\n\n" + five, 200, "— w.example.org "},
		{"the same", "old 5\n\n" + five, 200, "— w.example.org "},
		{"behind", "old 0\n\n" + nine, 409, "5\n"},
		{"no proof", "old 5\n\n" + nine, 422, ""},
		// the first history of nine
		{"a fork", "old 5\n" + forked.proof(5) + "\n" + forked.checkpoint(), 200, "— w.example.org "},
		{"the other history", "old 9\n\n" + nine, 409, "9\n"},
		{"continued otherwise", "old 5\n" + l.proof(5) + "\n" + nine, 409, "9\n"},
	} {
		resp, err := http.Post(server.URL+witness.Path, "", strings.NewReader(tc.request))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tc.status || !strings.HasPrefix(string(raw), tc.body) {
			t.Errorf("%s: %d %q, %v, want %d %q", tc.name, resp.StatusCode, raw, err, tc.status, tc.body)
		}
		if tc.status == 409 && resp.Header.Get("Content-Type") != "text/x.tlog.size" {
			t.Errorf("%s: type %s", tc.name, resp.Header.Get("Content-Type"))
		}
		if tc.status == 200 {
			_, signed, _ := strings.Cut(tc.request, "\n\n")
			if _, err := note.Open([]byte(signed+string(raw)), note.VerifierList(verifier)); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	}
	t.Run("it remembers, and keeps its key", func(t *testing.T) {
		again, err := witness.Open(dir, "w.example.org", []string{l.key})
		if err != nil || again.Key() != w.Key() {
			t.Fatalf("opened again: key %s, %v", again.Key(), err)
		}
		if _, err := again.Add("old 0\n\n" + nine); err == nil {
			t.Error("after a restart it signs another history")
		}
		if info, err := os.Stat(filepath.Join(dir, "witness.key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key: %v, %v", info, err)
		}
	})
}

// Threat 31: an address that sends without a pause is told to wait, and others are served; the clients of a
// trusted proxy are told apart.
func TestThreat31WitnessCallers(t *testing.T) {
	l := newLog(t, 1)
	l.grow(5, "a")
	w, err := witness.Open(t.TempDir(), "w.example.org", []string{l.key})
	if err != nil {
		t.Fatal(err)
	}
	handler := w.Handler([]netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")})
	send := func(from, forwarded string) int {
		r := httptest.NewRequest(http.MethodPost, witness.Path, strings.NewReader("old 0\n\n"+l.checkpoint()))
		r.RemoteAddr = from + ":1234"
		r.Header.Set("X-Forwarded-For", forwarded)
		rw := httptest.NewRecorder()
		handler.ServeHTTP(rw, r)
		if rw.Code == http.StatusTooManyRequests && rw.Header().Get("Retry-After") == "" {
			t.Error("it is not said when to ask again")
		}
		return rw.Code
	}
	flood := func(from, forwarded string) {
		t.Helper()
		for range 10_000 {
			if send(from, forwarded) == http.StatusTooManyRequests {
				return
			}
		}
		t.Errorf("%s, %s: 10,000 requests without an end are answered", from, forwarded)
	}
	flood("192.0.2.1", "")
	flood("192.0.2.1", "198.51.100.7") // no proxy that is trusted
	flood("10.0.0.1", "192.0.2.2")
	for _, other := range [][2]string{{"192.0.2.3", ""}, {"10.0.0.1", "192.0.2.4"}} {
		if status := send(other[0], other[1]); status != http.StatusOK && status != http.StatusConflict {
			t.Errorf("another address, %s: status %d", other, status)
		}
	}
}

// surplus is a connection from an address that remembers whether the witness closed it.
type surplus struct {
	net.Conn
	from   string
	closed bool
}

func (c *surplus) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1234))
}

func (c *surplus) Close() error {
	c.closed = true
	return nil
}

// Threat 31: connections that send nothing do not keep others out, and one address has few.
func TestThreat31WitnessConnections(t *testing.T) {
	w, err := witness.Open(t.TempDir(), "w.example.org", nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		from func(i int) string
		open int // of 300 connections
	}{
		"one address": {func(int) string { return "192.0.2.1" }, 16},
		"many addresses": {func(i int) string {
			return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()
		}, 256},
	} {
		server := w.Server(nil)
		if server.ReadTimeout == 0 || server.WriteTimeout == 0 || server.IdleTimeout == 0 {
			t.Error("a connection stays open for ever")
		}
		list := make([]*surplus, 300)
		for i := range list {
			list[i] = &surplus{from: tc.from(i)}
			server.ConnState(list[i], http.StateNew)
			server.ConnState(list[i], http.StateActive)
		}
		open := 0
		for _, c := range list {
			if !c.closed {
				open++
			}
		}
		if open != tc.open {
			t.Errorf("%s: %d connections are open, want %d", what, open, tc.open)
		}
	}
}

// An unchanged checkpoint is signed again, and costs no write: its file stays the same.
func TestWitnessKeepsOnce(t *testing.T) {
	l, dir := newLog(t, 1), t.TempDir()
	w, err := witness.Open(dir, "w.example.org", []string{l.key})
	if err != nil {
		t.Fatal(err)
	}
	kept := func() os.FileInfo {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "latest-*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		info, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	l.grow(5, "a")
	add := func(request string) {
		t.Helper()
		if _, err := w.Add(request); err != nil {
			t.Fatal(err)
		}
	}
	add("old 0\n\n" + l.checkpoint())
	first := kept()
	add("old 5\n\n" + l.checkpoint())
	if !os.SameFile(first, kept()) {
		t.Error("an unchanged checkpoint was written again")
	}
	l.grow(1, "a")
	add("old 5\n" + l.proof(5) + "\n" + l.checkpoint())
	if os.SameFile(first, kept()) {
		t.Error("a new checkpoint was not written")
	}
}

// Witnesses that start at the same time in a new directory have one key.
func TestWitnessesStartTogether(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		start, keys := make(chan struct{}), make(chan string)
		const together = 8
		for range together {
			go func() {
				<-start
				w, err := witness.Open(dir, "w.example.org", nil)
				if err != nil {
					keys <- err.Error()
					return
				}
				keys <- w.Key()
			}()
		}
		close(start)
		first := <-keys
		for range together - 1 {
			if next := <-keys; next != first {
				t.Fatalf("two keys of one directory: %s and %s", first, next)
			}
		}
	}
}

func sixtyFour(n int) string {
	return strings.Repeat(base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n", n)
}

func TestWitnessRefusesToOpen(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "witness.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*witness.Witness, error){
		"damaged key": func() (*witness.Witness, error) { return witness.Open(dir, "w", nil) },
		"bad log":     func() (*witness.Witness, error) { return witness.Open(t.TempDir(), "w", []string{"x"}) },
		"bad name":    func() (*witness.Witness, error) { return witness.Open(t.TempDir(), "a witness", nil) },
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for url, key := range map[string]string{"witness.example.org": "", "https://witness.example.org": "w+00000000+x"} {
		if _, err := witness.NewClient(url, key); err == nil {
			t.Errorf("client of %s with key %q", url, key)
		}
	}
}
