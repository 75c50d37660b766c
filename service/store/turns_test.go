package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/store"
)

// onPostgres is one process over a database of PostgreSQL.
func onPostgres(t *testing.T) *store.Store {
	t.Helper()
	return sharing(t, 1)[0]
}

// held is a write that is under way until the test lets it go.
type held struct {
	leave  chan struct{}
	answer chan error
}

// hold begins a write of some chains, and returns when it is under way.
func hold(t *testing.T, s *store.Store, chains store.Chains) held {
	h := held{make(chan struct{}), make(chan error, 1)}
	inside := make(chan struct{})
	go func() { h.answer <- s.Write(t.Context(), chains, holding(t.Context(), inside, h.leave)) }()
	<-inside
	return h
}

func (h held) end(t *testing.T) {
	t.Helper()
	close(h.leave)
	if err := <-h.answer; err != nil {
		t.Error(err)
	}
}

// waiters are writes that wait in the queue of a store, one after the other.
type waiters struct {
	s       *store.Store
	answers []chan error
	ids     []*int64 // of the transaction that made each write
}

// add adds a write, and returns when it waits.
func (w *waiters) add(ctx context.Context, t *testing.T, chains store.Chains) {
	t.Helper()
	answer, id, before := make(chan error, 1), new(int64), w.s.Waiting()
	w.answers, w.ids = append(w.answers, answer), append(w.ids, id)
	go func() {
		answer <- w.s.Write(ctx, chains, func(tx *store.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT txid_current()").Scan(id)
		})
	}()
	proctest.Eventually(t, "it waits", func() bool { return w.s.Waiting() == before+1 })
}

func (w *waiters) end(t *testing.T) {
	t.Helper()
	for i, answer := range w.answers {
		if err := <-answer; err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
}

// While a commit waits for another process, a write of other chains goes in a commit beside it. Of the same chains one
// joins it that needs no others, and those behind one that does wait with that one, in their order.
func TestOtherChainsGoBeside(t *testing.T) {
	list := sharing(t, 2)
	s, ctx := list[0], t.Context()
	other := hold(t, list[1], store.Named("a"))
	defer s.Announce().End() // or a commit would take one write alone
	first, behind := make(chan error, 1), waiters{s: s}
	var id int64
	go func() {
		first <- s.Write(ctx, store.Named("a", "b"), func(tx *store.Tx) error {
			return tx.QueryRowContext(ctx, "SELECT txid_current()").Scan(&id)
		})
	}()
	waitForLocks(t, s, 1)
	if err := appended(ctx, s, store.Named("c"), "beside"); err != nil {
		t.Error(err)
	}
	for _, chains := range []store.Chains{store.Named("b"), store.Named("b", "d"), store.Named("d"), store.Named("b")} {
		behind.add(ctx, t, chains)
	}
	other.end(t)
	if err := <-first; err != nil {
		t.Error(err)
	}
	behind.end(t)
	joins, next, third, fourth := *behind.ids[0], *behind.ids[1], *behind.ids[2], *behind.ids[3]
	if joins != id || next == id || third != next || fourth != next {
		t.Errorf("transactions %d, %d, %d and %d behind %d: want the first in it, the others in another one",
			joins, next,
			third, fourth, id)
	}
}

// A commit of everything, for which all processes wait, takes no other write along.
func TestACommitOfEverythingIsAlone(t *testing.T) {
	s := onPostgres(t)
	h, behind := hold(t, s, store.Named("a")), waiters{s: s}
	for _, chains := range []store.Chains{store.Everything(), store.Named("b"), store.Named("c")} {
		behind.add(t.Context(), t, chains)
	}
	h.end(t)
	behind.end(t)
	if alone, b, c := *behind.ids[0], *behind.ids[1], *behind.ids[2]; b == alone || c != b {
		t.Errorf("transactions %d and %d behind %d: want two together in another one", b, c, alone)
	}
}

func appended(ctx context.Context, s *store.Store, chains store.Chains, name string) error {
	return s.Write(ctx, chains, func(tx *store.Tx) error { return appendTo(ctx, tx, name, "1") })
}

// The commits at once are bounded, and a write of everything waits for all of them and lets no later one pass.
func TestCommitsAtOnceAreBounded(t *testing.T) {
	s := onPostgres(t)
	var all []held
	for i := range store.MostAtOnce {
		all = append(all, hold(t, s, store.Named(fmt.Sprint(i))))
	}
	behind := waiters{s: s}
	behind.add(t.Context(), t, store.Named("one more"))
	all[0].end(t)
	behind.end(t)
	behind = waiters{s: s}
	behind.add(t.Context(), t, store.Everything())
	behind.add(t.Context(), t, store.Named("after it"))
	for _, h := range all[1:] {
		if s.Waiting() != 2 {
			t.Error("a write of everything, or one behind it, did not wait")
		}
		h.end(t)
	}
	behind.end(t)
}

// A caller that leaves its place lets those go that waited behind it only.
func TestLeavingLetsOthersGo(t *testing.T) {
	s := onPostgres(t)
	h := hold(t, s, store.Named("a"))
	ctx, cancel := context.WithCancel(t.Context())
	left, behind := waiters{s: s}, waiters{s: s}
	left.add(ctx, t, store.Named("a", "b"))
	behind.add(t.Context(), t, store.Named("b"))
	cancel()
	if err := <-left.answers[0]; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	behind.end(t)
	h.end(t)
}

// What needs the database alone waits for every commit under way, and a caller of it may leave meanwhile.
func testAlone(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	h := hold(t, s, store.Named("a"))
	ctx, cancel := context.WithCancel(t.Context())
	load := func(ctx context.Context, want error) chan error {
		answer := make(chan error, 1)
		go func() {
			err := s.Load(ctx, func(tx *store.Tx) error { return appendTo(ctx, tx, "a", "1") })
			if !errors.Is(err, want) {
				t.Errorf("load: %v, want %v", err, want)
			}
			answer <- err
		}()
		proctest.Eventually(t, "it waits", func() bool { return s.Waiting() == 1 })
		return answer
	}
	left := load(ctx, context.Canceled)
	cancel()
	<-left
	loaded := load(t.Context(), nil)
	h.end(t)
	<-loaded
	if got := get(t, s, "a"); got != "1" {
		t.Errorf("written %q, want 1", got)
	}
}
