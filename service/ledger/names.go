package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// Names is the tree of the living names of a group as the database keeps it: in pages, of which a question reads some.
// It follows the chain of the group when somebody asks: records say which names to look at, and the tables what lives
// there.
type Names struct {
	chain.Kept
	Number int64 // of the newest record that the tree follows, in the chain of the group

	group string
	build int64 // whose pages they are
	seq   int64 // of that record
	moved int64 // up to which sequence folders are renamed in the tree
	from  int64 // seq in the database
}

// KeptNames returns the tree of a group, nil where none is kept.
func KeptNames(ctx context.Context, tx *store.Tx, group string) (*Names, error) {
	n := &Names{group: group}
	var root []byte
	err := tx.QueryRowContext(ctx, "SELECT build, seq, number, moved, root, top, last FROM name_trees WHERE "+
		"group_id = ?", group).Scan(&n.build, &n.seq, &n.Number, &n.moved, &root, &n.Top, &n.Last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read tree of names: %w", err)
	}
	copy(n.Root[:], root)
	n.from = n.seq
	return n, nil
}

// Open returns the tree. It reads from the transaction, and is good as long as that is.
func (n *Names) Open(ctx context.Context, tx *store.Tx) *chain.Names {
	return n.Kept.Open(func(page int64) (raw []byte, err error) {
		err = tx.QueryRowContext(ctx, "SELECT data FROM name_pages WHERE group_id = ? AND build = ? AND page = ?",
			n.group, n.build, page).Scan(&raw)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, chain.ErrPages
		}
		if err != nil {
			return nil, fmt.Errorf("read page of names: %w", err)
		}
		return raw, nil
	})
}

// Follow brings the tree up by at most so many records, and returns it. The error is [chain.ErrPages] for a tree that
// is damaged. After an error n is of no use.
func (n *Names) Follow(ctx context.Context, tx *store.Tx, most int) (*chain.Names, error) {
	rows, behind, err := n.news(ctx, tx, most)
	if err != nil {
		return nil, err
	}
	tree, touched := n.Open(ctx, tx), touches{}
	for _, r := range slices.Concat(rows, behind) {
		touched.apply(&r)
		if before, after, ok := chain.FolderOf(&r.Record); ok && r.Kind == chain.KindRenameFolder && r.Seq > n.moved {
			tree.Move(before, after)
			n.moved = r.Seq
		}
	}
	for _, k := range touched.sorted() {
		if err := renew(ctx, tx, tree, n.group, k, touched[k], n.seq); err != nil {
			return nil, err
		}
	}
	if len(rows) > 0 {
		last := &rows[len(rows)-1]
		n.seq, n.Number = last.Seq, last.Number
		n.moved = max(n.moved, n.seq)
	}
	return tree, tree.Err()
}

// news returns at most so many records after n, and those of renamed folders after these: the tables are those of the
// newest record.
func (n *Names) news(ctx context.Context, tx *store.Tx, most int) (rows, behind []chain.Row, err error) {
	rows, err = ChainAfter(ctx, tx, n.group, n.seq, most)
	if err != nil || len(rows) < most {
		return rows, nil, err
	}
	behind, err = rowsOf(records(ctx, tx, "follow renamed folders", nil, "SELECT "+columns+" "+ofFolders+
		" AND kind = '"+chain.KindRenameFolder+"' ORDER BY seq", n.group, rows[most-1].Seq))
	return rows, behind, err
}

// ChainAfter returns at most so many records of the chain of a group after a sequence, unchecked.
func ChainAfter(ctx context.Context, tx *store.Tx, group string, seq int64, most int) ([]chain.Row, error) {
	return rowsOf(records(ctx, tx, "read a chain", nil, "SELECT "+columns+" FROM ledger WHERE group_id = ? AND "+
		"kind <> '"+chain.KindClaim+"' AND seq > ? ORDER BY seq LIMIT ?", group, seq, most))
}

func rowsOf(all iter.Seq2[chain.Row, error]) (rows []chain.Row, err error) {
	for r, err := range all {
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// touch is a name under which something may have changed, as it is in the newest state.
type touch struct {
	name, ref string // ref of a file without a name
	made      bool   // it is of a recorded folder
}

// touches are names to look at: true = at all that lives there, else at what was uploaded since.
type touches map[touch]bool

func (t touches) add(name, ref string, all bool) {
	k := touch{name: name}
	if name == "" {
		k.ref = ref
	}
	t[k] = t[k] || all
}

// apply adds the names that a record changes.
func (t touches) apply(r *chain.Row) {
	switch r.Kind {
	case chain.KindRecord:
		t.add(r.Detail, r.Ref, false)
	case chain.KindRename:
		t.add(r.Tag(chain.TagName), r.Ref, true)
		t.add(r.Detail, r.Ref, true)
	case chain.KindAttributes, chain.KindRemove, chain.KindRestore, chain.KindTombstone:
		t.add(r.Tag(chain.TagName), r.Ref, true)
	case chain.KindMakeFolder, chain.KindRemoveFolder:
		t[touch{name: r.Detail, made: true}] = true
	case chain.KindRenameFolder:
		if before, after, ok := chain.FolderOf(&r.Record); ok {
			t.move(before, after)
		}
	}
}

func (t touches) move(before, after string) {
	for _, k := range slices.Collect(maps.Keys(t)) {
		if rest, is := strings.CutPrefix(k.name, before); is && (strings.HasPrefix(rest, "/") || k.made && rest == "") {
			all := t[k]
			delete(t, k)
			k.name = after + rest
			t[k] = t[k] || all
		}
	}
}

// sorted has names of one folder beside each other.
func (t touches) sorted() []touch {
	return slices.SortedFunc(maps.Keys(t), func(a, b touch) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.ref, b.ref))
	})
}

