package store_test

import (
	"context"
	"runtime"
	"testing"

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
