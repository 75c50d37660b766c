package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/svcfs/svcfs/service/space"
)

const (
	// FileName is the SQLite database in the data directory.
	FileName = "svc.db"
	// sqliteReaders is the number of connections for reading; one writes.
	sqliteReaders = 4
	// busyTimeout is how long a write waits for another process, in ms.
	busyTimeout = "10000"
	// emptyPatience is how long a scrub first waits for all readers, while writes wait.
	emptyPatience = 250 * time.Millisecond
	// maxWALBytes bounds the write-ahead log before it is moved into the database. A page
	// that changes often is then moved once for many changes.
	maxWALBytes = 16 << 20
	minWALBytes = 128 << 10
	// minRoom is how many bytes a write on a full disk should find once the log is empty.
	minRoom = 1 << 20
	// pageBytes is the page size of the database: a save changes some twenty pages, of
	// most of them a row. A row of the ledger or of a file takes a third of one.
	pageBytes = 2048
)

// walPages bounds the write-ahead log of a database, in pages: to maxWALBytes, or less on a
// small disk, where the log takes at most a quarter of the disk's reserve.
func walPages(file string) int64 {
	most := int64(maxWALBytes)
	if size := space.Size(filepath.Dir(file)); size >= 0 {
		most = max(minWALBytes, min(most, size/space.ReserveShare/4))
	}
	return most / pageBytes
}

// sqliteEngine: a write-ahead log that is synced at every commit.
type sqliteEngine struct{ dir string }

func openSQLite(dir string) (*Store, error) {
	file := sqliteFile(dir)
	if err := makePrivate(file); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := setPageSize(file); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	s := &Store{engine: sqliteEngine{dir}, reads: &sql.TxOptions{ReadOnly: true}}
	var err error
	if s.write, err = connectSQLite(file, true); err != nil {
		return nil, err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = connectSQLite(file, false); err != nil {
		return nil, errors.Join(err, s.write.Close())
	}
	s.read.SetMaxOpenConns(sqliteReaders)
	s.read.SetMaxIdleConns(sqliteReaders)
	return s, nil
}

func sqliteFile(dir string) string { return filepath.Join(dir, FileName) }

// makePrivate creates the file before SQLite does, so that other users can never open
// it.
func makePrivate(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// setPageSize gives an empty database its page size, before the switch to a write-ahead log
// settles it.
func setPageSize(file string) error {
	if info, err := os.Stat(file); err != nil || info.Size() > 0 {
		return err
	}
	c, err := sqlite.NewConnector(address(file) + "?_pragma=busy_timeout(" + busyTimeout + ")")
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(1)
	// the second writes the first page
	_, err = db.Exec(fmt.Sprintf("PRAGMA page_size = %d; PRAGMA application_id = 0", pageBytes))
	if errors.Is((sqliteEngine{}).kind(err), ErrUnavailable) {
		err = nil // another process makes the same database
	}
	return errors.Join(err, db.Close())
}

func address(file string) string { return "file:" + (&url.URL{Path: file}).EscapedPath() }

func connectSQLite(file string, forWriting bool) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(" + busyTimeout + ")", "journal_mode(WAL)", "synchronous(FULL)",
		"foreign_keys(1)",
		"secure_delete(1)", "trusted_schema(0)", "cache_size(-16000)", "temp_store(MEMORY)",
		"wal_autocheckpoint(" + strconv.FormatInt(walPages(file), 10) + ")"}}
	if !forWriting {
		q.Add("_pragma", "query_only(1)")
	}
	c, err := sqlite.NewConnector(address(file) + "?" + q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return sql.OpenDB(preparing{c}), nil
}

func (sqliteEngine) name() string { return "sqlite" }

// sqliteWrite is a writing transaction. A sql.Tx starts a goroutine for each query, which waits
// for the end of its context: for the short queries of a save that cost more than some of
// them. This one is never ended from outside.
type sqliteWrite struct {
	direct
	conn *sql.Conn
	over bool
}

// beginWriting takes the write lock, which ends with its process.
func (sqliteEngine) beginWriting(ctx context.Context, db *sql.DB, _ Chains,
	_ time.Duration) (transaction, error) {
	ctx = context.WithoutCancel(ctx)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &sqliteWrite{direct: direct{conn}, conn: conn}, nil
}

func (e sqliteEngine) beginBeside(ctx context.Context, db *sql.DB, idle time.Duration) (transaction, error) {
	return e.beginWriting(ctx, db, Everything(), idle)
}

func (t *sqliteWrite) asksAhead() bool { return false }

func (t *sqliteWrite) ask(context.Context, []queued) ([]Row, error) {
	return nil, errors.ErrUnsupported
}

func (t *sqliteWrite) between(ctx context.Context, text string) error {
	_, err := t.conn.ExecContext(ctx, text)
	return err
}