// What lives under a name, the oldest first.
const (
	selectVersions = "SELECT files.ref, attributes, number, hash FROM files JOIN ledger ON ledger.seq = files.seq " +
		"WHERE files.group_id = ? AND substr(filename, 1, 200) = ? AND filename = ? AND files.seq > ? AND " +
		"deleted_ns IS NULL AND trash_ns IS NULL ORDER BY files.seq"
	selectNameless = "SELECT files.ref, attributes, number, hash FROM files JOIN ledger ON ledger.seq = files.seq " +
		"WHERE files.group_id = ? AND files.ref = ? AND filename = '' AND deleted_ns IS NULL AND trash_ns IS NULL"
	selectMade = "SELECT folders.ref, '', number, hash FROM folders JOIN ledger ON ledger.seq = folders.seq " +
		"WHERE folders.group_id = ? AND substr(path, 1, 200) = ? AND path = ? ORDER BY folders.seq"
)

// beginning is what the indexes of names and folders hold of one.
func beginning(name string) string {
	const indexed = 200 // characters
	if runes := []rune(name); len(runes) > indexed {
		return string(runes[:indexed])
	}
	return name
}

// living runs a query for what lives. The sequence ends at an error, which it leaves in err.
func living(ctx context.Context, tx *store.Tx, err *error, query store.Query, args ...any) iter.Seq[chain.Living] {
	return func(yield func(chain.Living) bool) {
		var hash []byte
		fields := func(v *chain.Living) []any { return []any{&v.Ref, &v.Attributes, &v.Number, &hash} }
		for v, failed := range store.Each(ctx, tx, "read what lives", fields, query, args...) {
			if *err = failed; failed != nil {
				return
			}
			copy(v.Hash[:], hash)
			if !yield(v) {
				return
			}
		}
	}
}

// versions returns what lives under a name of files.
func (k touch) versions(ctx context.Context, tx *store.Tx, err *error, group string,
	after int64) iter.Seq[chain.Living] {
	if k.ref != "" {
		return living(ctx, tx, err, selectNameless, group, k.ref)
	}
	return living(ctx, tx, err, selectVersions, group, beginning(k.name), k.name, after)
}

func (k touch) folders(ctx context.Context, tx *store.Tx, err *error, group string) iter.Seq[chain.Living] {
	path := chain.FolderName(k.name)
	return living(ctx, tx, err, selectMade, group, beginning(path), path)
}

// renew changes a name in the tree to what the tables say: all of it, or what came after a sequence.
func renew(ctx context.Context, tx *store.Tx, tree *chain.Names, group string, k touch, all bool,
	after int64) (err error) {
	switch {
	case k.made:
		tree.RenewFolder(k.name, k.folders(ctx, tx, &err, group))
	case all:
		tree.Renew(k.name, k.ref, true, k.versions(ctx, tx, &err, group, 0))
	default:
		tree.Renew(k.name, k.ref, false, k.versions(ctx, tx, &err, group, after))
	}
	return err
}

// errOvertaken means that another process changed the kept tree meanwhile.
var errOvertaken = errors.New("the tree of names was changed meanwhile")

// Save keeps the tree of [Names.Follow], in a transaction of its own, unless another process was faster. The tree must
// not be used afterwards.
func (n *Names) Save(ctx context.Context, s *store.Store, tree *chain.Names) error {
	p, err := pagesOf(&n.Kept, tree)
	if err != nil {
		return err
	}
	err = s.Beside(ctx, func(tx *store.Tx) error {
		moved, err := tx.Count(ctx, "keep tree of names",
			"UPDATE name_trees SET seq = ?, number = ?, moved = ?, root = ?, top = ?, last = ? "+
				"WHERE group_id = ? AND build = ? AND seq = ?",
			n.seq, n.Number, n.moved, n.Root[:], n.Top, n.Last, n.group, n.build, n.from)
		if err == nil && moved == 0 {
			err = errOvertaken
		}
		if err != nil {
			return err
		}
		return p.write(ctx, tx, n.group, n.build)
	})
	if errors.Is(err, errOvertaken) {
		return nil
	}
	n.from = n.seq
	return err
}

// DropNames forgets a tree that is damaged: it is built anew.
func DropNames(ctx context.Context, s *store.Store, n *Names) error {
	return s.Beside(ctx, func(tx *store.Tx) error {
		_, err := tx.Count(ctx, "forget tree of names", "DELETE FROM name_trees WHERE group_id = ? AND build = ?",
			n.group, n.build)
		return err
	})
}

// changedPages are pages to write, and to remove.
type changedPages struct {
	ids  []int64
	raw  [][]byte
	gone []int64
}

func pagesOf(k *chain.Kept, tree *chain.Names) (p changedPages, err error) {
	*k, p.gone, err = tree.Save(func(page int64, raw []byte) error {
		p.ids, p.raw = append(p.ids, page), append(p.raw, raw)
		return nil
	})
	return p, err
}

func (p changedPages) write(ctx context.Context, tx *store.Tx, group string, build int64) error {
	for i, id := range p.ids {
		if err := tx.Do(ctx, "write page of names", "INSERT INTO name_pages (group_id, build, page, data) VALUES "+
			"(?, ?, ?, ?) ON CONFLICT (group_id, build, page) DO UPDATE SET data = excluded.data", group, build, id,
			p.raw[i]); err != nil {
			return err
		}
	}
	for _, id := range p.gone {
		if err := tx.Do(ctx, "remove page of names", "DELETE FROM name_pages WHERE group_id = ? AND build = ? AND "+
			"page = ?", group, build, id); err != nil {
			return err
		}
	}
	return nil
}
