package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

const (
	// postgresConns bounds the connections of one process.
	postgresConns = 16
	// connectTimeout is for one attempt to reach the server.
	connectTimeout = 5 * time.Second
	// vacuumPatience is how long a scrub waits for a lock, in ms: longer than autovacuum takes to give way.
	vacuumPatience = "3000"
	// writersLock is the advisory lock of all writers. Any number works that every process
	// uses.
	writersLock = 0x7376_6364 // "svcd"
)

type postgresEngine struct{ seen *timelines }

func openPostgres(url string) (*Store, error) {
	if file := os.Getenv("PGPASSFILE"); file != "" {
		f, err := ownfile.Open(file, ownfile.Managed) // the library does not check who may have written it
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		_ = f.Close()
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err) // pgx takes the password out of the text
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	config.DialFunc = (&net.Dialer{Control: giveUpSilent}).DialContext
	seen := &timelines{}
	seen.refuseOld(config)
	db := stdlib.OpenDB(*config, stdlib.OptionResetSession(seen.leaveOld))
	db.SetMaxOpenConns(postgresConns)
	db.SetMaxIdleConns(postgresConns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return &Store{engine: postgresEngine{seen}, read: db, write: db, timeout: writeTimeout, shares: true,
		reads: &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}}, nil
}

// beginWriting begins with the first statement that is sent. It takes the lock of all writers, alone for [Everything],
// else with others, and then that of each chain: all transactions take them in one order, before they change
// anything. A lock is a number, not a row: a write may name chains that there are not, and must not leave rows of
// them.
func (e postgresEngine) beginWriting(ctx context.Context, db *sql.DB, held Chains,
	idle time.Duration) (transaction, error) {
	tx, err := e.beginBeside(ctx, db, idle)
	if err != nil {
		return nil, err
	}
	locks, alone := []int64{writersLock}, []bool{held.all}
	for _, key := range held.keys() {
		locks, alone = append(locks, key), append(alone, true)
	}
	return tx, tx.queue(ctx, "wait for other writers", `SELECT
		CASE WHEN alone THEN pg_advisory_xact_lock(lock) ELSE pg_advisory_xact_lock_shared(lock) END
		FROM unnest($1::bigint[], $2::boolean[]) AS wanted (lock, alone)`, []any{locks, alone})
}

