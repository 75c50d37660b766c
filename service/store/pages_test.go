package store_test

import (
	"errors"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// A database has small pages, and its log is moved after so many bytes.
func TestPagesOfADatabase(t *testing.T) {
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), t.TempDir(), "") })
	var size, inLog int
	if err := s.Read(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&size),
			tx.QueryRowContext(t.Context(), "PRAGMA wal_autocheckpoint").Scan(&inLog))
	}); err != nil || size != 2048 || inLog > 8192 || inLog < 32 {
		t.Errorf("pages of %d bytes, %d of them in the log, %v", size, inLog, err)
	}
}
