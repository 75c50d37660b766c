package ledger

import (
	"context"
	"fmt"
	"math"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// Names is the living names of a group at a place of its chain.
type Names struct {
	chain.Replay
	seq int64 // of the newest record that was applied
}

// The living of the tables, with the records that made them.
const (
	selectNamed = "SELECT files.ref, filename, attributes, trash_ns IS NOT NULL, number, hash FROM files JOIN ledger " +
		"ON ledger.seq = files.seq WHERE files.group_id = ? AND deleted_ns IS NULL"
	selectMade = "SELECT folders.ref, path, '', FALSE, number, hash FROM folders JOIN ledger " +
		"ON ledger.seq = folders.seq WHERE folders.group_id = ?"
)

// tabled is a row of selectNamed or selectMade.
type tabled struct {
	chain.Living
	name    string
	inTrash bool
	hash    []byte
}

func (t *tabled) fields() []any {
	return []any{&t.Ref, &t.name, &t.Attributes, &t.inTrash, &t.Number, &t.hash}
}

// NamesOf returns the living names of a group as its tables have them, nil where they take more than most bytes.
func NamesOf(ctx context.Context, tx *store.Tx, group string, most int64) (*Names, error) {
	n := &Names{}
	for _, query := range []store.Query{selectNamed, selectMade} {
		for t, err := range store.Each(ctx, tx, "read names", (*tabled).fields, query, group) {
			if err != nil {
				return nil, err
			}
			copy(t.Hash[:], t.hash)
			if query == selectMade {
				n.AddFolder(t.name[:max(len(t.name)-1, 0)], t.Living) // without the slash at its end
			} else {
				n.AddFile(t.name, t.Living, t.inTrash)
			}
			if n.Footprint() > most {
				return nil, nil
			}
		}
	}
	err := tx.QueryRowContext(ctx, "SELECT seq, number FROM ledger WHERE group_id = ? AND kind <> '"+chain.KindClaim+
		"' ORDER BY seq DESC LIMIT 1", group).Scan(&n.seq, &n.Number)
	if err != nil {
		return nil, fmt.Errorf("read end of the chain: %w", err)
	}
	return n, nil
}

// Follow applies the records that the chain of the group has after n. After an error n is of no use.
func (n *Names) Follow(ctx context.Context, tx *store.Tx, group string) error {
	for r, err := range records(ctx, tx, "follow names", nil, "SELECT "+columns+" FROM ledger WHERE group_id = ? AND "+
		"kind <> '"+chain.KindClaim+"' AND seq > ? ORDER BY seq", group, n.seq) {
		if err != nil {
			return err
		}
		n.Apply(&r)
		n.seq = r.Seq
	}
	return nil
}

// CompareNames compares, group by group, the root of names that the tables give with the one that the records give.
// [ErrBroken] names the first group in which they differ. It holds the names of one group twice, some 800 bytes each.
func CompareNames(ctx context.Context, tx *store.Tx) error {
	groups, err := store.Values[string](ctx, tx, "list groups", "SELECT id FROM groups ORDER BY id")
	if err != nil {
		return err
	}
	for _, group := range groups {
		tables, err := NamesOf(ctx, tx, group, math.MaxInt64)
		if err != nil {
			return err
		}
		var again Names
		if err := again.Follow(ctx, tx, group); err != nil {
			return err
		}
		if has, want := tables.Root(), again.Root(); has != want {
			return fmt.Errorf("group %q: %w: its tables give the root of names %x, its records give %x", group,
				ErrBroken, has, want)
		}
	}
	return nil
}
