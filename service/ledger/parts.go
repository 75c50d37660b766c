package ledger

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// Part is some of the files and folders, by a hash of their references that nobody can foresee. The zero value is all.
type Part struct {
	number, of uint64
	seed       maphash.Seed
}

func (p Part) has(ref string) bool { return p.of < 2 || maphash.String(p.seed, ref)%p.of == p.number }

// Parts returns so many parts that each has about filesAtOnce files and folders, at least one. What becomes of a file
// or folder follows from its own records and from those about folders, members and groups, so a [State] of each part
// can be made and compared after the other.
func Parts(ctx context.Context, tx *store.Tx, filesAtOnce int64) ([]Part, error) {
	var count int64
	err := tx.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM folders)").Scan(&count)
	if err != nil {
		return nil, fmt.Errorf("count files: %w", err)
	}
	parts := make([]Part, 1+max(count-1, 0)/filesAtOnce)
	seed := maphash.MakeSeed()
	for i := range parts {
		parts[i] = Part{uint64(i), uint64(len(parts)), seed}
	}
	return parts, nil
}

// Replay applies all records. [ErrBroken] names the first that breaks a chain.
func (s *State) Replay(ctx context.Context, tx *store.Tx) error {
	var w Walk
	if _, err := w.Next(ctx, tx, math.MaxInt32, func(r chain.Row) error { s.Apply(&r); return nil }); err != nil {
		return err
	}
	_, err := w.Waiting(ctx, tx, func(r chain.Row) error {
		s.Apply(&r)
		return nil
	})
	return err
}
