package cache

import (
	"context"
	"errors"
	"testing"
)

// abandon starts a load that its only caller leaves. end lets it succeed with b
// all the same, and waits until the cache has taken notice.
func abandon(t *testing.T, s *Store, name string, b Buffer) (end func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	begin, entered, left := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := s.Get(ctx, key(name), func(context.Context, *Room) (Buffer, error) {
			close(entered)
			<-begin
			return b, nil
		})
		left <- err
	}()
	<-entered
	s.mu.Lock()
	l := s.loads[key(name)]
	s.mu.Unlock()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return func() {
		close(begin)
		<-l.done
	}
}

func wantStats(t *testing.T, s *Store, bytes int64, entries int) {
	t.Helper()
	if st := s.Stats(); st.Bytes != bytes || st.Entries != entries {
		t.Errorf("%d bytes in %d entries, want %d in %d", st.Bytes, st.Entries, bytes, entries)
	}
}

func wantWiped(t *testing.T, b *fake) {
	t.Helper()
	if n := b.wiped.Load(); n != 1 {
		t.Errorf("content of %d bytes was wiped %d times", len(b.data), n)
	}
}

func TestAbandonedLoadOverTheBudgetCountsOnce(t *testing.T) {
	s := New(3)
	late := content("larger")
	abandon(t, s, "a", late)()
	wantStats(t, s, 0, 0)
	s.Close()
}

// hooked is content that tells when it is being wiped.
type hooked struct {
	fake
	wiping func()
}

func (b *hooked) Release() {
	b.wiping()
	b.fake.Release()
}

// A purge wipes outside the lock: a lease that is released after the purge took
// its content out and before that is wiped must not count it a second time.
func TestReleaseDuringAPurgeCountsOnce(t *testing.T) {
	s := New(100)
	kept, second := content("kk"), content("aaaa")
	mustGet(t, s, "kept", kept).Release()
	var lease *Lease
	first := &hooked{fake: fake{data: []byte("cc")}, wiping: func() { lease.Release() }}
	mustGet(t, s, "first", first).Release()
	lease = mustGet(t, s, "second", second)
	s.Purge(func(k Key) bool { return k.Ref != "kept" })
	wantStats(t, s, 2, 1)
	wantWiped(t, second)
	wantWiped(t, &first.fake)
	s.Close()
	wantWiped(t, kept)
}

// A waiter that leaves after its load was stored and purged must not count it a
// second time either, and frees memory over the budget.
func TestLeavingAfterTheLoadEnded(t *testing.T) {
	for _, purge := range []bool{false, true} {
		s := New(3)
		buf := content("larger")
		l := &load{keys: []Key{key("a")}, done: make(chan struct{}), waiters: []int{1, 0}, cancel: func() {}}
		s.finish(l, []Buffer{buf}, nil)
		wantStats(t, s, 6, 1)
		if purge {
			s.Purge(func(Key) bool { return true })
		}
		s.leave(l, 0)
		wantStats(t, s, 0, 0)
		wantWiped(t, buf)
		s.Close()
	}
}

// shrinking is content that occupies nothing any more once it is wiped.
type shrinking struct{ fake }

func (b *shrinking) Footprint() int64 {
	if b.wiped.Load() > 0 {
		return 0
	}
	return b.fake.Footprint()
}

func TestFootprintIsTakenOnce(t *testing.T) {
	s := New(100)
	b := &shrinking{fake{data: []byte("abc")}}
	l := mustGet(t, s, "a", b)
	wantStats(t, s, 3, 1)
	b.Release() // somebody else's fault
	s.Close()
	l.Release()
	wantStats(t, s, 0, 0)
}
