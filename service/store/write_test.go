package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/store"
)

// A writing transaction of SQLite starts no goroutine for its queries, whatever becomes of the
// caller's context. A transaction that ended behind its back fails, and leaves nothing of itself to
// the next one.
func TestWritesOfSQLite(t *testing.T) {
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), t.TempDir(), "") })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		before := runtime.NumGoroutine()
		for rows, err := range tx.Rows(ctx, "SELECT 1") {
			if err != nil {
				return err
			}
			_ = rows
			if now := runtime.NumGoroutine(); now > before {
				t.Errorf("%d goroutines during a query, %d before", now, before)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []store.Query{"COMMIT", "ROLLBACK"} {
		err := s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(ctx, end)
			return err
		})
		if err == nil {
			t.Errorf("a write after %s is acknowledged", end)
		}
		if err := set(ctx, s, "a", string(end)); err != nil || get(t, s, "a") != string(end) {
			t.Errorf("the next write: %v, and %q is there", err, get(t, s, "a"))
		}
	}
}

// A scrub of SQLite moves the write-ahead log while a write is under way: neither waits for the other.
func TestALogIsMovedBesideAWrite(t *testing.T) {
	dir := t.TempDir()
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), dir, "") })
	if err := set(t.Context(), s, "a", strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	scrubbed := make(chan error, 1)
	err := s.Write(t.Context(), store.Everything(), func(*store.Tx) error {
		go func() { scrubbed <- s.Scrub(t.Context(), store.ScrubShort) }()
		proctest.Eventually(t, "the log is in the database", func() bool {
			info, err := os.Stat(filepath.Join(dir, store.FileName))
			return err == nil && info.Size() > 1<<20
		})
		return nil
	})
	if err = errors.Join(err, <-scrubbed); err != nil {
		t.Error(err)
	}
}

// While a scrub of SQLite waits for those who read the newest state, writes go on. Afterwards they wait for another
// process as long as before.
func TestWritesGoOnWhileAScrubWaits(t *testing.T) {
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), t.TempDir(), "") })
	err := set(t.Context(), s, "a", "1")
	err = errors.Join(err, s.Read(t.Context(), func(tx *store.Tx) error {
		if _, err := store.Values[string](t.Context(), tx, "read", "SELECT name FROM meta"); err != nil {
			return err
		}
		scrubbed := make(chan error, 1)
		go func() { scrubbed <- s.Scrub(t.Context(), store.ScrubShort) }()
		proctest.Eventually(t, "it waits", func() bool { return s.Writing() })
		for written := 0; ; written++ {
			select {
			case err := <-scrubbed:
				if err == nil || written < 2 {
					t.Errorf("%d writes were made while it waited for a reader: %v", written, err)
				}
				return nil
			default:
				if err := set(t.Context(), s, "a", fmt.Sprint(written)); err != nil {
					return err
				}
			}
		}
	}))
	err = errors.Join(err, s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		var ms int
		err := tx.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&ms)
		if ms != 10_000 {
			t.Errorf("a write waits %d ms for another process", ms)
		}
		return err
	}), s.Scrub(t.Context(), store.ScrubShort))
	if err != nil {
		t.Error(err)
	}
}

// A scrub of SQLite waits longer at each attempt, and succeeds beside readers that the first attempts did not outlast.
// The attempt in which this reader ends is longer than another process waits.
func TestAScrubWaitsLongerBesideReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opener := func() (*store.Store, error) { return store.Open(t.Context(), dir, "") }
	s, other := open(t, opener), open(t, opener)
	err := errors.Join(set(t.Context(), s, "a", "1"),
		other.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), "PRAGMA busy_timeout = 1500")
			return err
		}))
	if err != nil {
		t.Fatal(err)
	}
	scrubbed := make(chan error, 1)
	err = s.Read(t.Context(), func(tx *store.Tx) error {
		if _, err := store.Values[string](t.Context(), tx, "read", "SELECT name FROM meta"); err != nil {
			return err
		}
		go func() { scrubbed <- s.Scrub(t.Context(), store.ScrubLong) }()
		proctest.Eventually(t, "a long attempt", func() bool {
			err := other.Write(t.Context(), store.Everything(), func(*store.Tx) error { return nil })
			return errors.Is(err, store.ErrUnavailable) || len(scrubbed) > 0
		})
		return nil
	})
	if err = errors.Join(err, <-scrubbed); err != nil {
		t.Error(err)
	}
}