func (postgresEngine) beginBeside(ctx context.Context, db *sql.DB, idle time.Duration) (transaction, error) {
	p, err := newPipeline(ctx, db)
	if err != nil {
		return nil, err
	}
	// Whatever the server's default is: a writer that waited for its turn must see the writes
	// before its own.
	err = p.queue(ctx, "begin writing", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", nil)
	if err == nil {
		err = p.queue(ctx, "begin writing", "SELECT set_config('idle_in_transaction_session_timeout', $1, true)",
			[]any{strconv.FormatInt(idle.Milliseconds(), 10)})
	}
	return p, err
}

// CheckEncrypted refuses the address of a PostgreSQL server on another machine if the
// connection may be made without TLS: rows and the proof of the password would cross the
// network in the clear.
func CheckEncrypted(url string) error {
	if url == "" {
		return nil
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil // Open reports it
	}
	attempts := append([]*pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, a := range attempts {
		if a.TLSConfig == nil && !isThisMachine(a.Host) {
			return fmt.Errorf("the connection to the database at %s may be made without TLS: add sslmode=verify-full "+
				"to the address (or set PGSSLMODE)", a.Host)
		}
	}
	return nil
}

// isThisMachine reports that no network lies between here and a host of PostgreSQL.
func isThisMachine(host string) bool {
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || strings.EqualFold(host, "localhost") ||
		net.ParseIP(host).IsLoopback()
}

func (postgresEngine) name() string { return "postgres" }

// rebind turns each ? outside of quotes into $1, $2, …
func (postgresEngine) rebind(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 16)
	n, quoted := 0, false
	for _, c := range []byte(query) {
		if c == '\'' {
			quoted = !quoted
		}
		if c != '?' || quoted {
			b.WriteByte(c)
			continue
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

func (postgresEngine) clock() Query {
	return "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) * 1000"
}

// lost is a deadlock, or a row with a key that another write gave to its own meanwhile.
func (postgresEngine) lost(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && (failed.Code == "40P01" || failed.Code == "23505")
}

func (postgresEngine) version(ctx context.Context, tx *Tx) (have state, err error) {
	var there bool
	if err := tx.QueryRowContext(ctx, "SELECT to_regclass('schema_version') IS NOT NULL").Scan(&there); err != nil {
		return have, err
	}
	if !there { // checked first: a role without the right to make tables can use an existing one
		if _, err := tx.ExecContext(ctx, "CREATE TABLE schema_version (version INTEGER NOT NULL)"); err != nil {
			return have, err
		}
	}
	// The first programs made the table without the column oldest.
	return have, tx.QueryRowContext(ctx, `SELECT COALESCE(max(version), 0), COALESCE((array_agg((to_jsonb(s)
		->> 'oldest')::integer ORDER BY version DESC))[1], 0) FROM schema_version s`).Scan(&have.version, &have.oldest)
}

func (postgresEngine) setVersion(ctx context.Context, tx *Tx, now state) error {
	if _, err := tx.ExecContext(ctx, "ALTER TABLE schema_version ADD COLUMN IF NOT EXISTS oldest INTEGER"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO schema_version (version, oldest) VALUES (?, ?)", now.version, now.oldest)
	return err
}

// scrub frees the rows that held wrapped keys and small contents. While somebody else maintains these tables it fails:
// callers of a deletion wait for it.
func (postgresEngine) scrub(ctx context.Context, _, write *sql.DB, _ time.Duration) error {
	conn, err := write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = conn.ExecContext(ctx, "SET lock_timeout = "+vacuumPatience); err == nil {
		_, err = conn.ExecContext(ctx, "VACUUM file_keys, openings, small_contents")
	}
	if _, kept := conn.ExecContext(context.WithoutCancel(ctx), "RESET lock_timeout"); kept != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the next user of it waits as before
	}
	return err
}

// The disk of PostgreSQL cannot be inspected from here, so a table of filler reserves a
// part of it: heldRows of about 400 bytes, 16 MiB together. The table is emptied when
// the server refuses for want of space, and filled when there is room again.
const heldRows = 40_000

// makeRoom empties the table of filler, unless it is empty already. TRUNCATE is sure, but it
// may need a page for the catalog, on a disk that has none. DELETE and VACUUM need none, as
// holdBack has them make their maps of the table before, but they wait for readers.
func (postgresEngine) makeRoom(ctx context.Context, db *sql.DB, _ bool) bool {
	var held bool
	if err := db.QueryRowContext(ctx, "SELECT pg_relation_size('held_back') > 0").Scan(&held); err != nil || !held {
		return false
	}
	if _, err := db.ExecContext(ctx, "TRUNCATE held_back"); err == nil {
		return true
	}
	for _, statement := range []string{"DELETE FROM held_back", vacuumHeld} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return false
		}
	}
	return true
}

// vacuumHeld cannot run in a transaction.
const vacuumHeld = "VACUUM held_back"

// holdBack fills the table again when there is room. The table is unlogged: after a
// crash of the server it is empty and is filled anew.
func (postgresEngine) holdBack(ctx context.Context, db *sql.DB) (bool, error) {
	var held bool
	if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM held_back)").Scan(&held); err != nil || held {
		return held, err
	}
	err := fillHeld(ctx, db)
	if err == nil {
		_, err = db.ExecContext(ctx, vacuumHeld) // the maps, see makeRoom
	}
	if (postgresEngine{}).kind(err) == ErrFull {
		_, err = db.ExecContext(ctx, "TRUNCATE held_back") // the rows from before the failure
		return false, err
	}
	return err == nil, err
}

