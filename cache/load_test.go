package cache

import (
	"context"
	"errors"
	"testing"
)

// A load that nobody waits for any more may still succeed. It must not replace
// what was stored meanwhile: the replaced content would never be wiped.
func TestAbandonedLoadDoesNotReplace(t *testing.T) {
	s := New(100)
	late, fresh := content("late"), content("fresh")
	end := abandon(t, s, "a", late)
	mustGet(t, s, "a", fresh).Release()
	end()
	wantStats(t, s, 5, 1)
	s.Close()
	wantStats(t, s, 0, 0)
	wantWiped(t, late)
	wantWiped(t, fresh)
}

// What an abandoned load brings is of use to the next caller.
func TestAbandonedLoadIsKept(t *testing.T) {
	s := New(100)
	late := content("late")
	abandon(t, s, "a", late)()
	l, ok := s.Lookup(key("a"))
	if !ok {
		t.Fatal("not cached")
	}
	l.Release()
	s.Close()
	wantWiped(t, late)
}

func TestPurgeReachesAnAbandonedLoad(t *testing.T) {
	s := New(100)
	defer s.Close()
	late := content("late")
	end := abandon(t, s, "a", late)
	s.Purge(func(Key) bool { return true })
	end()
	if s.Contains(key("a")) {
		t.Error("content is cached after it was purged")
	}
	wantStats(t, s, 0, 0)
	wantWiped(t, late)
}

// Content added while the same key loads stays, and the waiters get it.
func TestAddDuringALoad(t *testing.T) {
	s := New(100)
	loaded, added := content("loaded"), content("added")
	l := mustLoad(t, s, "a", func() Buffer {
		s.Add(key("a"), added).Release()
		return loaded
	})
	if got, err := text(l); got != "added" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	wantWiped(t, loaded)
	l.Release()
	s.Close()
	wantWiped(t, added)
	wantStats(t, s, 0, 0)
}

func mustLoad(t *testing.T, s *Store, name string, fetch func() Buffer) *Lease {
	t.Helper()
	l, err := s.Get(t.Context(), key(name), func(context.Context, *Room) (Buffer, error) { return fetch(), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A purge ends the loads it reaches, and who asks afterwards does not share
// their failure.
func TestGetAfterAPurgeStartsAfresh(t *testing.T) {
	s := New(100)
	entered, next, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := s.Get(t.Context(), key("a"), func(ctx context.Context, _ *Room) (Buffer, error) {
			close(entered)
			<-ctx.Done()
			<-next
			return nil, ctx.Err()
		})
		ended <- err
	}()
	<-entered
	s.Purge(func(k Key) bool { return k.Ref == "a" })
	fresh := content("fresh")
	mustGet(t, s, "a", fresh).Release()
	close(next)
	if err := <-ended; !errors.Is(err, ErrPurged) {
		t.Errorf("the purged load ends with %v", err)
	}
	if !s.Contains(key("a")) {
		t.Error("the end of the purged load took the fresh content away")
	}
	s.Close()
	wantWiped(t, fresh)
}

func TestCloseCancelsLoads(t *testing.T) {
	s := New(100)
	_, err := s.Get(t.Context(), key("a"), func(ctx context.Context, _ *Room) (Buffer, error) {
		s.Close()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if !errors.Is(err, ErrPurged) {
		t.Error(err)
	}
}
