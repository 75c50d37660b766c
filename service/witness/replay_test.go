package witness_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/witness"
)

// entry is a record, in the chain where a service says that it is.
type entry struct{ chain, text string }

// chained is a log whose records are in chains.
type chained struct {
	*log
	chains chain.Tree
	ends   map[string]chain.Place
	opens  wire.Opens
}

func newChained(t *testing.T) *chained {
	t.Helper()
	return &chained{log: newLog(t, 1), ends: map[string]chain.Place{}}
}

// shown is the checkpoint of a log, and the tree in it.
func (l *chained) shown() (checkpoint string, t vaultwire.Tree) {
	root, err1 := tlog.TreeHash(l.n, l)
	t = vaultwire.Tree{Records: l.n, Root: chain.Hash(root), Chains: l.chains.Root()}
	raw, err2 := note.Sign(&note.Note{Text: wire.CheckpointText(origin, t.Records, t.Root, t.Chains, l.opens)},
		l.signer)
	if err := errors.Join(err1, err2); err != nil {
		l.t.Fatal(err)
	}
	return string(raw), t
}

// add adds records, and returns what a witness is sent of them.
func (l *chained) add(list ...entry) (q witness.Replay) {
	var err error
	before, keys := l.chains, []chain.Hash{}
	_, q.From.Tree = l.shown()
	if q.From.Edge, err = vaultwire.EdgeOf(l.n, l); err != nil {
		l.t.Fatal(err)
	}
	for _, e := range list {
		before, body := l.ends[e.chain], chain.Key(e.text)
		at := chain.Place{Number: before.Number + 1, Hash: chain.Link(before.Hash, body)}
		more, err := tlog.StoredHashesForRecordHash(l.n, tlog.RecordHash(at.Hash[:]), l)
		if err != nil {
			l.t.Fatal(err)
		}
		l.hashes, l.n, l.chains = append(l.hashes, more...), l.n+1, l.chains.With(e.chain, at)
		l.ends[e.chain], keys = at, append(keys, chain.Key(e.chain))
		q.Next.Records = slices.Concat(q.Next.Records, keys[len(keys)-1][:], body[:])
	}
	_, q.Next.Tree = l.shown()
	q.Base, q.Next.Chains = vaultwire.NoRecords(), before.Part(keys)
	return q
}

// asked sends a witness a request, and returns its answer.
func asked(w *witness.Witness, path, mark string, request any) (status int, text string) {
	body, ok := request.(string)
	if !ok {
		raw, err := json.Marshal(request)
		if err != nil {
			return 0, err.Error()
		}
		body = string(raw)
	}
	return sent(w, "192.0.2.1", path, mark, strings.NewReader(body))
}

// sent is asked for a body from an address.
func sent(w *witness.Witness, from, path, mark string, body io.Reader) (status int, text string) {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.RemoteAddr = from + ":1234"
	r.Header.Set("Svcfs-Replayed", mark)
	rw := httptest.NewRecorder()
	w.Handler(nil).ServeHTTP(rw, r)
	return rw.Code, rw.Body.String()
}

func replaying(t *testing.T, dir string, l *log, replays bool) *witness.Witness {
	t.Helper()
	w, err := witness.Open(dir, "w.example.org", []string{l.key})
	if err != nil {
		t.Fatal(err)
	}
	w.Replays = replays
	return w
}