// fillHeld fills it in one process at a time, while no other writes.
func fillHeld(ctx context.Context, db *sql.DB) error {
	tx, err := postgresEngine{}.beginWriting(ctx, db, Everything(), writeTimeout)
	if err != nil {
		return err
	}
	defer tx.rollback()
	if _, err := tx.exec(ctx, "INSERT INTO held_back (filler) SELECT '' FROM generate_series(1, $1) WHERE NOT "+
		"EXISTS (SELECT 1 FROM held_back)", []any{heldRows}); err != nil {
		return err
	}
	return tx.commit(ctx)
}

func (postgresEngine) kind(err error) error {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return kindOfCode(failed.Code)
	}
	var connecting *pgconn.ConnectError
	var network net.Error
	var file *os.PathError // of an archive, perhaps: its errno is a net.Error, too
	switch {
	case errors.As(err, &file) && !errors.As(err, &connecting):
		return nil
	case errors.As(err, &connecting), errors.As(err, &network), errors.Is(err, driver.ErrBadConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), pgconn.Timeout(err), pgconn.SafeToRetry(err):
		return ErrUnavailable
	default:
		return nil
	}
}

// kindOfCode reads an SQLSTATE (PostgreSQL manual, appendix A).
func kindOfCode(code string) error {
	switch {
	case code == "53100": // disk_full
		return ErrFull
	case strings.HasPrefix(code, "28"): // invalid authorization specification
		return ErrLogin
	case code == "3D000": // invalid_catalog_name
		return ErrNoDatabase
	case code == "22021": // character_not_in_repertoire
		return ErrInvalidText
	case code == "23503": // foreign_key_violation
		return ErrReference
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "53"),
		code == "25006", code == "25P03":
		// connection lost, shutting down, too many connections or locks, a standby, the turn was lost
		return ErrUnavailable
	default:
		return nil
	}
}

func (postgresEngine) tables(ctx context.Context, tx *Tx) ([]Table, error) {
	return scanTables(ctx, tx, func(declared string) (Kind, error) {
		kind, ok := map[string]Kind{"text": KindText, "bigint": KindInt, "integer": KindInt, "bytea": KindBytes,
			"boolean": KindBool}[declared]
		if !ok {
			return "", fmt.Errorf("type %q is not known", declared)
		}
		return kind, nil
	}, `SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name NOT IN ('schema_version', 'held_back')
		AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = current_schema())
		ORDER BY table_name, ordinal_position`)
}

func (postgresEngine) references(ctx context.Context, tx *Tx) (map[string][]string, error) {
	return scanReferences(ctx, tx, `SELECT a.relname, b.relname FROM pg_constraint c JOIN pg_class a
		ON a.oid = c.conrelid
		JOIN pg_class b ON b.oid = c.confrelid WHERE c.contype = 'f'
		AND a.relnamespace = current_schema()::regnamespace`)
}

// check asks for torn or rotten pages, which a server with data checksums counts.
func (postgresEngine) check(ctx context.Context, db *sql.DB) error {
	var failures sql.NullInt64
	err := db.QueryRowContext(ctx,
		"SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()").Scan(&failures)
	if err == nil && failures.Int64 > 0 {
		err = fmt.Errorf("the server counted %d pages with a wrong checksum", failures.Int64)
	}
	return err
}

// MayChangeLedger reports whether the role of this service has the right to change or
// remove ledger rows, apart from the trigger. SQLite has no roles: every process with
// access to the file can.
func (s *Store) MayChangeLedger(ctx context.Context) (may bool, err error) {
	if s.Engine() != (postgresEngine{}).name() {
		return false, nil
	}
	err = s.read.QueryRowContext(ctx, "SELECT has_table_privilege('ledger', 'UPDATE, DELETE, TRUNCATE')").Scan(&may)
	if err != nil {
		return false, mark(s.engine, fmt.Errorf("read privileges: %w", err))
	}
	return may, nil
}
