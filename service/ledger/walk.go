package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// ErrBroken means that an audit found a fault; the text names the first bad row.
var ErrBroken = errors.New("the ledger is broken")

// columns of a record, in the order in which scan reads them.
const columns = "seq, tx_id, kind, time_ns, ledger.account, ledger.group_id, ref, file_hash, detail, fee, request, " +
	"prev_hash, hash, chain, number, tags"

// End is where a chain ends.
type End struct {
	chain.Place
	time int64 // of the last record, ns
}

// Walk is a place in the ledger: that of the newest record that was checked, and where
// each chain ended there. The zero value stands before the first record.
type Walk struct {
	Place int64
	ends  map[string]End // shared with forks: read only
	moved map[string]End // since the fork
}

// Fork returns a walk that continues from w and leaves w unchanged.
func (w *Walk) Fork() *Walk {
	return &Walk{Place: w.Place, ends: w.ends, moved: make(map[string]End)}
}

// Join moves w to the place of a fork of it. No other fork of w may be used afterwards.
func (w *Walk) Join(fork *Walk) {
	if w.ends == nil {
		w.ends = make(map[string]End)
	}
	maps.Copy(w.ends, fork.moved)
	w.Place = fork.Place
}

// Moved returns the chains that moved since the fork. The map belongs to the walk.
func (w *Walk) Moved() map[string]End { return w.moved }

// end returns where a chain ends.
func (w *Walk) end(name string) End {
	if e, ok := w.moved[name]; ok {
		return e
	}
	return w.ends[name]
}

func (w *Walk) move(name string, e End) {
	if w.moved == nil {
		w.moved = make(map[string]End)
	}
	w.moved[name] = e
}

// Next reads up to limit records that follow w, checks place, link and content of
// each, passes it to f and moves w to it. It returns how many there were; less
// than limit means that the end is reached. [ErrBroken] names the first bad row,
// where w stays before it.
func (w *Walk) Next(ctx context.Context, tx *store.Tx, limit int, f func(chain.Row) error) (n int, err error) {
	for rows, err := range tx.Rows(ctx, "SELECT "+columns+", place FROM placed AS ledger WHERE place > ? ORDER BY "+
		"place LIMIT ?", w.Place, limit) {
		if err != nil {
			return n, fmt.Errorf("read ledger: %w", err)
		}
		var place int64
		r, err := scan(rows, &place)
		r.Place = place
		if ctx.Err() != nil { // the rows may have been closed under the scan
			return n, ctx.Err()
		}
		if err != nil {
			return n, fmt.Errorf("row %d: %w: %w", w.Place+1, ErrBroken, err)
		}
		name, end, fault := w.check(&r)
		if r.Place != w.Place+1 {
			fault = fmt.Sprintf("the next row has place %d", r.Place)
		}
		if fault != "" {
			return n, fmt.Errorf("row %d: %w: %s", w.Place+1, ErrBroken, fault)
		}
		if err := f(r); err != nil {
			return n, err
		}
		w.move(name, end)
		w.Place = r.Place
		n++
	}
	return n, nil
}

// check returns the fault of the record after w, or the new end of its chain.
func (w *Walk) check(r *chain.Row) (name string, end End, fault string) {
	name = chain.Of(r.Kind, r.Account, r.Group)
	end = w.end(name)
	switch {
	case r.Chain != name:
		fault = fmt.Sprintf("it is in chain %q, and belongs in %q", r.Chain, name)
	case r.Number != end.Number+1:
		fault = fmt.Sprintf("it has number %d in its chain, and %d is the next", r.Number, end.Number+1)
	case r.Prev != end.Hash:
		fault = "it does not follow the row before it in its chain"
	case r.Sum() != r.Hash:
		fault = "its content was changed"
	case r.TimeNS <= end.time:
		fault = "it is not later than the row before it in its chain"
	}
	return name, End{chain.Place{Number: r.Number, Hash: r.Hash}, r.TimeNS}, fault
}

