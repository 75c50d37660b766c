// Package storetest makes databases for tests. All migrations of an empty database take longer than
// most tests, so that they run once in a process, and tests begin with a copy.
package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// file returns an SQLite database with the newest schema, and nothing of a service in it.
var file = sync.OnceValues(func() (raw []byte, err error) {
	dir, err := os.MkdirTemp("", "storetest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := migrate(dir, ""); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, store.FileName))
})

func migrate(dir, url string) error {
	s, err := store.Open(context.Background(), dir, url)
	if err != nil {
		return err
	}
	return s.Close()
}

// Fill puts an empty database with the newest schema into a data directory that has none.
func Fill(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); err == nil {
		return nil
	}
	raw, err := file()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, store.FileName), raw, 0o600)
	}
	return err
}

// NewDatabase is [pgtest.NewDatabase] with the newest schema.
func NewDatabase(t testing.TB, server string) string {
	t.Helper()
	from, err := pattern(t, server)
	if err != nil {
		t.Fatal(err)
	}
	return pgtest.NewCopy(t, server, from)
}

var patterns sync.Map // of the address of a server: func() (string, error)

// pattern returns the database of a server that is copied.
func pattern(t testing.TB, server string) (string, error) {
	made, _ := patterns.LoadOrStore(server, sync.OnceValues(func() (string, error) {
		from := pgtest.NewDatabase(t, server)
		return from, migrate("", from)
	}))
	return made.(func() (string, error))()
}
