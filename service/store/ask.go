package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Ask is a query for one row with its arguments, which a write may have asked beforehand.
type Ask struct {
	Query Query
	Args  []any
	// Whole means that the answer depends on more than the chains that the write names.
	Whole bool
}

// Asking are the same chains, of a write that will ask these queries with [Tx.Ask]. On PostgreSQL those of all writes
// of a commit are asked together with its begin, in one round trip. SQLite does not call asks.
func (c Chains) Asking(asks func() []Ask) Chains {
	c.asks = asks
	return c
}

// LookAsking is [Store.Look] for several queries, each of which may see the state of its own moment. On PostgreSQL
// those that are named are asked in one round trip, and f has the answers by [Tx.Ask].
func (s *Store) LookAsking(ctx context.Context, asks []Ask, f func(*Tx) error) error {
	if s.Engine() != (postgresEngine{}).name() {
		return s.Look(ctx, f)
	}
	err := s.lookAsking(ctx, asks, f)
	if errors.Is(err, errSpoiled) { // the server may have closed the connection long ago
		return s.Look(ctx, f)
	}
	return err
}

func (s *Store) lookAsking(ctx context.Context, asks []Ask, f func(*Tx) error) (err error) {
	defer s.observed("read", &err)()
	done, err := s.mayRead(ctx)
	if err != nil {
		return err
	}
	defer done()
	line, err := newPipeline(ctx, s.read)
	if err != nil {
		return mark(s.engine, fmt.Errorf("look: %w", err))
	}
	defer line.rollback()
	tx := &Tx{statements: line, engine: s.engine}
	p := &pending{chains: Chains{asks: func() []Ask { return asks }}}
	if err := askAhead(ctx, tx, line, []*pending{p}); err != nil {
		return mark(s.engine, err)
	}
	tx.known = p.known
	return mark(s.engine, f(tx))
}

// meets reports whether both have a chain in common.
func (c Chains) meets(other Chains) bool {
	return c.all || other.all || slices.ContainsFunc(c.names, other.Has)
}

// answer is a row that came before it was asked for.
type answer struct {
	Ask
	row Row
}

// Ask runs a query for one row. The answer that came with the begin is given where nothing was changed since that it
// may depend on: by this write a table that the query names, or by an earlier write of the commit one of the same
// chains.
func (t *Tx) Ask(ctx context.Context, a Ask) Row {
	for _, known := range t.known {
		if known.Query == a.Query && reflect.DeepEqual(known.Args, a.Args) {
			return known.row
		}
	}
	return t.QueryRowContext(ctx, a.Query, a.Args...)
}

// text is a query as the engine reads it. One that changes something makes answers old.
func (t *Tx) text(query Query) string {
	if len(t.known) > 0 && !strings.HasPrefix(string(query), "SELECT ") {
		changed := changedBy(string(query))
		t.known = slices.DeleteFunc(slices.Clone(t.known), func(a answer) bool {
			return changed == nil || slices.ContainsFunc(changed, func(table string) bool {
				return strings.Contains(string(a.Query), table)
			})
		})
	}
	return t.engine.rebind(string(query))
}

// changedBy returns the tables that a statement changes, also by triggers, and their views; nil = it may change any.
func changedBy(statement string) []string {
	words := strings.Fields(statement)
	if len(words) < 3 {
		return nil
	}
	table := words[2] // INSERT INTO, DELETE FROM
	switch {
	case words[0] == "UPDATE":
		table = words[1]
	case words[0] != "INSERT" && words[0] != "DELETE":
		return nil
	}
	switch table {
	case "files", "uploads":
		return []string{table, "stored_bytes", "small_contents"}
	case "ledger":
		return []string{table, "newest_records", "place", "stored_bytes", "record_ids"}
	case "parts":
		return []string{table, "stored_bytes"}
	}
	return []string{table}
}

// askAhead asks what writes will ask, in one round trip.
func askAhead(ctx context.Context, t *Tx, w transaction, batch []*pending) error {
	if !w.asksAhead() {
		return nil
	}
	var all []queued
	for _, p := range batch {
		if p.known = nil; p.chains.asks == nil {
			continue
		}
		for _, a := range p.chains.asks() {
			p.known = append(p.known, answer{Ask: a})
			all = append(all, queued{sql: t.engine.rebind(string(a.Query)), args: a.Args})
		}
	}
	if len(all) == 0 {
		return nil
	}
	rows, err := w.ask(ctx, all)
	if err != nil {
		return fmt.Errorf("%w: %w", errSpoiled, err)
	}
	for _, p := range batch {
		for i := range p.known {
			p.known[i].row, rows = rows[0], rows[1:]
		}
	}
	return nil
}

// stillKnown returns the answers of a write after others, which changed these chains, ran since the answers came.
func (p *pending) stillKnown(changed Chains) []answer {
	if p.chains.meets(changed) {
		return nil
	}
	return slices.DeleteFunc(p.known, func(a answer) bool { return a.Whole })
}
