package store

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// Bounds of what waits in a pipeline before it is sent.
const (
	maxQueued      = 256
	maxQueuedBytes = 1 << 20
)

// errSpoiled means that a commit failed by one of its writes, or by one that nobody can name: each
// may be tried alone.
var errSpoiled = errors.New("another write of the same commit failed")

// pipeline is a writing transaction of PostgreSQL. A statement whose result nobody needs waits,
// and travels with the next one that is asked for its result, or with the commit: all of them are
// one round trip. So do the begin, the lock and savepoints.
type pipeline struct {
	pool    *sql.Conn // owns conn
	conn    *pgx.Conn
	ctx     context.Context // of the transaction
	waiting []queued
	bytes   int   // of waiting, about
	begun   bool  // the server has something of the transaction
	over    bool  // it was committed
	lost    error // why it cannot be committed
	write   int   // the number of the write that runs, of those that are committed together
}

// queued is a statement that waits.
type queued struct {
	what, sql string
	args      []any
	write     int // that it belongs to
}

// newPipeline takes a connection. It sends nothing.
func newPipeline(ctx context.Context, db *sql.DB) (*pipeline, error) {
	pool, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	p := &pipeline{pool: pool, ctx: ctx}
	err = pool.Raw(func(c any) error {
		whole, ok := c.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("connect: %T is none of PostgreSQL", c)
		}
		p.conn = whole.Conn() // nobody else has it while pool is open
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return p, nil
}

func (p *pipeline) queue(ctx context.Context, what, query string, args []any) error {
	if p.lost != nil {
		return p.lost
	}
	p.waiting = append(p.waiting, queued{what, query, args, p.write})
	p.bytes += len(query)
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			p.bytes += len(arg)
		case []byte:
			p.bytes += len(arg)
		}
	}
	if len(p.waiting) < maxQueued && p.bytes < maxQueuedBytes {
		return nil
	}
	results, err := p.send(ctx)
	if err != nil {
		return err
	}
	return p.received(results.Close())
}

// send sends what waits and then more, whose results the caller reads. It has read those before.
func (p *pipeline) send(ctx context.Context, more ...queued) (pgx.BatchResults, error) {
	if p.lost != nil {
		return nil, p.lost
	}
	batch := &pgx.Batch{}
	for _, q := range append(p.waiting, more...) {
		batch.Queue(q.sql, q.args...)
	}
	sent := p.waiting
	p.waiting, p.bytes, p.begun = nil, 0, true
	results := p.conn.SendBatch(ctx, batch)
	for _, q := range sent {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // the same error
			return nil, p.failed(q, err)
		}
	}
	return results, nil
}

// failed notes that a statement failed, and returns its error. That of another write is an answer to none.
func (p *pipeline) failed(q queued, err error) error {
	err = fmt.Errorf("%s: %w", q.what, p.received(err))
	if q.write != p.write && p.lost == nil {
		p.lost = fmt.Errorf("%w: %w", errSpoiled, err)
		return p.lost
	}
	return err
}

// received notes what an error means for the transaction, and returns it. After one of a statement
// the server takes nothing but the way back to a savepoint. After any other it is not known which
// statements it has got.
func (p *pipeline) received(err error) error {
	var failed *pgconn.PgError
	if err != nil && p.lost == nil && (!errors.As(err, &failed) || p.conn.PgConn().TxStatus() != 'E') {
		p.lost = fmt.Errorf("%w: %w", errSpoiled, err)
	}
	return err
}

// exec sends a text without arguments by itself: it may hold several statements.
func (p *pipeline) exec(ctx context.Context, query string, args []any) (sql.Result, error) {
	if len(args) == 0 {
		if err := p.flush(ctx); err != nil {
			return nil, err
		}
		tag, err := p.conn.Exec(ctx, query)
		return driver.RowsAffected(tag.RowsAffected()), p.received(err)
	}
	results, err := p.send(ctx, queued{sql: query, args: args})
	if err != nil {
		return nil, err
	}
	tag, err := results.Exec()
	return driver.RowsAffected(tag.RowsAffected()), p.received(cmp.Or(err, results.Close()))
}

// flush sends what waits.
func (p *pipeline) flush(ctx context.Context) error {
	if p.lost != nil || len(p.waiting) == 0 {
		return p.lost
	}
	results, err := p.send(ctx)
	if err != nil {
		return err
	}
	return p.received(results.Close())
}