// Settled compares the ends of chains in the database with those of the walk, which has
// reached the end of the ledger. [ErrBroken] names the first that differs.
func (w *Walk) Settled(ctx context.Context, tx *store.Tx) error {
	all := maps.Clone(w.ends)
	if all == nil {
		all = make(map[string]End)
	}
	maps.Copy(all, w.moved)
	for rows, err := range tx.Rows(ctx, "SELECT chain, number, hash, time_ns FROM chains ORDER BY chain") {
		if err != nil {
			return fmt.Errorf("read chains: %w", err)
		}
		var name string
		var kept End
		var hash []byte
		if err := rows.Scan(&name, &kept.Number, &hash, &kept.time); err != nil {
			return fmt.Errorf("table chains: %w: a field has the wrong type", ErrBroken)
		}
		copy(kept.Hash[:], hash)
		want, ok := all[name]
		if !ok {
			return fmt.Errorf("table chains, %q: %w: the ledger has no such chain", name, ErrBroken)
		}
		if kept != want || len(hash) != len(kept.Hash) {
			return fmt.Errorf("table chains, %q: %w: it is kept with %d records, hash %x and time %d; the ledger has "+
				"%d, %x, %d", name, ErrBroken, kept.Number, hash, kept.time, want.Number, want.Hash, want.time)
		}
		delete(all, name)
	}
	missing := ""
	for name := range all {
		if missing == "" || name < missing {
			missing = name
		}
	}
	if missing != "" {
		return fmt.Errorf("table chains, %q: %w: it is missing", missing, ErrBroken)
	}
	return nil
}

// Audit walks all records and returns how many there are. It fails at the first
// whose hash, link or place is wrong, or whose chain is kept otherwise.
func Audit(ctx context.Context, tx *store.Tx) (int64, error) {
	var w Walk
	if _, err := w.Next(ctx, tx, math.MaxInt32, func(chain.Row) error { return nil }); err != nil {
		return w.Place, err
	}
	return w.Place, w.Settled(ctx, tx)
}

// ChainEnd returns where a chain ends, as the database keeps it.
func ChainEnd(ctx context.Context, tx *store.Tx, name string) (p chain.Place, err error) {
	var hash []byte
	err = tx.QueryRowContext(ctx, "SELECT number, hash FROM chains WHERE chain = ?", name).Scan(&p.Number, &hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, fmt.Errorf("read chain: %w", err)
	}
	copy(p.Hash[:], hash)
	return p, nil
}

// At returns the record with a sequence.
func At(ctx context.Context, tx *store.Tx, seq int64) (chain.Row, error) {
	return one(ctx, tx, fmt.Sprintf("read record %d", seq), "FROM ledger WHERE seq = ?", seq)
}

// AtPlace returns the record with a place.
func AtPlace(ctx context.Context, tx *store.Tx, place int64) (chain.Row, error) {
	return one(ctx, tx, fmt.Sprintf("read the record at place %d", place), "FROM placed AS ledger WHERE place = ?",
		place)
}

func one(ctx context.Context, tx *store.Tx, what string, from store.Query, arg int64) (r chain.Row, err error) {
	err = fmt.Errorf("%s: %w", what, sql.ErrNoRows)
	for r, err = range records(ctx, tx, what, nil, "SELECT "+columns+" "+from, arg) {
	}
	return r, err
}

// records runs a query for columns, and for more behind them.
func records(ctx context.Context, tx *store.Tx, what string, more []any, query store.Query,
	args ...any) iter.Seq2[chain.Row, error] {
	return func(yield func(chain.Row, error) bool) {
		for rows, err := range tx.Rows(ctx, query, args...) {
			var r chain.Row
			if err == nil {
				r, err = scan(rows, more...)
			}
			if err != nil {
				yield(r, fmt.Errorf("%s: %w", what, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func scan(rows store.Row, more ...any) (r chain.Row, err error) {
	var tags string
	var prev, hash []byte
	if err := rows.Scan(append([]any{&r.Seq, &r.Tx, &r.Kind, &r.TimeNS, &r.Account, &r.Group, &r.Ref, &r.FileHash,
		&r.Detail, &r.Fee, &r.Request, &prev, &hash,
		&r.Chain, &r.Number, &tags}, more...)...); err != nil {
		return r, errors.New("a field has the wrong type")
	}
	copy(r.Prev[:], prev)
	copy(r.Hash[:], hash)
	fee, err := wire.ParseAmount(r.Fee)
	if err == nil && fee.String() != r.Fee {
		err = fmt.Errorf("fee %q is not written as the ledger writes it", r.Fee)
	}
	if err != nil {
		return r, err
	}
	r.Tags, err = readTags(tags)
	return r, err
}
