package store

import "time"

// SetWriteTimeout shortens how long a write may take.
func (s *Store) SetWriteTimeout(d time.Duration) { s.timeout = d }