func (p *pipeline) query(ctx context.Context, query string, args []any) (rows, error) {
	results, err := p.send(ctx, queued{sql: query, args: args})
	if err != nil {
		return nil, err
	}
	got, err := results.Query()
	if err != nil {
		_ = results.Close() // the same error
		return nil, p.received(err)
	}
	return &arriving{got, results, p}, nil
}

// arriving are rows that are read from the connection.
type arriving struct {
	pgx.Rows
	results pgx.BatchResults
	p       *pipeline
}

// Close ends the result.
func (a *arriving) Close() error {
	a.Rows.Close()
	return a.p.received(cmp.Or(a.Rows.Err(), a.results.Close()))
}

func (p *pipeline) queryRow(ctx context.Context, query string, args []any) Row {
	rows, err := p.ask(ctx, []queued{{sql: query, args: args}})
	if err != nil {
		return &fetched{err: err}
	}
	return rows[0]
}

func (p *pipeline) asksAhead() bool { return true }

func (p *pipeline) ask(ctx context.Context, all []queued) ([]Row, error) {
	results, err := p.send(ctx, all...)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(all))
	for i := range all {
		var f *fetched
		if f, err = p.fetch(results.Query()); err != nil {
			break
		}
		rows[i] = f
	}
	return rows, p.received(cmp.Or(err, results.Close()))
}

// fetch reads the first row of a result, and ends it.
func (p *pipeline) fetch(rows pgx.Rows, err error) (*fetched, error) {
	if err != nil {
		return nil, err
	}
	f := &fetched{types: p.conn.TypeMap(), err: sql.ErrNoRows}
	if rows.Next() {
		f.fields, f.err = slices.Clone(rows.FieldDescriptions()), nil
		for _, value := range rows.RawValues() {
			f.values = append(f.values, slices.Clone(value)) // nil = NULL
		}
	}
	rows.Close()
	return f, rows.Err()
}

// fetched is a row in memory.
type fetched struct {
	types  *pgtype.Map
	fields []pgconn.FieldDescription
	values [][]byte
	err    error
}

// Scan copies the columns into dest.
func (f *fetched) Scan(dest ...any) error {
	if f.err != nil {
		return f.err
	}
	return pgx.ScanRow(f.types, f.fields, f.values, dest...)
}

func (p *pipeline) between(ctx context.Context, text string) error {
	p.write++
	switch text {
	case undoOne:
		return p.undo(ctx)
	case nextOne:
		if err := p.queue(ctx, "end one of several writes", "RELEASE SAVEPOINT one", nil); err != nil {
			return err
		}
	}
	return p.queue(ctx, "begin one of several writes", beginOne, nil)
}

// undo goes back to the savepoint, at once: what waits since then is never sent.
func (p *pipeline) undo(ctx context.Context) error {
	for i, q := range slices.Backward(p.waiting) {
		if q.sql == beginOne {
			p.waiting = p.waiting[:i+1]
			return p.lost
		}
	}
	p.waiting = nil
	_, err := p.exec(ctx, undoOne, nil)
	return err
}

func (p *pipeline) commit(ctx context.Context) error {
	if p.lost != nil || !p.begun && len(p.waiting) == 0 {
		return p.lost
	}
	results, err := p.send(ctx, queued{sql: "COMMIT"})
	if err != nil && p.write > 0 {
		err = fmt.Errorf("%w: %w", errSpoiled, err)
	}
	if err != nil {
		return err
	}
	tag, err := results.Exec()
	if err = cmp.Or(err, results.Close()); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if tag.String() == "ROLLBACK" { // the answer to a commit after a failure
		return errors.New("commit: a statement had failed")
	}
	p.over = true
	return p.pool.Close()
}

// rollback drops the connection when it cannot end the transaction: the next writer must not
// continue it.
func (p *pipeline) rollback() {
	if p.over {
		return
	}
	p.over = true
	if p.begun && !p.conn.IsClosed() && p.conn.PgConn().TxStatus() != 'I' {
		_, _ = p.conn.Exec(p.ctx, "ROLLBACK")
	}
	if p.conn.IsClosed() || p.conn.PgConn().TxStatus() != 'I' {
		_ = p.pool.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = p.pool.Close()
}
