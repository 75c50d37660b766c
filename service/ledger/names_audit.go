package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// mostCompared is how many records a kept tree may be behind and is compared: one that is further behind is built anew
// before it says anything.
const mostCompared = 16_384

// CompareNames compares each kept tree of names with what the tables say, which [State.Compare] has compared with the
// records. [ErrBroken] names the first group and name in which they differ. It holds a few pages of one tree. Trees of
// groups that have ended are on their way out.
func CompareNames(ctx context.Context, tx *store.Tx) error {
	groups, err := store.Values[string](ctx, tx, "list trees of names",
		"SELECT group_id FROM name_trees WHERE group_id NOT IN (SELECT id FROM groups WHERE ended_ns IS NOT NULL) "+
			"ORDER BY group_id")
	if err != nil {
		return err
	}
	for _, group := range groups {
		c := comparing{ctx: ctx, tx: tx, group: group}
		err := c.compare()
		if errors.Is(err, chain.ErrPages) {
			err = fmt.Errorf("%w: %w", ErrBroken, err)
		}
		if err != nil {
			return fmt.Errorf("group %q: %w", group, err)
		}
	}
	return nil
}

type comparing struct {
	ctx            context.Context
	tx             *store.Tx
	group          string
	touched        touches // what the tree does not follow yet
	files, folders int64   // living ones that were found
}

func (c *comparing) compare() error {
	n, err := KeptNames(c.ctx, c.tx, c.group)
	if err != nil || n == nil {
		return err
	}
	rows, _, err := n.news(c.ctx, c.tx, mostCompared)
	if err != nil || len(rows) == mostCompared {
		return err
	}
	tree := n.Open(c.ctx, c.tx)
	c.touched = touches{}
	for _, r := range rows {
		c.touched.apply(&r)
		if before, after, ok := chain.FolderOf(&r.Record); ok && r.Kind == chain.KindRenameFolder && r.Seq > n.moved {
			tree.Move(before, after)
		}
	}
	if err := tree.Each(c.found); err != nil {
		return err
	}
	for k := range c.touched {
		if err := c.count(k); err != nil {
			return err
		}
	}
	return c.compareCounts()
}

// found compares a name of the tree with the tables.
func (c *comparing) found(f chain.Found) (err error) {
	files, made := touch{name: f.Name, ref: f.Ref}, touch{name: f.Name, made: true}
	if _, changed := c.touched[files]; !changed && f.Versions != (chain.Hash{}) {
		counted := func(yield func(chain.Living) bool) {
			for v := range files.versions(c.ctx, c.tx, &err, c.group, 0) {
				if c.files++; !yield(v) {
					return
				}
			}
		}
		if has := chain.SumOf(counted); err == nil && has != f.Versions {
			err = fmt.Errorf("%w: the tree of names has other versions of %q than table files", ErrBroken, f.Name+f.Ref)
		}
	}
	if _, changed := c.touched[made]; err != nil || changed || len(f.Made) == 0 {
		return err
	}
	list := slices.Collect(made.folders(c.ctx, c.tx, &err, c.group))
	c.folders += int64(len(list))
	if err == nil && !slices.Equal(list, f.Made) {
		err = fmt.Errorf("%w: the tree of names has another folder %q than table folders", ErrBroken, f.Name)
	}
	return err
}

// count counts what lives under a name that the tree does not follow yet.
func (c *comparing) count(k touch) (err error) {
	if k.made {
		for range k.folders(c.ctx, c.tx, &err, c.group) {
			c.folders++
		}
		return err
	}
	for range k.versions(c.ctx, c.tx, &err, c.group, math.MinInt64) {
		c.files++
	}
	return err
}

// compareCounts finds what is missing in the tree.
func (c *comparing) compareCounts() error {
	var files, folders int64
	err := c.tx.QueryRowContext(c.ctx, "SELECT (SELECT count(*) FROM files WHERE group_id = ? AND deleted_ns IS NULL "+
		"AND trash_ns IS NULL), (SELECT count(*) FROM folders WHERE group_id = ?)", c.group, c.group).
		Scan(&files, &folders)
	if err != nil {
		return fmt.Errorf("count what lives: %w", err)
	}
	if files != c.files || folders != c.folders {
		return fmt.Errorf("%w: the tree of names has %d files and %d folders, the tables have %d and %d", ErrBroken,
			c.files, c.folders, files, folders)
	}
	return nil
}
