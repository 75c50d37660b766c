package store

import (
	"context"
	"time"
)

// SetWriteTimeout shortens how long a write may take.
func (s *Store) SetWriteTimeout(d time.Duration) { s.timeout = d }

// LetLogGrow keeps SQLite from moving its write-ahead log into the database.
func (s *Store) LetLogGrow(ctx context.Context) error {
	_, err := s.write.ExecContext(ctx, "PRAGMA wal_autocheckpoint = 0")
	return err
}

// SetPatience sets how long a commit waits for announced writes.
func (s *Store) SetPatience(d time.Duration) { s.patience = d }

// Waiting tells how many writes wait for their turn.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
