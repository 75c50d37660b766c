package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
)

// maxPrepared bounds the statements that one connection keeps; the service has
// about a hundred texts.
const maxPrepared = 256

// preparing opens SQLite connections that parse each text once. (The driver of
// PostgreSQL has this built in: pgx.QueryExecModeCacheStatement.)
type preparing struct{ driver.Connector }

// Connect opens a connection.
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := c.(sqliteConn)
	if !ok {
		return nil, fmt.Errorf("connect: %T lacks a method", c)
	}
	return &preparedConn{sqliteConn: whole, kept: make(map[string]*keptStmt)}, nil
}

// sqliteConn lists the methods of a connection that database/sql uses.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// preparedConn keeps statements until it is closed. One goroutine uses it at a
// time.
type preparedConn struct {
	sqliteConn
	kept map[string]*keptStmt
}

// keptStmt is a prepared statement.
type keptStmt struct {
	preparedStmt
	busy bool // its rows are being read
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// ExecContext runs a statement.
func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	return s.ExecContext(ctx, args)
}

// QueryContext runs a query.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &keptRows{rows, s}, nil
}

// statement returns the prepared statement of a text, or nil when the text runs
// unprepared: its statement is in use, the text is of a kind that is not repeated, or
// too many are kept.
func (c *preparedConn) statement(ctx context.Context, query string) (*keptStmt, error) {
	if s := c.kept[query]; s != nil {
		if s.busy {
			return nil, nil
		}
		return s, nil
	}
	if len(c.kept) >= maxPrepared || !isRepeated(query) {
		return nil, nil
	}
	made, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	whole, ok := made.(preparedStmt)
	if !ok {
		return nil, fmt.Errorf("prepare: %T lacks a method", made)
	}
	s := &keptStmt{preparedStmt: whole}
	c.kept[query] = s
	return s, nil
}

func isRepeated(query string) bool {
	for _, verb := range []string{"SELECT ", "INSERT ", "UPDATE ", "DELETE ", "SAVEPOINT ", "RELEASE ", "ROLLBACK",
		"BEGIN ", "COMMIT"} {
		if strings.HasPrefix(query, verb) {
			return true
		}
	}
	return false
}

// Close closes the connection with its statements.
func (c *preparedConn) Close() error {
	for _, s := range c.kept {
		_ = s.Close() // the connection ends anyway
	}
	clear(c.kept)
	return c.sqliteConn.Close()
}

// keptRows are the rows of a kept statement.
type keptRows struct {
	driver.Rows
	s *keptStmt
}

// Close ends reading.
func (r *keptRows) Close() error {
	r.s.busy = false
	return r.Rows.Close()
}
