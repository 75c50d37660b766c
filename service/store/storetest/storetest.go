// Package storetest makes databases for tests. All migrations of an empty database take longer than
// most tests, so that they run once in a process, and tests begin with a copy.
package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/svcfs/svcfs/service/store"
)

// file returns an SQLite database with the newest schema, and nothing of a service in it.
var file = sync.OnceValues(func() (raw []byte, err error) {
	dir, err := os.MkdirTemp("", "storetest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := store.Open(context.Background(), dir, "")
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, store.FileName))
})

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
