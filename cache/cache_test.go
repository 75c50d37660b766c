package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is content that counts how often it is wiped.
type fake struct {
	data  []byte
	wiped atomic.Int32
}

func (f *fake) Bytes() []byte    { return f.data }
func (f *fake) Footprint() int64 { return int64(len(f.data)) }
func (f *fake) Release() {
	f.wiped.Add(1)
	clear(f.data)
}

func content(text string) *fake { return &fake{data: []byte(text)} }

func key(name string) Key { return Key{Group: "g", Ref: name} }

func gives(b Buffer) func(context.Context, *Room) (Buffer, error) {
	return func(context.Context, *Room) (Buffer, error) { return b, nil }
}

func mustGet(t *testing.T, s *Store, name string, b Buffer) *Lease {
	t.Helper()
	l, err := s.Get(t.Context(), key(name), gives(b))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func text(l *Lease) (string, error) {
	p := make([]byte, 100)
	n, err := l.ReadAt(p, 0)
	return string(p[:n]), err
}

func TestSecondGetDoesNotLoad(t *testing.T) {
	s := New(100)
	defer s.Close()
	mustGet(t, s, "a", content("first")).Release()
	l := mustGet(t, s, "a", content("other"))
	defer l.Release()
	if got, err := text(l); got != "first" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if st := s.Stats(); st.Hits != 1 || st.Misses != 1 || st.Bytes != 5 || st.Entries != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestBudgetEvictsTheLeastRecentlyUsedAndWipesOnce(t *testing.T) {
	s := New(10)
	defer s.Close()
	a, b, c := content("aaaa"), content("bbbb"), content("cccc")
	mustGet(t, s, "a", a).Release()
	mustGet(t, s, "b", b).Release()
	mustGet(t, s, "a", nil).Release() // a is younger than b now
	mustGet(t, s, "c", c).Release()
	if !s.Contains(key("a")) || s.Contains(key("b")) || !s.Contains(key("c")) {
		t.Error("the wrong one was evicted")
	}
	if a.wiped.Load() != 0 || b.wiped.Load() != 1 || !bytes.Equal(b.data, make([]byte, 4)) {
		t.Errorf("wiped a %d times, b %d times, %q", a.wiped.Load(), b.wiped.Load(), b.data)
	}
}

func TestLeasedContentOutlivesTheBudget(t *testing.T) {
	s := New(3)
	defer s.Close()
	big := content("larger than the budget")
	l := mustGet(t, s, "big", big)
	other := content("oo")
	mustGet(t, s, "other", other).Release()
	if got, err := text(l); got != "larger than the budget" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	l.Release()
	l.Release()
	if big.wiped.Load() != 1 || s.Stats().Bytes > 3 {
		t.Errorf("wiped %d times, %d bytes kept", big.wiped.Load(), s.Stats().Bytes)
	}
}

func TestOneLoadForAllWaiters(t *testing.T) {
	s := New(100)
	defer s.Close()
	var loads atomic.Int32
	begin, buf := make(chan struct{}), content("x")
	load := func(context.Context, *Room) (Buffer, error) {
		loads.Add(1)
		<-begin
		return buf, nil
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			l, err := s.Get(t.Context(), key("a"), load)
			if err != nil {
				t.Error(err)
				return
			}
			l.Release()
		})
	}
	close(begin)
	all.Wait()
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
}

