package store

import (
	"context"
	"path"
	"testing/fstest"
	"time"
)

// OpenWith is Open with more migrations than this program has: texts of SQL by the name of their file, for
// both engines.
func OpenWith(ctx context.Context, dir, url string, more map[string]string) (*Store, error) {
	all := make(fstest.MapFS)
	for _, engine := range []string{sqliteEngine{}.name(), postgresEngine{}.name()} {
		first := path.Join(engine, "0001_initial.sql")
		text, err := schema.ReadFile(path.Join("schema", first))
		if err != nil {
			return nil, err
		}
		all[first] = &fstest.MapFile{Data: text}
		for name, text := range more {
			all[path.Join(engine, name)] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return openWith(ctx, dir, url, all)
}

// MostAtOnce is how many commits of one process are under way at once.
const MostAtOnce = mostAtOnce

// SetWriteTimeout shortens how long a write may take.
func (s *Store) SetWriteTimeout(d time.Duration) { s.timeout = d }

// SeeTimeline has the process of a store know a server of PostgreSQL on a timeline.
func (s *Store) SeeTimeline(n uint64) { s.engine.(postgresEngine).seen.newest.Store(n) }

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

// KindAtPostgres is how PostgreSQL's engine reads an error.
func KindAtPostgres(err error) error { return postgresEngine{}.kind(err) }

// ChangedBy returns the tables that a statement changes, as far as answers that came ahead are concerned.
func ChangedBy(statement string) []string { return changedBy(statement) }

// Writing reports whether the connection for writing is in use.
func (s *Store) Writing() bool { return s.write.Stats().InUse > 0 }
