package pgtest

import (
	"sync"
	"testing"
)

// Shared is one server for the tests of a package, which takes two seconds of CPU time to make. The first test that
// asks starts it; TestMain closes it.
type Shared struct {
	// Fill gives a database what each copy of it begins with, such as the schema. It runs once; nil = nothing.
	Fill func(url string) error

	mu     sync.Mutex
	server *Server
	filled string // the database that is copied
	err    error
}

// NewDatabase makes a database for one test and returns its address. The test is skipped where PostgreSQL is not
// installed. The database is gone with the server: to drop it would take seven times as long as to make it.
func (s *Shared) NewDatabase(t testing.TB) string {
	t.Helper()
	server, filled, err := s.open(t)
	if err != nil {
		t.Fatal(err)
	}
	return NewCopy(t, server.URL(), filled)
}

// open starts the server and fills the first database, once.
func (s *Shared) open(t testing.TB) (*Server, string, error) {
	t.Helper()
	bin := find(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil || s.err != nil {
		return s.server, s.filled, s.err
	}
	if s.server, s.err = open(bin, "-c", "fsync=off"); s.err != nil || s.Fill == nil {
		return s.server, "", s.err
	}
	s.filled = s.server.NewDatabase(t)
	s.err = s.Fill(s.filled)
	return s.server, s.filled, s.err
}

// Close ends the server, if a test started it.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	return s.server.close()
}
