package cache

import (
	"context"
	"errors"
)

// ErrNoRoom means that what is in use fills the budget, and did so for as long as
// the caller would wait.
var ErrNoRoom = errors.New("content in use fills the budget of the cache")

// Room is what one load may occupy, in bytes. All loads and the leased content they
// brought fit into the budget together, but for one: who finds no room while nobody
// else is beyond the budget goes beyond it alone, so that also content larger than
// the budget can be loaded. A Room is safe for concurrent use.
type Room struct {
	store *Store

	// By Store.mu.
	held, used int64 // reserved; occupied
	over       bool  // beyond the budget
	ended      bool
}

// Reserve waits until there is room for n bytes, before anything is spent on
// loading them. It fails with [ErrNoRoom] when ctx reaches its deadline.
func (r *Room) Reserve(ctx context.Context, n int64) error { return r.take(ctx, n, 0) }

// Take says that n bytes more are about to be occupied, or with n below 0 that they
// no longer are. It waits like Reserve for those that nobody reserved.
func (r *Room) Take(ctx context.Context, n int64) error { return r.take(ctx, 0, n) }

func (r *Room) take(ctx context.Context, reserve, occupy int64) error {
	s := r.store
	for {
		s.mu.Lock()
		missing := max(reserve, r.used+occupy-r.held)
		if r.ended || missing <= 0 || s.admit(r, missing) {
			r.used += occupy
			wipe := s.evict()
			s.mu.Unlock()
			wipeAll(wipe)
			return nil
		}
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ErrNoRoom
			}
			return ctx.Err()
		}
	}
}

// admit gives r room for n bytes more. Needs Store.mu.
func (s *Store) admit(r *Room, n int64) bool {
	switch {
	case r.over:
		r.held += n
		return true
	case s.pinned+s.loading+n <= s.budget:
		s.loading += n
	case s.over:
		return false
	default:
		s.over, r.over = true, true
		s.loading -= r.held
	}
	r.held += n
	return true
}

// endRoom gives the room of a load up. stored is what was stored of it, at most one entry
// if it is beyond the budget. Needs Store.mu.
func (s *Store) endRoom(r *Room, stored []*entry) {
	r.ended = true
	switch {
	case r.held == 0:
	case !r.over:
		s.loading -= r.held
	case len(stored) > 0:
		stored[0].over, s.overEntry = true, stored[0]
	default:
		s.over = false
	}
	for _, e := range stored {
		e.counted = r.held > 0
		s.recount(e)
	}
	s.recount(nil)
}

// recount brings what e pins up to date, and lets those look again who wait for
// room. Needs Store.mu.
func (s *Store) recount(e *entry) {
	if e != nil {
		if e.over && (e.leases == 0 || e.dropped) { // it can be evicted, or is gone
			e.over, s.over, s.overEntry = false, false, nil
		}
		if pins := e.counted && !e.over && e.leases > 0 && !e.dropped; pins != e.pins {
			e.pins = pins
			if pins {
				s.pinned += e.size
			} else {
				s.pinned -= e.size
			}
		}
	}
	if o := s.overEntry; o != nil && s.pinned+s.loading+o.size <= s.budget {
		o.over, o.pins, s.over, s.overEntry = false, true, false, nil
		s.pinned += o.size
	}
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// within is what the budget is compared with: everything but what is beyond it
// alone. Needs Store.mu.
func (s *Store) within() int64 {
	n := s.stats.Bytes + s.loading
	if s.overEntry != nil {
		n -= s.overEntry.size
	}
	return n
}
