// Package store is the SQL database: SQLite with a write-ahead log, synced at
// every commit, so that what was acknowledged survives a power cut.
package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	fileName = "svc.db"
	// schemaVersion is what this program reads and writes.
	schemaVersion = 1
	// readers is the number of connections for reading; there is one for writing.
	readers = 4
	// busyTimeout is how long a write waits for another process, in ms.
	busyTimeout = "10000"
)

// ErrFull means that the disk has no room for the commit.
var ErrFull = errors.New("no room in the database")

//go:embed schema.sql
var schema string

// Store is the database. It is safe for concurrent use, also by several
// processes over one file.
type Store struct {
	read  *sql.DB
	write *sql.DB
	turn  sync.Mutex // one writing transaction at a time in this process

	observe func(call string, took time.Duration, err error)
}

// Observe has f called after every transaction: call is "read" or "write". It
// is set before the store is used.
func (s *Store) Observe(f func(call string, took time.Duration, err error)) { s.observe = f }

// observed notes when a transaction began; the result notes its end.
func (s *Store) observed(call string, err *error) func() {
	if s.observe == nil {
		return func() {}
	}
	start := time.Now()
	return func() { s.observe(call, time.Since(start), *err) }
}

// Tx is a transaction.
type Tx = sql.Tx

// Open opens or makes the database in a data directory.
func Open(ctx context.Context, dir string) (*Store, error) {
	file := filepath.Join(dir, fileName)
	if err := makePrivate(file); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &Store{}
	var err error
	if s.write, err = connect(file, true); err != nil {
		return nil, err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = connect(file, false); err != nil {
		return nil, errors.Join(err, s.write.Close())
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// makePrivate creates the file before SQLite does, so that nobody else can
// ever open it.
func makePrivate(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func connect(file string, forWriting bool) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(" + busyTimeout + ")", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"secure_delete(1)", "trusted_schema(0)", "cache_size(-16000)"}}
	if forWriting {
		q.Set("_txlock", "immediate")
	} else {
		q.Add("_pragma", "query_only(1)")
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return db, nil
}

func (s *Store) migrate(ctx context.Context) error {
	return s.Write(ctx, func(tx *Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		switch {
		case version == schemaVersion:
			return nil
		case version > schemaVersion:
			return fmt.Errorf("the data was written by a newer svcd (schema %d, this program knows %d): install that version", version, schemaVersion)
		}
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return fmt.Errorf("make schema: %w", err)
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
		return err
	})
}

// Close closes the database.
func (s *Store) Close() error { return errors.Join(s.read.Close(), s.write.Close()) }

// Read runs f in a transaction that sees one state of the database.
func (s *Store) Read(ctx context.Context, f func(*Tx) error) (err error) {
	defer s.observed("read", &err)()
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin reading: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	return f(tx)
}

// Write runs f in a transaction that is durable when Write returns nil, and has
// not happened otherwise. Writers take turns.
func (s *Store) Write(ctx context.Context, f func(*Tx) error) (err error) {
	defer s.observed("write", &err)()
	s.turn.Lock()
	defer s.turn.Unlock()
	// A commit under way is not torn by a caller who leaves.
	tx, err := s.write.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return mark(fmt.Errorf("begin writing: %w", err))
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return mark(err)
	}
	if err := tx.Commit(); err != nil {
		return mark(fmt.Errorf("commit: %w", err))
	}
	return nil
}

// mark names the errors that mean there is no room.
func mark(err error) error {
	var failed *sqlite.Error
	if errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_FULL {
		return errors.Join(ErrFull, err)
	}
	return err
}
