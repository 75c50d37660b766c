package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/throttle"
)

const (
	// writeTimeout bounds a commit where the database is a server.
	writeTimeout = 30 * time.Second
	// loadPause bounds the time between two statements of [Store.Load], which reads pages from the disk meanwhile.
	loadPause = 10 * time.Minute
)

var (
	// ErrFull means that the disk has no room for the commit.
	ErrFull = errors.New("no room in the database")
	// ErrUnavailable means that the database cannot be reached now. A write that failed
	// so may or may not have happened.
	ErrUnavailable = errors.New("the database is unavailable")
	// ErrLogin means that the database knows no such role, or that its password is another one.
	ErrLogin = errors.New("the database refuses the login")
	// ErrNoDatabase means that the server has no database of that name.
	ErrNoDatabase = errors.New("the database does not exist")
	// ErrInvalidText means that a text cannot be stored: it holds a NUL.
	ErrInvalidText = errors.New("a text holds a NUL character")
	// ErrReference means that a row refers to a row that is not there.
	ErrReference = errors.New("a row refers to one that is not there")
)

// How long a scrub waits for readers.
const (
	ScrubShort = time.Second      // while the caller of a deletion waits
	ScrubLong  = 10 * time.Second // otherwise
)

//go:embed schema
var schema embed.FS

// engine holds the differences between the two databases.
type engine interface {
	// name is the folder of its schema.
	name() string
	// rebind turns the placeholders ? into the engine's own.
	rebind(query string) string
	// beginWriting begins a writing transaction, which waits for others that hold one of the
	// chains at its first statement. ctx must not end before it does. Where the database is a server, a process
	// that is silent for longer than idle loses its turn: its machine may be gone.
	beginWriting(ctx context.Context, db *sql.DB, held Chains, idle time.Duration) (transaction, error)
	// beginBeside is beginWriting for a transaction that waits for no chain.
	beginBeside(ctx context.Context, db *sql.DB, idle time.Duration) (transaction, error)
	// clock is the time now in ns since the epoch, by the clock of the database, as a term of a statement.
	clock() Query
	// lost reports that a write came into the way of another whose chains it had not named.
	lost(err error) bool
	// version and setVersion keep the state of the schema; oldest is 0 where no program wrote it.
	version(ctx context.Context, tx *Tx) (state, error)
	setVersion(ctx context.Context, tx *Tx, now state) error
	// tables lists tables with their columns, and references which table must be
	// filled before which.
	tables(ctx context.Context, tx *Tx) ([]Table, error)
	references(ctx context.Context, tx *Tx) (map[string][]string, error)
	// check looks for damage.
	check(ctx context.Context, db *sql.DB) error
	// scrub removes deleted rows from the files, as far as the engine can, and holds up writes as little as it can.
	scrub(ctx context.Context, read, write *sql.DB, patience time.Duration) error
	// makeRoom frees the reserve for a full disk, or a piece of it, and reports whether there was
	// any. again means that a piece was too little.
	makeRoom(ctx context.Context, db *sql.DB, again bool) bool
	// holdBack makes a reserve, if the engine can, and reports whether there is room for
	// it.
	holdBack(ctx context.Context, db *sql.DB) (bool, error)
	// kind returns ErrFull, ErrUnavailable, ErrLogin, ErrNoDatabase, ErrInvalidText or ErrReference for errors of
	// that kind, else nil.
	kind(err error) error
}

// Store is the database. It is safe for concurrent use, also by several
// processes over one database.
type Store struct {
	engine  engine
	read    *sql.DB
	write   *sql.DB
	reads   *sql.TxOptions
	readers *throttle.Slots[string] // connections that reads of one account have
	once    sync.Once
	schema  fs.FS // folders of migrations, one for each engine
	have    int   // the newest migration that ran when the store was opened

	timeout time.Duration // of a write; 0 = it may take its time
	shares  bool          // writes of other chains may run at the same time, in other processes

	patience time.Duration // of a commit with announced writes
	ended    chan struct{} // an announcement ended; of one, for all who end meanwhile

	mu        sync.Mutex
	waiting   []*pending // writes, in the order in which they came
	leading   []*pending // each makes a commit; not among those that wait
	gathering bool       // the last of these waits for announced writes
	announced int        // writes

	observe   func(call string, took time.Duration, err error)
	committed func() // nil = nobody wants to know
}

// OnCommit sets a function that is called after each commit of this process that changed
// something. It must return at once. It is set before the store is used.
func (s *Store) OnCommit(f func()) { s.committed = f }

// Observe sets a function that is called after every transaction, with call "read" or
// "write", and after the reserve was freed, "make room". It is set before the store is
// used.
func (s *Store) Observe(f func(call string, took time.Duration, err error)) { s.observe = f }

// observed measures a transaction; the returned function ends it.
func (s *Store) observed(call string, err *error) func() {
	if s.observe == nil {
		return func() {}
	}
	start := time.Now()
	return func() { s.observe(call, time.Since(start), *err) }
}

