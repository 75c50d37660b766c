// Package enginetest says on which engine of the database a test runs. Tests run on SQLite. Those that the engine
// can break run on PostgreSQL too, where it is installed; with -engine=postgres all tests of a package do.
package enginetest

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// postgres is the engine, and the part of a test's name that puts the test on it.
const postgres = "postgres"

var engine = flag.String("engine", "sqlite", "the engine that tests run on, `sqlite` or postgres")

// Engines are those of the tests of a package. TestMain closes it.
type Engines struct{ server pgtest.Shared }

// New returns the engines, on which every database has the newest schema.
func New() *Engines { return &Engines{pgtest.Shared{Fill: migrate}} }

func migrate(url string) error {
	s, err := store.Open(context.Background(), "", url)
	if err != nil {
		return err
	}
	return s.Close()
}

// Close ends the server of PostgreSQL, if a test needed it.
func (e *Engines) Close() error { return e.server.Close() }

// OnPostgres is whether a test runs on PostgreSQL.
func OnPostgres(t testing.TB) bool {
	return *engine == postgres || strings.Contains(t.Name()+"/", "/"+postgres+"/")
}

// NewDatabase returns the address of a database of its own for a test, "" for SQLite.
func (e *Engines) NewDatabase(t testing.TB) string {
	t.Helper()
	if !OnPostgres(t) {
		return ""
	}
	return e.NewPostgres(t)
}

// NewPostgres returns the address of a database of its own for a test that needs PostgreSQL on any engine.
func (e *Engines) NewPostgres(t testing.TB) string {
	t.Helper()
	return e.server.NewDatabase(t)
}

// OnBoth runs a test on SQLite and on PostgreSQL.
func OnBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if *engine != postgres {
		t.Run("sqlite", test)
	}
	t.Run(postgres, test)
}

// OnPostgresToo runs tests that run on SQLite by themselves once more, on PostgreSQL.
func OnPostgresToo(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	if *engine == postgres {
		return // they run there by themselves
	}
	t.Run(postgres, func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, test)
		}
	})
}
