package store

import "time"

// SetWriteTimeout shortens how long a write may take.
func (s *Store) SetWriteTimeout(d time.Duration) { s.timeout = d }

// Waiting tells how many writes wait for their turn.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