// Open opens the database at url, postgres://…, or the SQLite database in dir
// when url is empty, and brings its schema up to date.
func Open(ctx context.Context, dir, url string) (*Store, error) {
	all, err := fs.Sub(schema, "schema")
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return openWith(ctx, dir, url, all)
}

// openWith is Open with migrations of a test. On a full disk it gives up what is held back.
func openWith(ctx context.Context, dir, url string, migrations fs.FS) (*Store, error) {
	s, err := openOnce(ctx, dir, url, migrations)
	for errors.Is(err, ErrFull) && space.GiveUp(dir) {
		s, err = openOnce(ctx, dir, url, migrations)
	}
	return s, err
}

func openOnce(ctx context.Context, dir, url string, migrations fs.FS) (*Store, error) {
	s, err := connect(dir, url)
	if err != nil {
		return nil, err
	}
	s.schema = migrations
	s.readers = throttle.NewSlots[string](s.read.Stats().MaxOpenConnections * 3 / 4)
	s.ended, s.patience = make(chan struct{}, 1), patience
	if err := s.migratePatiently(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func connect(dir, url string) (*Store, error) {
	if url == "" {
		return openSQLite(dir)
	}
	if scheme, _, _ := strings.Cut(url, "://"); scheme != "postgres" && scheme != "postgresql" {
		return nil, errors.New("open database: want an address like postgres://USER@HOST/DATABASE, or none " +
			"for SQLite in the data directory")
	}
	return openPostgres(url)
}

// Engine names the database: sqlite or postgres.
func (s *Store) Engine() string { return s.engine.name() }

// Close closes the database.
func (s *Store) Close() (err error) {
	s.once.Do(func() {
		err = s.read.Close()
		if s.write != s.read {
			err = errors.Join(err, s.write.Close())
		}
	})
	return err
}

// Query is the text of a statement. An untyped constant becomes a Query without a
// conversion; a string made at run time does not, so that no input can become part of a
// statement (threat 29). Only this package converts strings, for whole tables.
type Query string

// Read runs f in a transaction that sees one state of the database.
func (s *Store) Read(ctx context.Context, f func(*Tx) error) (err error) {
	defer s.observed("read", &err)()
	done, err := s.mayRead(ctx)
	if err != nil {
		return err
	}
	defer done()
	tx, err := s.read.BeginTx(ctx, s.reads)
	if err != nil {
		return mark(s.engine, fmt.Errorf("begin reading: %w", err))
	}
	defer func() { _ = tx.Rollback() }()
	return mark(s.engine, f(&Tx{statements: direct{tx}, engine: s.engine}))
}

// Look runs f without a transaction, for one query: several would each see the state of
// their own moment. It saves the begin and the end, each a round trip to a server. f
// must not write.
func (s *Store) Look(ctx context.Context, f func(*Tx) error) (err error) {
	defer s.observed("read", &err)()
	done, err := s.mayRead(ctx)
	if err != nil {
		return err
	}
	defer done()
	return mark(s.engine, f(&Tx{statements: direct{s.read}, engine: s.engine}))
}

// HoldBack makes the reserve of the database for writes on a full disk. It reports
// whether there is room, which is false while the reserve is in use. With SQLite there
// always is: the caller can look at the disk.
func (s *Store) HoldBack(ctx context.Context) (room bool, err error) {
	err = s.alone(ctx, func() error {
		return s.bounded(ctx, func(ctx context.Context) (err error) {
			room, err = s.engine.holdBack(ctx, s.write)
			return err
		})
	})
	if err != nil {
		return false, mark(s.engine, fmt.Errorf("hold back space: %w", err))
	}
	return room, nil
}

// Scrub removes deleted rows from the database's files. SQLite overwrites deleted rows
// at once, and Scrub empties its write-ahead log. PostgreSQL vacuums, which frees the
// space for reuse (service/operating/limits.md explains the consequence for deleted keys).
// patience is how long SQLite goes on trying beside readers, and writes wait at most half as long at a time.
func (s *Store) Scrub(ctx context.Context, patience time.Duration) (err error) {
	defer s.observed("scrub", &err)()
	if err := s.engine.scrub(ctx, s.read, s.write, patience); err != nil {
		return mark(s.engine, fmt.Errorf("scrub database: %w", err))
	}
	return nil
}

// mark adds the kind of an error to it.
func mark(e engine, err error) error {
	if err == nil {
		return nil
	}
	if kind := e.kind(err); kind != nil && !errors.Is(err, kind) {
		return errors.Join(kind, err)
	}
	return err
}

// Check looks for damage in the database's files, as far as the engine can.
func (s *Store) Check(ctx context.Context) error {
	if err := s.engine.check(ctx, s.read); err != nil {
		return mark(s.engine, fmt.Errorf("check database: %w", err))
	}
	return nil
}
