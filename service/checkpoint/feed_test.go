package checkpoint_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/witness"
)

// replays is a witness that can be started anew, and away.
type replays struct {
	t   *testing.T
	dir string
	log string // verifier key
	url string

	mu     sync.Mutex // guards the rest
	w      *witness.Witness
	sent   int         // how often it was sent records
	answer map[int]int // by sent: the status instead of an answer, 0 = the connection breaks
}

func newReplays(t *testing.T) *replays {
	t.Helper()
	log, err := note.NewEd25519VerifierKey(checkpoint.Origin("files.example.org", "svc.testnet"), theKey().Public())
	if err != nil {
		t.Fatal(err)
	}
	r := &replays{t: t, dir: t.TempDir(), log: log}
	r.restart(true)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if req.URL.Path == witness.ReplayPath {
			r.sent++
			if status, ok := r.answer[r.sent]; ok && status == 0 {
				panic(http.ErrAbortHandler)
			} else if ok {
				rw.WriteHeader(status)
				return
			}
		}
		r.w.Handler(nil).ServeHTTP(rw, req)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *replays) restart(isReplaying bool) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.w, err = witness.Open(r.dir, "witness.example.org", []string{r.log}); err != nil {
		r.t.Fatal(err)
	}
	r.w.Replays = isReplaying
}

// process is a process of the service.
func (r *replays) process(s *store.Store, dir string, key checkpoint.Key) *checkpoint.Log {
	r.t.Helper()
	client, err := witness.NewClient(r.url, r.w.Key())
	if err != nil {
		r.t.Fatal(err)
	}
	return openFor(r.t, s, dir, new(settled), key, client)
}

// next has the witness answer so from now on.
func (r *replays) next(answer map[int]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent, r.answer = 0, answer
}

func (r *replays) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

// signs has a process sign, and the witness be sent records so many times.
func (r *replays) signs(what string, l *checkpoint.Log, rows int64, times int) {
	r.t.Helper()
	before := r.times()
	err := l.Update(r.t.Context())
	if sent := r.times() - before; err != nil || l.Signed() != rows || sent != times {
		r.t.Errorf("%s: %d of %d rows are signed, and records were sent %d times, want %d: %v", what, l.Signed(), rows,
			sent, times, err)
	}
}

// A witness that replays is sent the records once, in pieces, whoever is started anew and whichever process sends them.
func TestWitnessReplays(t *testing.T) {
	const piece = vaultwire.MostRecords
	s, dir := ledgerOf(t, 5*piece+1)
	rows, r := int64(5*piece+1), newReplays(t)
	key := &following{keyOf: theKey()}
	l := r.process(s, dir, key)
	r.next(map[int]int{3: http.StatusBadGateway})
	var refused *witness.Refusal
	if err := l.Update(t.Context()); !errors.As(err, &refused) || !l.Behind() {
		t.Errorf("the witness refused something: %v", err)
	}
	r.next(map[int]int{3: 0})
	if err := l.Update(t.Context()); err == nil || !l.Behind() || r.times() != 3 {
		t.Errorf("after a refusal it is sent all, up to the piece that breaks off: %d times, %v", r.times(), err)
	}
	r.restart(true)
	r.next(map[int]int{2: http.StatusTooManyRequests})
	r.signs("it goes on where it broke off, and waits when it is told so", l, rows, 5)
	r.next(nil)
	more := func(n int) {
		appendRows(t, s, n)
		rows += int64(n)
	}
	more(3)
	r.signs("new records", l, rows, 1)
	r.restart(true)
	more(3)
	r.signs("the witness was started anew", l, rows, 1)
	more(piece + 1)
	r.signs("the service was started anew", r.process(s, dir, key), rows, 2)
	other := r.process(s, t.TempDir(), key)
	r.signs("another process, which has nothing else", other, rows, 0)
	more(2)
	r.signs("another process", other, rows, 1)
	more(2)
	r.signs("the first one, which the others overtook", l, rows, 3)
	r.restart(false)
	more(2)
	r.signs("it does not replay any more", l, rows, 1)
	more(2)
	r.signs("it does still not", l, rows, 0)
	r.restart(true)
	r.signs("what it signed it signs again", l, rows, 0)
	more(2)
	r.signs("it replays again, from the first record on", l, rows, int(rows/piece)+1)
}

// Threat 6: the records of a ledger go to the configured witness alone, wherever its address leads.
func TestThreat6RecordsGoToTheWitnessAlone(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the records went elsewhere")
	}))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == witness.ReplayPath {
			http.Redirect(rw, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		rw.WriteHeader(http.StatusPreconditionRequired)
		_, _ = fmt.Fprintln(rw, 0)
	}))
	t.Cleanup(server.Close)
	r := newReplays(t)
	r.url = server.URL
	s, dir := ledgerOf(t, 3)
	if err := r.process(s, dir, &following{keyOf: theKey()}).Update(t.Context()); err == nil {
		t.Error("nothing was signed")
	}
}
