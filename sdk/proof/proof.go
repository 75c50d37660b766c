// Package proof checks what a service says about the history of a group against
// what the service signed: no record was changed, no record was left out, and the
// history only grew. It trusts only a pinned key and what was seen before.
// service/LEDGER.md describes the formats.
//
// It cannot know whether the service shows two people two histories, unless a
// witness signed the one shown ([NewLog]).
package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Refusal is the error for a history that must not be believed.
type Refusal struct {
	Row  int64 // ledger sequence of the first bad record; 0 = the fault is in no single record
	Text string
}

// Error returns the record and what is wrong with it.
func (r *Refusal) Error() string {
	if r.Row == 0 {
		return r.Text
	}
	return fmt.Sprintf("record %d: %s", r.Row, r.Text)
}

func refuse(row int64, format string, args ...any) error {
	return &Refusal{Row: row, Text: fmt.Sprintf(format, args...)}
}

// Fetch reads "checkpoint", "key" or "tile/…" of the log of a service.
type Fetch func(ctx context.Context, path string) ([]byte, error)

// Checker checks records one by one against the tree of the whole ledger.
type Checker struct {
	Fetch Fetch
	Log   *Log
	// Patience is how long Check waits for a checkpoint that holds all listed rows.
	Patience time.Duration
}

// LagPause is the pause between two requests for such a checkpoint.
const LagPause = 200 * time.Millisecond

// Check verifies rows, which ascend by sequence. Each row must give its hash, and must be
// in the tree of a checkpoint that continues before. It returns that checkpoint. A
// [*Refusal] means that the service lies now, or lied before. Any other error means that
// the service could not be asked.
func (c Checker) Check(ctx context.Context, before Checkpoint, rows []chain.Row) (Checkpoint, error) {
	needed := before.N
	last := int64(0)
	for i := range rows {
		r := &rows[i]
		if r.Seq <= last {
			return Checkpoint{}, refuse(r.Seq, "listed after record %d", last)
		}
		if r.Sum() != r.Hash {
			return Checkpoint{}, refuse(r.Seq, "its content does not give its hash")
		}
		last, needed = r.Seq, max(needed, placeOf(r))
	}
	now, err := c.checkpoint(ctx, needed, before.N)
	if err != nil {
		return now, err
	}
	return now, c.compare(ctx, now, before, rows)
}

// Holds verifies that the log holds a record: in the tree of now, which was verified before, or of a later checkpoint,
// for which it waits as Check does. It returns the checkpoint. Errors are those of Check.
func (c Checker) Holds(ctx context.Context, now Checkpoint, r chain.Row) (Checkpoint, error) {
	if placeOf(&r) > now.N {
		return c.Check(ctx, now, []chain.Row{r})
	}
	return now, c.compare(ctx, now, Checkpoint{}, []chain.Row{r})
}

// placeOf is the place of a record in the whole ledger: where nobody said it, its sequence.
func placeOf(r *chain.Row) int64 { return cmp.Or(r.Place, r.Seq) }

// ErrUnsigned means that the newest checkpoint does not hold all listed rows yet, for
// example while a witness is away.
var ErrUnsigned = errors.New("the newest records are in no signed checkpoint yet: ask again in a moment")

// checkpoint fetches a checkpoint of at least needed records, and waits for it up to
// c.Patience. A checkpoint of fewer records than before is a refusal: the history lost
// records.
func (c Checker) checkpoint(ctx context.Context, needed, before int64) (Checkpoint, error) {
	for deadline := time.Now().Add(c.Patience); ; {
		raw, err := c.Fetch(ctx, "checkpoint")
		if err != nil {
			return Checkpoint{}, fmt.Errorf("fetch checkpoint: %w", err)
		}
		now, err := c.Log.Open(string(raw))
		if err != nil {
			return now, err
		}
		if now.N >= needed {
			return now, nil
		}
		if !time.Now().Before(deadline) {
			if now.N >= before {
				return now, fmt.Errorf("%w: it holds %d records, and %d are listed", ErrUnsigned, now.N, needed)
			}
			return now, refuse(now.N+1, "the signed history ends before it, although %d records were seen", before)
		}
		select {
		case <-time.After(LagPause):
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// compare proves that now continues before, and that every row is in now.
func (c Checker) compare(ctx context.Context, now, before Checkpoint, rows []chain.Row) error {
	if now.N == 0 { // an empty tree: before and rows are empty too
		return nil
	}
	source := &tiles{ctx: ctx, fetch: c.Fetch, have: map[tlog.Tile][]byte{}}
	reader := tlog.TileHashReader(now.Tree, source)
	indexes := make([]int64, len(rows))
	for i, r := range rows {
		indexes[i] = tlog.StoredHashIndex(0, placeOf(&r)-1)
	}
	hashes, err := reader.ReadHashes(indexes)
	if err != nil {
		return source.blame(err)
	}
	for i, r := range rows {
		if hashes[i] != tlog.RecordHash(r.Hash[:]) {
			return refuse(r.Seq, "another record was signed at this place")
		}
	}
	if before.N == 0 {
		return nil
	}
	proof, err := tlog.ProveTree(now.N, before.N, reader)
	if err != nil {
		return source.blame(err)
	}
	if tlog.CheckTree(proof, now.N, now.Hash, before.N, before.Hash) != nil {
		return refuse(0, "the history was forked: records 1 to %d are not those that were signed before", before.N)
	}
	return nil
}
