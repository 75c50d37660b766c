package throttle

import "sync"

// Slots bounds how many things each of many callers does at the same time. It is safe
// for concurrent use, and remembers only active callers.
type Slots[Caller comparable] struct {
	most int

	mu    sync.Mutex
	taken map[Caller]int
}

// NewSlots allows each caller so many at a time.
func NewSlots[Caller comparable](most int) *Slots[Caller] {
	return &Slots[Caller]{most: most, taken: make(map[Caller]int)}
}

// Take takes a slot, unless the caller has all of its own. The caller gives it back with
// release, once.
func (s *Slots[Caller]) Take(c Caller) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[c] >= s.most {
		return nil, false
	}
	s.taken[c]++
	return func() { s.release(c) }, true
}

func (s *Slots[Caller]) release(c Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[c]--; s.taken[c] == 0 {
		delete(s.taken, c)
	}
}