// Threat 6: a service with two chains of one group shows one at one size and the other at the next. A witness that
// replays signs one of them, whatever it is told of the records, and one that does not signs both.
func TestThreat6TwoChainsOfAGroup(t *testing.T) {
	one, other := entry{"group:g", "a"}, entry{"group:g", "b"}
	third := entry{"group:g", "c"}
	for _, replays := range []bool{true, false} {
		dir := t.TempDir()
		l := newChained(t)
		w := replaying(t, dir, l.log, replays)
		mark := ""
		first := l.add(one)
		if replays {
			_, mark = asked(w, witness.ReplayPath, "", first)
		}
		shown, base := l.shown()
		if status, text := asked(w, witness.Path, mark, "old 0\n\n"+shown); status != http.StatusOK {
			t.Fatalf("the first checkpoint: %d %s", status, text)
		}
		w = replaying(t, dir, l.log, replays) // what it signed is on disk
		for what, told := range map[string][]entry{
			"the second chain as such":        {one, other},
			"the first chain as another one":  {{"group:h", "a"}, other},
			"the second chain as another one": {one, {"group:h", "b"}},
			"no records":                      nil,
		} {
			mark := ""
			for i := range told {
				lie := newChained(t)
				lie.add(told[:i]...)
				q := lie.add(told[i])
				q.Mark = mark
				if i == 1 && told[0] == one {
					q.Base, q.Mark = base, ""
				}
				if status, text := asked(w, witness.ReplayPath, "", q); status == http.StatusOK {
					mark = text
				}
			}
			hidden := *l
			hidden.log = &log{t: t, signer: l.signer, hashes: slices.Clone(l.hashes), n: l.n}
			hidden.ends = map[string]chain.Place{}
			hidden.add(other) // the tree of chains has no other end of the group
			shown, _ := hidden.shown()
			status, text := asked(w, witness.Path, mark, "old 1\n"+hidden.proof(1)+"\n"+shown)
			if replays && (status != http.StatusPreconditionRequired || !strings.HasPrefix(text, "1\n")) ||
				!replays && status != http.StatusOK {
				t.Errorf("replays: %t, %s: %d %s", replays, what, status, text)
			}
			if !replays {
				break
			}
		}
		if !replays {
			continue
		}
		next := l.add(third)
		next.Base = base
		_, mark = asked(w, witness.ReplayPath, "", next)
		shown, _ = l.shown()
		if status, text := asked(w, witness.Path, mark, "old 1\n"+l.proof(1)+"\n"+shown); status != http.StatusOK {
			t.Errorf("the first chain goes on: %d %s", status, text)
		}
	}
}

