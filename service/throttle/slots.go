package throttle

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Slots bounds how many things each of many callers does at the same time. It is safe
// for concurrent use, and remembers only active callers.
type Slots[Caller comparable] struct {
	most int64

	mu  sync.Mutex
	own map[Caller]*part
}

// part is what one caller has.
type part struct {
	taken *semaphore.Weighted
	users int // calls that have or want some
}

// NewSlots allows each caller so many at a time.
func NewSlots[Caller comparable](most int) *Slots[Caller] { return newSlots[Caller](int64(most)) }

func newSlots[Caller comparable](most int64) *Slots[Caller] {
	return &Slots[Caller]{most: most, own: make(map[Caller]*part)}
}

// Take takes a slot, unless the caller has all of its own. The caller gives it back with
// release, once.
func (s *Slots[Caller]) Take(c Caller) (release func(), ok bool) {
	own := s.enter(c)
	if !own.taken.TryAcquire(1) {
		s.leave(c)
		return nil, false
	}
	return func() { s.giveBack(c, own, 1) }, true
}

// Wait is Take that waits for a slot, first come, first served, and reports false when ctx
// ends before.
func (s *Slots[Caller]) Wait(ctx context.Context, c Caller) (release func(), ok bool) {
	return s.wait(ctx, c, 1)
}

func (s *Slots[Caller]) wait(ctx context.Context, c Caller, n int64) (release func(), ok bool) {
	own := s.enter(c)
	if n > 0 && own.taken.Acquire(ctx, n) != nil {
		s.leave(c)
		return nil, false
	}
	return func() { s.giveBack(c, own, n) }, true
}

func (s *Slots[Caller]) giveBack(c Caller, own *part, n int64) {
	own.taken.Release(n)
	s.leave(c)
}

func (s *Slots[Caller]) enter(c Caller) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[c] == nil {
		s.own[c] = &part{taken: semaphore.NewWeighted(s.most)}
	}
	s.own[c].users++
	return s.own[c]
}

func (s *Slots[Caller]) leave(c Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[c].users--; s.own[c].users == 0 {
		delete(s.own, c)
	}
}
