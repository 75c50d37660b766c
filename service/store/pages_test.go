package store_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// A new database has small pages; one that older programs made keeps its own, and its log is
// moved after as many bytes.
func TestPagesOfADatabase(t *testing.T) {
	for _, old := range []bool{false, true} {
		dir, want := t.TempDir(), [2]int{2048, 8192}
		if old {
			want = [2]int{4096, 4096}
			db := openFile(t, filepath.Join(dir, store.FileName))
			if _, err := db.Exec("PRAGMA journal_mode = WAL; CREATE TABLE old (n INTEGER); DROP TABLE old"); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), dir, "") })
		var got [2]int
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			return errors.Join(tx.QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&got[0]), tx.QueryRowContext(t.Context(), "PRAGMA wal_autocheckpoint").Scan(&got[1]))
		}); err != nil || got[0] != want[0] || got[1] > want[1] || got[1] < 32 {
			t.Errorf("old %v: pages of %d bytes, %d of them in the log, want %d, %v", old, got[0], got[1], want, err)
		}
	}
}

func openFile(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