// Threat 6: what is not the records from one tree to the other gets no mark, and the answer says what to do.
func TestThreat6RecordsThatLie(t *testing.T) {
	l := newChained(t)
	w := replaying(t, t.TempDir(), l.log, true)
	first := l.add(entry{"group:g", "a"}, entry{"group:h", "b"})
	_, mark := asked(w, witness.ReplayPath, "", first)
	_, stranger := asked(replaying(t, t.TempDir(), l.log, true), witness.ReplayPath, "", first)
	q := l.add(entry{"group:g", "c"}, entry{"group:i", "d"}, entry{"group:g", "e"})
	q.Mark = mark
	raw, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	size := len(q.Next.Records) / 3
	changed := func(change func(q *witness.Replay)) witness.Replay {
		bad := q
		bad.Next.Records = slices.Clone(q.Next.Records)
		change(&bad)
		return bad
	}
	const lie, stray = "see with svcd audit which is wrong", "send the records behind the checkpoint"
	for what, tc := range map[string]struct {
		request any
		status  int
		says    string
	}{
		"skipped": {changed(func(q *witness.Replay) { q.Next.Records = q.Next.Records[size:] }), 422, lie},
		"cut":     {changed(func(q *witness.Replay) { q.Next.Records = q.Next.Records[:size+1] }), 422, lie},
		"repeated": {changed(func(q *witness.Replay) { copy(q.Next.Records[2*size:], q.Next.Records[:size]) }), 422,
			lie},
		"a body":  {changed(func(q *witness.Replay) { q.Next.Records[size-1]++ }), 422, lie},
		"a chain": {changed(func(q *witness.Replay) { q.Next.Records[size]++ }), 422, lie},
		"too many": {changed(func(q *witness.Replay) {
			q.Next.Records = make([]byte, size*(vaultwire.MostRecords+1))
		}), 422, lie},
		"an edge and no records": {witness.Replay{Base: q.Base, From: vaultwire.Extension{Tree: q.Base},
			Next: l.add().From}, 422, lie},
		"no mark":                   {changed(func(q *witness.Replay) { q.Mark = "" }), 403, stray},
		"a mark of another witness": {changed(func(q *witness.Replay) { q.Mark = stranger }), 403, stray},
		"a mark from another tree":  {changed(func(q *witness.Replay) { q.Base.Chains[0]++ }), 403, stray},
		"a mark of another tree":    {changed(func(q *witness.Replay) { q.From.Tree.Chains[0]++ }), 403, stray},
		"cut off":                   {string(raw[:len(raw)-1]), 400, "send them again"},
		"too long":                  {strings.Repeat(" ", vaultwire.MaxFrameBytes) + string(raw), 400, "too long"},
	} {
		if status, text := asked(w, witness.ReplayPath, "", tc.request); status != tc.status ||
			!strings.Contains(text, tc.says) {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if status, text := asked(w, witness.ReplayPath, "", q); status != http.StatusOK {
		t.Errorf("the records: %d %s", status, text)
	}
	if status, _ := asked(replaying(t, t.TempDir(), l.log, false), witness.ReplayPath, "", q); status != 404 {
		t.Errorf("a witness that does not replay answers %d", status)
	}
	plain := newLog(t, 1)
	plain.grow(1, "a")
	if status, text := asked(w, witness.Path, "", "old 0\n\n"+plain.checkpoint()); status != 422 ||
		!strings.Contains(text, "without --replay") {
		t.Errorf("a log without chains: %d %s", status, text)
	}
}

// What was signed without its records is replayed from the first one on.
func TestWitnessThatReplaysFromNowOn(t *testing.T) {
	l, dir := newChained(t), t.TempDir()
	q := l.add(entry{"group:g", "a"}, entry{"group:g", "b"})
	shown, _ := l.shown()
	for i, tc := range []struct {
		replays bool
		old     int
		marked  bool
		status  int
	}{
		{false, 0, false, 200},
		{true, 2, false, 428},
		{true, 2, true, 200},
		{true, 2, false, 200},
		{false, 2, false, 200},
		{true, 2, false, 200},
	} {
		w, mark := replaying(t, dir, l.log, tc.replays), ""
		if tc.marked {
			_, mark = asked(w, witness.ReplayPath, "", q)
		}
		status, text := asked(w, witness.Path, mark, fmt.Sprintf("old %d\n\n%s", tc.old, shown))
		if status != tc.status || status == 428 && !strings.HasPrefix(text, "0\n") {
			t.Errorf("%d: %d %s", i, status, text)
		}
	}
}

// What the vault counted changes while the log does not, and both are signed; no other line may change.
func TestWitnessSignsOtherCounts(t *testing.T) {
	l := newChained(t)
	w := replaying(t, t.TempDir(), l.log, false)
	l.add(entry{"group:g", "a"})
	before := l.chains
	for i, tc := range []struct {
		opens  wire.Opens
		chains chain.Tree
		old    int
		status int
	}{
		{wire.Opens{Since: 1}, before, 0, 200},
		{wire.Opens{Since: 1, Keys: 2}, before, 1, 200},
		{wire.Opens{}, before, 1, 200},
		{wire.Opens{Since: 1}, before.With("group:h", chain.Place{Number: 1}), 1, 409},
	} {
		l.opens, l.chains = tc.opens, tc.chains
		shown, _ := l.shown()
		status, text := asked(w, witness.Path, "", fmt.Sprintf("old %d\n\n%s", tc.old, shown))
		if status != tc.status {
			t.Errorf("%d: %d %s", i, status, text)
		}
	}
}

// Threat 6: who begins replays and stalls holds nobody up but the own address, which has a bound, until they end.
func TestThreat6ReplaysThatStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newChained(t)
		w := replaying(t, t.TempDir(), l.log, true)
		first, err := json.Marshal(l.add(entry{"group:g", "a"}))
		if err != nil {
			t.Fatal(err)
		}
		from := func(address string, want int) {
			t.Helper()
			status, text := sent(w, address, witness.ReplayPath, "", bytes.NewReader(first))
			if status != want {
				t.Errorf("%s: %d %s", address, status, text)
			}
		}
		stalled, end := io.Pipe()
		for i := range 2 * 16 {
			go sent(w, fmt.Sprintf("192.0.2.%d", 2+i%2), witness.ReplayPath, "", stalled)
		}
		synctest.Wait()
		from("192.0.2.1", http.StatusOK)
		from("192.0.2.2", http.StatusTooManyRequests)
		end.Close()
		synctest.Wait()
		from("192.0.2.2", http.StatusOK)
	})
}
