package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// roomy is content of a size, made without it.
type roomy struct{ size int64 }

func (r roomy) Bytes() []byte    { return nil }
func (r roomy) Footprint() int64 { return r.size }
func (r roomy) Release()         {}

// reserving loads size bytes once there is room for them.
func reserving(size int64) func(context.Context, *Room) (Buffer, error) {
	return func(ctx context.Context, r *Room) (Buffer, error) {
		if err := r.Reserve(ctx, size); err != nil {
			return nil, err
		}
		return roomy{size}, r.Take(ctx, size)
	}
}

// opening opens size bytes under a name in the background.
type opening struct {
	lease *Lease
	err   error
	done  bool
}

func (s *Store) open(ctx context.Context, name string, size int64) *opening {
	o := &opening{}
	go func() {
		o.lease, o.err = s.Get(ctx, key(name), reserving(size))
		o.done = true
	}()
	synctest.Wait()
	return o
}

func wantOpen(t *testing.T, want string, list ...*opening) {
	t.Helper()
	got := ""
	for _, o := range list {
		switch {
		case !o.done:
			got += "-"
		case o.err != nil:
			got += "E"
		default:
			got += "o"
		}
	}
	if got != want {
		t.Errorf("open are %s, want %s", got, want)
	}
}

func (s *Store) wantSettled(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loading != 0 || s.pinned != 0 || s.over || s.overEntry != nil {
		t.Errorf("%d bytes loading, %d pinned, over: %v, though nothing is in use", s.loading, s.pinned, s.over)
	}
}

// Threat 8: what is loaded and open at a time stays within the budget and one file.
func TestThreat8BombsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(512)
		defer s.Close()
		var bombs []*opening
		for i := range 6 {
			bombs = append(bombs, s.open(t.Context(), fmt.Sprint("bomb", i), 1024))
		}
		for i := range bombs {
			open := 0
			for j, o := range bombs {
				if o.done && o.lease != nil {
					if open++; open > 1 {
						t.Fatalf("bomb %d is open beside another", j)
					}
				}
			}
			if small := s.open(t.Context(), fmt.Sprint("small", i), 256); !small.done || small.err != nil {
				t.Errorf("a small file waits behind a large one: %v", small.err)
			} else {
				small.lease.Release()
			}
			if b := s.Stats().Bytes; b > 512+1024 {
				t.Errorf("%d bytes are held", b)
			}
			for _, o := range bombs {
				if o.lease != nil {
					o.lease.Release()
					o.lease = nil
					break // the next one goes on now
				}
			}
			synctest.Wait()
		}
		for i, o := range bombs {
			if !o.done || o.err != nil {
				t.Errorf("bomb %d: %v", i, o.err)
			}
		}
		s.wantSettled(t)
	})
}

func TestRoomIsSharedByWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100)
		defer s.Close()
		a, b := s.open(t.Context(), "a", 40), s.open(t.Context(), "b", 50)
		c := s.open(t.Context(), "c", 30) // beyond the budget, alone
		d := s.open(t.Context(), "d", 20)
		wantOpen(t, "ooo-", a, b, c, d)
		impatient, cancel := context.WithCancel(t.Context())
		e := s.open(impatient, "e", 20)
		cancel()
		synctest.Wait()
		wantOpen(t, "-E", d, e)
		if !errors.Is(e.err, context.Canceled) {
			t.Errorf("interrupted: %v", e.err)
		}
		a.lease.Release() // now c fits too, and d may go beyond
		synctest.Wait()
		wantOpen(t, "o", d)
		for _, o := range []*opening{b, c, d} {
			o.lease.Release()
		}
		s.wantSettled(t)
		if n := s.Stats().Bytes; n > 100 {
			t.Errorf("%d bytes stay cached", n)
		}
	})
}

// A load whose size nobody told asks while it grows, and who waits too long is told.
func TestRoomThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100)
		defer s.Close()
		large := s.open(t.Context(), "large", 1000)
		steps := make(chan int64)
		grown := make(chan error)
		go func() {
			_, err := s.Get(t.Context(), key("grows"), func(ctx context.Context, r *Room) (Buffer, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				for n := range steps {
					err := r.Take(ctx, n)
					grown <- err
					if err != nil {
						return nil, err
					}
				}
				return roomy{90}, nil
			})
			grown <- err
		}()
		for _, n := range []int64{60, 40, -30, 30} {
			steps <- n
			if err := <-grown; err != nil {
				t.Fatal(err)
			}
		}
		steps <- 1 // the large one is beyond the budget already
		if err := <-grown; !errors.Is(err, ErrNoRoom) {
			t.Errorf("after a minute: %v", err)
		}
		<-grown
		large.lease.Release()
		s.wantSettled(t)
	})
}

// Content beyond the budget is counted within it once it fits, and then takes the place of what nobody leases.
func TestRoomOfWhatWasBeyond(t *testing.T) {
	for name, end := range map[string]func(*Store, *opening){
		"purged":  func(s *Store, o *opening) { s.Purge(func(k Key) bool { return k == key("leased") }) },
		"retired": func(s *Store, o *opening) { s.Drop(key("leased")); o.lease.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(100)
				defer s.Close()
				s.open(t.Context(), "cached", 40).lease.Release()
				leased, beyond := s.open(t.Context(), "leased", 50), s.open(t.Context(), "beyond", 80)
				wantOpen(t, "oo", leased, beyond)
				end(s, leased)
				if n := s.Stats().Bytes; n != 80 {
					t.Errorf("%d bytes are cached", n)
				}
			})
		})
	}
}

// Whatever comes and goes, what is within the budget is within it, and all of it is
// given back.
func TestRoomUnderLoad(t *testing.T) {
	s := New(1000)
	defer s.Close()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				l, err := s.Get(ctx, key(fmt.Sprint(rand.N(40))), reserving(1+rand.N(int64(600))))
				cancel()
				s.mu.Lock()
				if s.pinned+s.loading > s.budget {
					t.Errorf("%d pinned and %d loading", s.pinned, s.loading)
				}
				s.mu.Unlock()
				if rand.N(20) == 0 {
					doomed := key(fmt.Sprint(rand.N(40)))
					s.Purge(func(k Key) bool { return k == doomed })
				}
				if err == nil {
					l.Release()
				}
			}
		})
	}
	all.Wait()
	s.wantSettled(t)
}
