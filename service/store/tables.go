package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Kind is what a column holds.
type Kind string

// Kinds of columns. A truth value is an integer in SQLite.
const (
	KindText  Kind = "text"
	KindInt   Kind = "int"
	KindBytes Kind = "bytes"
	KindBool  Kind = "bool"
)

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
}

// Table is a table as it is copied to another database.
type Table struct {
	Name    string
	Columns []Column
}

// names lists the columns, separated by commas.
func (t Table) names() string {
	var list []string
	for _, c := range t.Columns {
		list = append(list, c.Name)
	}
	return strings.Join(list, ", ")
}

// SelectAll reads every row, in an order that is the same in every database.
func (t Table) SelectAll() Query {
	return Query("SELECT " + t.names() + " FROM " + t.Name + " ORDER BY 1, 2")
}

// Insert adds a row; the arguments are its columns in order.
func (t Table) Insert() Query {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ")
	return Query("INSERT INTO " + t.Name + " (" + t.names() + ") VALUES (" + marks + ")")
}

// SchemaVersion is the number of the newest migration, which an open database has.
func (s *Store) SchemaVersion() (int, error) {
	all, err := load(s.engine.name())
	if err != nil {
		return 0, fmt.Errorf("load migrations: %w", err)
	}
	return all[len(all)-1].version, nil
}

// Tables lists the tables, each after those its rows refer to.
func (s *Store) Tables(ctx context.Context, tx *Tx) ([]Table, error) {
	all, err := s.engine.tables(ctx, tx.tx)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	refers, err := s.engine.references(ctx, tx.tx)
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	return inOrder(all, refers)
}

// inOrder sorts tables so that none comes before one it refers to.
func inOrder(all []Table, refers map[string][]string) ([]Table, error) {
	var sorted []Table
	placed := make(map[string]bool)
	for len(sorted) < len(all) {
		before := len(sorted)
		for _, t := range all {
			waits := slices.ContainsFunc(refers[t.Name], func(other string) bool { return other != t.Name && !placed[other] })
			if !placed[t.Name] && !waits {
				sorted, placed[t.Name] = append(sorted, t), true
			}
		}
		if len(sorted) == before {
			return nil, errors.New("tables refer to each other in a circle")
		}
	}
	return sorted, nil
}

// scanTables reads rows of table, column and type, in order.
func scanTables(rows *sql.Rows, kind func(declared string) (Kind, error)) (all []Table, err error) {
	defer rows.Close()
	for rows.Next() {
		var table, column, declared string
		if err := rows.Scan(&table, &column, &declared); err != nil {
			return nil, err
		}
		k, err := kind(strings.ToLower(declared))
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", table, column, err)
		}
		if len(all) == 0 || all[len(all)-1].Name != table {
			all = append(all, Table{Name: table})
		}
		last := &all[len(all)-1]
		last.Columns = append(last.Columns, Column{column, k})
	}
	return all, rows.Err()
}

func scanReferences(rows *sql.Rows) (map[string][]string, error) {
	defer rows.Close()
	refers := make(map[string][]string)
	for rows.Next() {
		var from, to string
		if err := rows.Scan(&from, &to); err != nil {
			return nil, err
		}
		refers[from] = append(refers[from], to)
	}
	return refers, rows.Err()
}

func (sqliteEngine) tables(ctx context.Context, tx queries) ([]Table, error) {
	rows, err := tx.QueryContext(ctx, `SELECT t.name, c.name, c.type FROM sqlite_master t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY t.name, c.cid`)
	if err != nil {
		return nil, err
	}
	return scanTables(rows, func(declared string) (Kind, error) {
		kind, ok := map[string]Kind{"text": KindText, "integer": KindInt, "blob": KindBytes}[declared]
		if !ok {
			return "", fmt.Errorf("type %q is not known", declared)
		}
		return kind, nil
	})
}

func (sqliteEngine) references(ctx context.Context, tx queries) (map[string][]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT t.name, f."table" FROM sqlite_master t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table'`)
	if err != nil {
		return nil, err
	}
	return scanReferences(rows)
}

func (postgresEngine) tables(ctx context.Context, tx queries) ([]Table, error) {
	rows, err := tx.QueryContext(ctx, `SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name NOT IN ('schema_version', 'held_back') ORDER BY table_name, ordinal_position`)
	if err != nil {
		return nil, err
	}
	return scanTables(rows, func(declared string) (Kind, error) {
		kind, ok := map[string]Kind{"text": KindText, "bigint": KindInt, "integer": KindInt, "bytea": KindBytes, "boolean": KindBool}[declared]
		if !ok {
			return "", fmt.Errorf("type %q is not known", declared)
		}
		return kind, nil
	})
}

func (postgresEngine) references(ctx context.Context, tx queries) (map[string][]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT a.relname, b.relname FROM pg_constraint c JOIN pg_class a ON a.oid = c.conrelid
		JOIN pg_class b ON b.oid = c.confrelid WHERE c.contype = 'f' AND a.relnamespace = current_schema()::regnamespace`)
	if err != nil {
		return nil, err
	}
	return scanReferences(rows)
}

// HasSnapshots tells that the database is SQLite. PostgreSQL has tools of its own.
func (s *Store) HasSnapshots() bool { return s.Engine() == (sqliteEngine{}).name() }

// Snapshot writes one state of the SQLite database into a new file while others
// read and write.
func (s *Store) Snapshot(ctx context.Context, file string) error {
	if !s.HasSnapshots() {
		return errors.New("snapshot database: not with this one")
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("snapshot database: %w", err)
	}
	if err := makePrivate(file); err != nil {
		return fmt.Errorf("snapshot database: %w", err)
	}
	db, err := connectSQLite(sqliteFile(s.dir), true) // of its own: it waits for nobody
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		return mark(s.engine, fmt.Errorf("snapshot database: %w", err))
	}
	return nil
}

// Check looks for damage in the database's files, as far as the engine tells.
func (s *Store) Check(ctx context.Context) error {
	if err := s.engine.check(ctx, s.read); err != nil {
		return mark(s.engine, fmt.Errorf("check database: %w", err))
	}
	return nil
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

// check asks for torn or rotten pages, which a server with data checksums counts.
func (postgresEngine) check(ctx context.Context, db *sql.DB) error {
	var failures sql.NullInt64
	err := db.QueryRowContext(ctx, "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()").Scan(&failures)
	if err == nil && failures.Int64 > 0 {
		err = fmt.Errorf("the server counted %d pages with a wrong checksum", failures.Int64)
	}
	return err
}

// MayChangeLedger reports whether the database itself would let this service
// change or remove ledger rows, were it not for the trigger. In SQLite whoever
// has the file can.
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
