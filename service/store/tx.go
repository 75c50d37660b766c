package store

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
)

// Row is a row of a result.
type Row interface {
	// Scan copies the columns into dest. The error is [sql.ErrNoRows] where a query for one
	// row found none.
	Scan(dest ...any) error
}

// rows is a result under way.
type rows interface {
	Row
	Next() bool
	Err() error
	Close() error
}

// statements is what the statements of a transaction run on. Their placeholders are the engine's.
type statements interface {
	// queue runs a statement now or later, but before any that comes after it, and before the
	// commit. what begins the text of its error, which may be returned by one of those. args and
	// what they refer to stay as they are until the transaction has ended.
	queue(ctx context.Context, what, query string, args []any) error
	exec(ctx context.Context, query string, args []any) (sql.Result, error)
	query(ctx context.Context, query string, args []any) (rows, error)
	queryRow(ctx context.Context, query string, args []any) Row
}

// transaction is a transaction that writes.
type transaction interface {
	statements
	// ask runs queries for a row each in one round trip, where asksAhead says that this is of use.
	asksAhead() bool
	ask(ctx context.Context, all []queued) ([]Row, error)
	// between runs one of the texts around the writes of a commit.
	between(ctx context.Context, text string) error
	commit(ctx context.Context) error
	// rollback does nothing after a commit without an error.
	rollback()
}

// queries is a transaction of database/sql, or the database without one.
type queries interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// direct runs each statement at once.
type direct struct{ queries }

func (d direct) queue(ctx context.Context, what, query string, args []any) error {
	if _, err := d.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (d direct) exec(ctx context.Context, query string, args []any) (sql.Result, error) {
	return d.ExecContext(ctx, query, args...)
}

func (d direct) query(ctx context.Context, query string, args []any) (rows, error) {
	return d.QueryContext(ctx, query, args...)
}

func (d direct) queryRow(ctx context.Context, query string, args []any) Row {
	return d.QueryRowContext(ctx, query, args...)
}

// Tx is a transaction. Statements are written with the placeholder ? for both
// engines.
type Tx struct {
	statements
	engine engine
	// ctx is the context of a write, which callers share: one that leaves must not break
	// it. nil = every statement uses its own.
	ctx    context.Context
	chains Chains   // of the write that runs now
	known  []answer // what it need not ask any more
}

func (t *Tx) context(ctx context.Context) context.Context {
	if t.ctx != nil {
		return t.ctx
	}
	return ctx
}

// ExecContext runs a statement at once.
func (t *Tx) ExecContext(ctx context.Context, query Query, args ...any) (sql.Result, error) {
	return t.exec(t.context(ctx), t.text(query), args)
}

// Do runs a statement whose result nobody needs. what begins the text of an error. On PostgreSQL
// the statement travels with the next query of the transaction, which then returns its error, or
// with the commit: who looks at the error uses [Tx.Count]. args and the bytes of a slice among
// them stay as they are until the transaction has ended.
func (t *Tx) Do(ctx context.Context, what string, query Query, args ...any) error {
	return t.queue(t.context(ctx), what, t.text(query), args)
}

// Count runs a statement at once, and returns how many rows it changed. what begins the text of an error.
func (t *Tx) Count(ctx context.Context, what string, query Query, args ...any) (n int64, err error) {
	result, err := t.ExecContext(ctx, query, args...)
	if err == nil {
		n, err = result.RowsAffected()
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return n, nil
}

// IsReference reports whether an error of a statement is [ErrReference], before the transaction ends.
func (t *Tx) IsReference(err error) bool { return t.engine.kind(err) == ErrReference }

// Rows runs a query for a loop over its rows. An error ends the loop; the rows are
// closed after it.
func (t *Tx) Rows(ctx context.Context, query Query, args ...any) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		rows, err := t.query(t.context(ctx), t.text(query), args)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			if !yield(rows, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Each runs a query for a loop over its rows as values; fields returns the destinations of one row. what begins the
// text
// of an error, which ends the loop.
func Each[T any](ctx context.Context, tx *Tx, what string, fields func(*T) []any, query Query,
	args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for rows, err := range tx.Rows(ctx, query, args...) {
			var v T
			if err == nil {
				err = rows.Scan(fields(&v)...)
			}
			if err != nil {
				yield(v, fmt.Errorf("%s: %w", what, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// List returns what [Each] loops over.
func List[T any](ctx context.Context, tx *Tx, what string, fields func(*T) []any, query Query,
	args ...any) ([]T, error) {
	list := []T{}
	for v, err := range Each(ctx, tx, what, fields, query, args...) {
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Values is [List] for a query with one column.
func Values[T any](ctx context.Context, tx *Tx, what string, query Query, args ...any) ([]T, error) {
	return List(ctx, tx, what, func(v *T) []any { return []any{v} }, query, args...)
}

// QueryRowContext runs a query for one row.
func (t *Tx) QueryRowContext(ctx context.Context, query Query, args ...any) Row {
	return t.queryRow(t.context(ctx), t.text(query), args)
}