func (t *sqliteWrite) commit(context.Context) error {
	if _, err := t.conn.ExecContext(context.Background(), "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.over = true
	return t.conn.Close()
}

// rollback drops the connection when it cannot end the transaction: the next writer must not
// continue it. SQLite has ended some transactions itself by then, such as one on a full disk.
func (t *sqliteWrite) rollback() {
	if t.over {
		return
	}
	t.over = true
	if _, err := t.conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = t.conn.Close()
}

func (sqliteEngine) rebind(query string) string { return query }

func (sqliteEngine) lost(error) bool { return false }

func (sqliteEngine) clock() Query { return "CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000000" }

func (sqliteEngine) version(ctx context.Context, tx *Tx) (have state, err error) {
	err = tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have.version)
	if err == nil {
		err = tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&have.oldest)
	}
	return have, err
}

func (sqliteEngine) setVersion(ctx context.Context, tx *Tx, now state) error {
	_, err := tx.ExecContext(ctx, Query(fmt.Sprintf("PRAGMA user_version = %d", now.version)))
	if err == nil {
		_, err = tx.ExecContext(ctx, Query(fmt.Sprintf("PRAGMA application_id = %d", now.oldest)))
	}
	return err
}

// scrub moves the write-ahead log into the database and cuts it to nothing.
func (sqliteEngine) scrub(ctx context.Context, read, write *sql.DB, patience time.Duration) error {
	// A log that is emptied has writers wait for all readers. First it is moved, for which nobody waits, to see whether
	// one stays for long: none of it is moved then that came after the state which the reader sees. Each attempt to
	// empty it waits twice as long as the one before, but not longer than half of the patience.
	wait, ends := emptyPatience, time.Now().Add(patience)
	for before := -1; ; time.Sleep(wait / 4) {
		var busy, inLog, moved int
		err := read.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &inLog, &moved)
		if err != nil {
			return err
		}
		if moved == inLog || before >= 0 && moved != before {
			if emptied, err := emptyLog(ctx, write, wait); err != nil || emptied {
				return err
			}
			wait = min(2*wait, patience/2)
		}
		if time.Now().After(ends) {
			return errors.New("the write-ahead log is in use: it is emptied at the next sweep")
		}
		before = moved
	}
}

// emptyLog moves what is left in the write-ahead log, and cuts it to nothing. It waits so long for readers.
func emptyLog(ctx context.Context, write *sql.DB, wait time.Duration) (emptied bool, err error) {
	conn, err := write.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	var busy, inLog, moved int
	if _, err = conn.ExecContext(ctx, fmt.Sprint("PRAGMA busy_timeout = ", wait.Milliseconds())); err == nil {
		err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &inLog, &moved)
	}
	if _, kept := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout = "+busyTimeout); kept != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the next user of it waits as before
	}
	return busy == 0, err
}

// makeRoom moves the write-ahead log into the database, where it mostly replaces
// existing pages, and gives its space back to the disk. Where that is not enough, it gives
// up a piece of what package space holds back.
func (e sqliteEngine) makeRoom(ctx context.Context, db *sql.DB, again bool) bool {
	scrubbed := e.scrub(ctx, db, db, ScrubShort) == nil
	if free := space.Free(e.dir); !again && scrubbed && (free < 0 || free > minRoom) {
		return true
	}
	return space.GiveUp(e.dir) || !again && scrubbed
}

// holdBack has nothing to do: package space looks at the disk.
func (sqliteEngine) holdBack(context.Context, *sql.DB) (bool, error) { return true, nil }

func (sqliteEngine) kind(err error) error {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return nil
	}
	switch failed.Code() {
	case sqlite3.SQLITE_IOERR_SHMSIZE: // the index of the write-ahead log cannot grow
		return ErrFull
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return ErrReference
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return ErrFull
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ErrUnavailable
	default:
		return nil
	}
}

func (sqliteEngine) tables(ctx context.Context, tx *Tx) ([]Table, error) {
	return scanTables(ctx, tx, func(declared string) (Kind, error) {
		kind, ok := map[string]Kind{"text": KindText, "integer": KindInt, "blob": KindBytes}[declared]
		if !ok {
			return "", fmt.Errorf("type %q is not known", declared)
		}
		return kind, nil
	}, `SELECT t.name, c.name, c.type FROM sqlite_master t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY t.name, c.cid`)
}

func (sqliteEngine) references(ctx context.Context, tx *Tx) (map[string][]string, error) {
	return scanReferences(ctx, tx, `SELECT t.name, f."table" FROM sqlite_master t, pragma_foreign_key_list(t.name) f
		WHERE t.type = 'table'`)
}

func (sqliteEngine) check(ctx context.Context, db *sql.DB) error {
	var result string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return errors.New(result)
	}
	return nil
}