func TestWaiterWhoLeavesDoesNotDisturb(t *testing.T) {
	s := New(100)
	defer s.Close()
	begin, entered := make(chan struct{}), make(chan struct{})
	var cancelled atomic.Bool
	load := func(ctx context.Context, _ *Room) (Buffer, error) {
		close(entered)
		<-begin
		cancelled.Store(ctx.Err() != nil)
		return content("x"), nil
	}
	impatient, leave := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { _, err := s.Get(impatient, key("a"), load); first <- err }()
	<-entered
	second := make(chan error)
	go func() {
		l, err := s.Get(t.Context(), key("a"), nil)
		if err == nil {
			l.Release()
		}
		second <- err
	}()
	for s.waiting(key("a")) < 2 {
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(begin)
	if err := <-second; err != nil || cancelled.Load() {
		t.Errorf("the other waiter got %v, cancelled %v", err, cancelled.Load())
	}
}

// waiting tells how many wait for a load.
func (s *Store) waiting(k Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loads[k]; l != nil {
		return l.waiters[slices.Index(l.keys, k)]
	}
	return 0
}

func TestLastWaiterCancelsTheLoad(t *testing.T) {
	s := New(100)
	defer s.Close()
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	_, err := s.Get(ctx, key("a"), func(ctx context.Context, _ *Room) (Buffer, error) {
		leave()
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
	mustGet(t, s, "a", content("again")).Release()
}

func TestFailedLoadCachesNothing(t *testing.T) {
	s := New(100)
	defer s.Close()
	broken := errors.New("broken")
	if _, err := s.Get(t.Context(), key("a"), func(context.Context, *Room) (Buffer, error) {
		return nil, broken
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if s.Contains(key("a")) || s.Stats().Entries != 0 {
		t.Error("something was cached")
	}
	mustGet(t, s, "a", content("fine")).Release()
}

func TestPurgeWipesAndFailsLeases(t *testing.T) {
	s := New(100)
	defer s.Close()
	a, b := content("aaaa"), content("bbbb")
	l, other := mustGet(t, s, "a", a), mustGet(t, s, "b", b)
	defer other.Release()
	if n := s.Purge(func(k Key) bool { return k.Ref == "a" }); n != 1 {
		t.Errorf("purged %d", n)
	}
	if a.wiped.Load() != 1 || l.Len() != 0 {
		t.Error("purged content is not wiped at once")
	}
	if _, err := text(l); !errors.Is(err, ErrPurged) {
		t.Errorf("a purged lease reads %v", err)
	}
	l.Release()
	if got, err := text(other); got != "bbbb" || err != nil {
		t.Errorf("another lease reads %q, %v", got, err)
	}
	if a.wiped.Load() != 1 || s.Stats().Bytes != 4 {
		t.Errorf("wiped %d times, %d bytes", a.wiped.Load(), s.Stats().Bytes)
	}
}

func TestPurgeReachesALoadUnderWay(t *testing.T) {
	s := New(100)
	defer s.Close()
	buf := content("late")
	_, err := s.Get(t.Context(), key("a"), func(context.Context, *Room) (Buffer, error) {
		s.Purge(func(Key) bool { return true })
		return buf, nil
	})
	if !errors.Is(err, ErrPurged) || buf.wiped.Load() != 1 || s.Contains(key("a")) {
		t.Errorf("%v, wiped %d times", err, buf.wiped.Load())
	}
}

func TestAdd(t *testing.T) {
	s := New(100)
	defer s.Close()
	first, second := content("first"), content("second")
	s.Add(key("a"), first).Release()
	l := s.Add(key("a"), second)
	defer l.Release()
	if got, _ := text(l); got != "first" || second.wiped.Load() != 1 || first.wiped.Load() != 0 {
		t.Errorf("read %q", got)
	}
	if l, ok := s.Lookup(key("a")); !ok {
		t.Error("not found")
	} else {
		l.Release()
	}
	if _, ok := s.Lookup(key("b")); ok {
		t.Error("found what is not there")
	}
}

func TestCloseWipesAll(t *testing.T) {
	s := New(100)
	a := content("a")
	mustGet(t, s, "a", a).Release()
	s.Close()
	if a.wiped.Load() != 1 {
		t.Error("not wiped")
	}
	if _, err := s.Get(t.Context(), key("a"), gives(a)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Whatever happens in parallel, content is wiped exactly once, a lease that is
// not purged reads its own content, and the books balance.
func TestParallelUse(t *testing.T) {
	s := New(500)
	var mu sync.Mutex
	var made []*fake
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 2000 {
				name := fmt.Sprint(rnd.IntN(20))
				if rnd.IntN(50) == 0 {
					s.Purge(func(k Key) bool { return k.Ref == name })
					continue
				}
				l, err := s.Get(t.Context(), key(name), func(context.Context, *Room) (Buffer, error) {
					b := content(name + " has some content of its own")
					mu.Lock()
					made = append(made, b)
					mu.Unlock()
					return b, nil
				})
				if err != nil {
					if !errors.Is(err, ErrPurged) {
						t.Error(err)
					}
					continue
				}
				if got, err := text(l); err == nil && got != name+" has some content of its own" || err != nil &&
					!errors.Is(err, ErrPurged) {
					t.Errorf("%s reads %q, %v", name, got, err)
				}
				l.Release()
			}
		})
	}
	all.Wait()
	if st := s.Stats(); st.Bytes > 500 || st.Bytes < 0 {
		t.Errorf("stats %+v", st)
	}
	s.Close()
	if st := s.Stats(); st.Bytes != 0 || st.Entries != 0 {
		t.Errorf("after closing %+v", st)
	}
	for _, b := range made {
		if n := b.wiped.Load(); n != 1 {
			t.Fatalf("content was wiped %d times", n)
		}
	}
}

func TestViewShowsContentInPlace(t *testing.T) {
	s := New(100)
	defer s.Close()
	b := content("0123456789")
	l := mustGet(t, s, "a", b)
	defer l.Release()
	for _, c := range []struct {
		off  int64
		n    int
		want string
	}{{0, 4, "0123"}, {8, 10, "89"}, {10, 1, ""}, {99, 1, ""}, {-1, 1, ""}, {3, 0, ""}} {
		v, err := l.View(c.off, c.n)
		if err != nil || string(v.Bytes) != c.want {
			t.Errorf("View(%d, %d) = %q, %v, want %q", c.off, c.n, v.Bytes, err, c.want)
		}
		if len(v.Bytes) > 0 && (&v.Bytes[0] != &b.data[c.off] || cap(v.Bytes) != len(v.Bytes)) {
			t.Errorf("View(%d, %d) is a copy, or shows what lies behind", c.off, c.n)
		}
		v.Done()
	}
}

func TestPurgeWaitsForViews(t *testing.T) {
	s := New(100)
	defer s.Close()
	b := content("secret")
	l := mustGet(t, s, "a", b)
	defer l.Release()
	v, err := l.View(0, 6)
	if err != nil {
		t.Fatal(err)
	}
	purged := make(chan struct{})
	go func() {
		s.Purge(func(Key) bool { return true })
		close(purged)
	}()
	for s.Contains(key("a")) {
		runtime.Gosched()
	}
	if string(v.Bytes) != "secret" || b.wiped.Load() != 0 {
		t.Errorf("wiped under a view: %q", v.Bytes)
	}
	v.Done()
	<-purged
	if _, err := l.View(0, 1); !errors.Is(err, ErrPurged) || b.wiped.Load() != 1 {
		t.Errorf("a view after the purge: %v, wiped %d times", err, b.wiped.Load())
	}
}

// A retired entry goes at once when nobody leases it, else with the last lease; a purge
// still ends that lease.
func TestRetire(t *testing.T) {
	s := New(100)
	defer s.Close()
	idle, read, other := content("idle"), content("read"), content("other")
	mustGet(t, s, "idle", idle).Release()
	mustGet(t, s, "other", other).Release()
	first, second := mustGet(t, s, "read", read), mustGet(t, s, "read", nil)
	s.Retire(func(k Key) bool { return k != key("other") })
	if idle.wiped.Load() != 1 || s.Contains(key("idle")) || read.wiped.Load() != 0 || !s.Contains(key("other")) {
		t.Errorf("wiped %d and %d", idle.wiped.Load(), read.wiped.Load())
	}
	first.Release()
	if got, err := text(second); got != "read" || err != nil {
		t.Errorf("a lease reads %q, %v", got, err)
	}
	second.Release()
	if read.wiped.Load() != 1 || s.Contains(key("read")) || s.Stats().Bytes != 5 {
		t.Errorf("wiped %d times, %+v", read.wiped.Load(), s.Stats())
	}
	again := content("again")
	l := mustGet(t, s, "again", again)
	defer l.Release()
	s.Retire(func(k Key) bool { return k == key("again") })
	s.Purge(func(Key) bool { return true })
	if _, err := text(l); !errors.Is(err, ErrPurged) || again.wiped.Load() != 1 {
		t.Errorf("after a purge: %v, wiped %d times", err, again.wiped.Load())
	}
}

func TestMove(t *testing.T) {
	s := New(100)
	old, next, other := key("old"), key("next"), key("other")
	a := content("aaaa")
	lease := s.Add(old, a)
	s.Add(other, content("bb")).Release()
	if s.Move(old, other) || s.Move(key("none"), next) || s.Move(old, old) {
		t.Error("moved over content, or nothing")
	}
	if !s.Move(old, next) || s.Contains(old) || !s.Contains(next) {
		t.Fatal("not moved")
	}
	if got, err := text(lease); err != nil || got != "aaaa" {
		t.Errorf("a lease reads %q, %v", got, err)
	}
	lease.Release()
	wantStats(t, s, 6, 2)
	if n := s.Purge(func(k Key) bool { return k == next }); n != 1 {
		t.Errorf("purged %d entries by the new key", n)
	}
	wantWiped(t, a)
	s.Close()
}
