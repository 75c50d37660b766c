package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is the type of a column.
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

// Order are the columns that order the rows, the same in every database. Rows with a sequence are in its order, so
// that new ones come last.
func (t Table) Order() [2]string {
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == "seq" }) {
		return [2]string{"seq", t.Columns[0].Name}
	}
	return [2]string{t.Columns[0].Name, t.Columns[1].Name}
}

// SelectAll reads every row, in order.
func (t Table) SelectAll() Query {
	order := t.Order()
	return Query("SELECT " + t.names() + " FROM " + t.Name + " ORDER BY " + order[0] + ", " + order[1])
}

// Insert adds a row; the arguments are its columns in order.
func (t Table) Insert() Query {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ")
	return Query("INSERT INTO " + t.Name + " (" + t.names() + ") VALUES (" + marks + ")")
}

// InsertNew is Insert, which leaves a row that is there as it is.
func (t Table) InsertNew() Query { return t.Insert() + " ON CONFLICT DO NOTHING" }

// Filled has the database number new keys and contents behind those that were filled in with their numbers.
func (t *Tx) Filled(ctx context.Context) error {
	if !t.Sequenced() {
		return nil // it takes the number after the largest
	}
	return t.Do(ctx, "set sequences", `SELECT
		setval('file_key_ids', (SELECT COALESCE(max(id), 0) + 1 FROM file_keys), false),
		setval('small_content_ids', (SELECT COALESCE(max(id), 0) + 1 FROM small_contents), false)`)
}

// SchemaVersion is the number of the newest migration that the database had when it was opened.
func (s *Store) SchemaVersion() int { return s.have }

// Tables lists the tables, each after those its rows refer to.
func (s *Store) Tables(ctx context.Context, tx *Tx) ([]Table, error) {
	all, err := s.engine.tables(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	refers, err := s.engine.references(ctx, tx)
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
			waits := slices.ContainsFunc(refers[t.Name], func(other string) bool {
				return other != t.Name && !placed[other]
			})
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
func scanTables(ctx context.Context, tx *Tx, kind func(declared string) (Kind, error), query Query) (all []Table,
	err error) {
	for row, err := range tx.Rows(ctx, query) {
		var table, column, declared string
		if err == nil {
			err = row.Scan(&table, &column, &declared)
		}
		if err != nil {
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
	return all, nil
}

func scanReferences(ctx context.Context, tx *Tx, query Query) (map[string][]string, error) {
	refers := make(map[string][]string)
	for row, err := range tx.Rows(ctx, query) {
		var from, to string
		if err == nil {
			err = row.Scan(&from, &to)
		}
		if err != nil {
			return nil, err
		}
		refers[from] = append(refers[from], to)
	}
	return refers, nil
}
