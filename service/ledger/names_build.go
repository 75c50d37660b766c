package ledger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// buildPiece is how many files or folders are put into a new tree in one transaction.
	buildPiece = 1024
	// dropPiece is how many pages are removed in one transaction.
	dropPiece = 512
	// orderedBytes is the memory of one file while the files of a group are put in order.
	orderedBytes = 64
)

// ErrMoved means that a folder was renamed while the names of its group were read: they must be read again.
var ErrMoved = errors.New("a folder was renamed meanwhile")

// builder makes the tree of a group from the tables, in many transactions. What changes meanwhile the records say that
// come after the first of them: the tree follows them afterwards.
type builder struct {
	store *store.Store
	Names
	before int64 // the build that is kept now, 0 = none
}

// BuildNames makes the tree of a group anew. It takes about so many bytes of memory, however large the group is: the
// files of a group that is too large to be put in order at once are read several times.
func BuildNames(ctx context.Context, s *store.Store, group string, memory int64) error {
	b := &builder{store: s, Names: Names{group: group}}
	if err := b.begin(ctx); err != nil {
		return err
	}
	err := b.fill(ctx, int(max(memory/orderedBytes, buildPiece)))
	if err == nil {
		err = b.end(ctx)
	}
	if err == nil {
		return dropBuilds(ctx, b.store, b.group, b.build)
	}
	dropped := dropBuild(context.WithoutCancel(ctx), b.store, b.group, b.build)
	if errors.Is(err, errOvertaken) {
		return dropped
	}
	return errors.Join(err, dropped)
}

func (b *builder) begin(ctx context.Context) error {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails
	b.build = int64(binary.BigEndian.Uint64(raw[:])>>1 | 1)
	return b.store.Read(ctx, func(tx *store.Tx) error {
		kept, err := KeptNames(ctx, tx, b.group)
		if err != nil {
			return err
		}
		if kept != nil {
			b.before = kept.build
		}
		err = tx.QueryRowContext(ctx, "SELECT seq, number FROM ledger WHERE group_id = ? AND kind <> '"+chain.KindClaim+
			"' ORDER BY seq DESC LIMIT 1", b.group).Scan(&b.seq, &b.Number)
		if err != nil {
			return fmt.Errorf("read end of the chain: %w", err)
		}
		b.moved = b.seq
		return nil
	})
}

func (b *builder) fill(ctx context.Context, most int) error {
	for after := (place{}); ; {
		list, err := b.next(ctx, after, most)
		if err != nil {
			return err
		}
		for piece := range slices.Chunk(list, buildPiece) {
			if err := b.put(ctx, func(tx *store.Tx, tree *chain.Names) error {
				return b.putFiles(ctx, tx, tree, piece)
			}); err != nil {
				return err
			}
		}
		if len(list) < most {
			return b.fillFolders(ctx)
		}
		after = list[len(list)-1]
	}
}

// place is where a file comes while a tree is built: what is in one folder is together, so that the pages of the folder
// are written once, and in the order of the tree. It decides nothing else.
type place struct {
	code [24]byte
	seq  int64
}

func placeOf(name string, seq int64) (p place) {
	folder, last := "", name
	if at := strings.LastIndexByte(name, '/'); at >= 0 {
		folder, last = name[:at], name[at+1:]
		above := folder
		for i := 0; i < 3 && above != ""; i++ {
			var part string
			part, above, _ = strings.Cut(above, "/")
			sum := sha256.Sum256([]byte(part))
			copy(p.code[3*i:3*i+3], sum[:])
		}
	}
	sum := sha256.Sum256([]byte(folder))
	copy(p.code[9:17], sum[:])
	sum = sha256.Sum256([]byte(last))
	copy(p.code[17:], sum[:])
	p.seq = seq
	return p
}

func (p place) compare(other place) int {
	return cmp.Or(bytes.Compare(p.code[:], other.code[:]), cmp.Compare(p.seq, other.seq))
}

// next returns at most so many living files behind one, in order.
func (b *builder) next(ctx context.Context, after place, most int) (list []place, err error) {
	type named struct {
		name string
		seq  int64
	}
	first := func() {
		slices.SortFunc(list, place.compare)
		list = list[:min(most, len(list))]
	}
	err = b.store.Read(ctx, func(tx *store.Tx) error {
		list = list[:0]
		for f, err := range store.Each(ctx, tx, "read names", func(f *named) []any { return []any{&f.name, &f.seq} },
			"SELECT filename, seq FROM files WHERE group_id = ? AND seq <= ? AND deleted_ns IS NULL AND trash_ns IS "+
				"NULL", b.group, b.seq) {
			if err != nil {
				return err
			}
			if p := placeOf(f.name, f.seq); p.compare(after) > 0 {
				list = append(list, p)
			}
			if len(list) == 2*most {
				first()
			}
		}
		return nil
	})
	first()
	return list, err
}

// put changes the tree in a transaction that reads, and writes its pages in another: nobody reads them before the end.
func (b *builder) put(ctx context.Context, change func(*store.Tx, *chain.Names) error) error {
	var p changedPages
	err := b.store.Read(ctx, func(tx *store.Tx) (err error) {
		tree := b.Open(ctx, tx)
		if err = change(tx, tree); err == nil {
			err = tree.Err()
		}
		if err == nil {
			p, err = pagesOf(&b.Kept, tree)
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.store.Beside(ctx, func(tx *store.Tx) error { return p.write(ctx, tx, b.group, b.build) })
}

// builtFile is a living file, as a new tree has it.
type builtFile struct {
	chain.Living
	name string
	hash []byte
}

const selectBuilt = "SELECT files.ref, filename, attributes, number, hash FROM files JOIN ledger ON ledger.seq = " +
	"files.seq WHERE files.group_id = ? AND files.seq IN (" + aFew + ") AND deleted_ns IS NULL AND trash_ns IS NULL"

func (b *builder) putFiles(ctx context.Context, tx *store.Tx, tree *chain.Names, piece []place) error {
	var files []builtFile
	for some := range slices.Chunk(piece, fewRefs) {
		args := make([]any, 1+fewRefs) // nil = no sequence
		args[0] = b.group
		for i, p := range some {
			args[1+i] = p.seq
		}
		list, err := store.List(ctx, tx, "read files", func(f *builtFile) []any {
			return []any{&f.Ref, &f.name, &f.Attributes, &f.Number, &f.hash}
		}, selectBuilt, args...)
		if err != nil {
			return err
		}
		files = append(files, list...)
	}
	// The versions of a name in their order.
	slices.SortFunc(files, func(a, b builtFile) int { return cmp.Compare(a.Number, b.Number) })
	for _, f := range files {
		copy(f.Hash[:], f.hash)
		ref := f.Ref
		if f.name != "" {
			ref = ""
		}
		tree.Renew(f.name, ref, false, slices.Values([]chain.Living{f.Living}))
	}
	return nil
}

// fillFolders puts the recorded folders in.
func (b *builder) fillFolders(ctx context.Context) error {
	type made struct{ ref, path string }
	for after := ""; ; {
		var list []made
		err := b.put(ctx, func(tx *store.Tx, tree *chain.Names) (err error) {
			list, err = store.List(ctx, tx, "read folders", func(m *made) []any { return []any{&m.ref, &m.path} },
				"SELECT ref, path FROM folders WHERE group_id = ? AND ref > ? ORDER BY ref LIMIT ?", b.group, after,
				buildPiece)
			for _, m := range list {
				if k := (touch{name: strings.TrimSuffix(m.path, "/"), made: true}); err == nil {
					err = renew(ctx, tx, tree, b.group, k, true, 0)
				}
			}
			return err
		})
		if err != nil || len(list) < buildPiece {
			return err
		}
		after = list[len(list)-1].ref
	}
}

// end has the new tree kept, unless a folder was renamed since [builder.begin], or another process was faster.
func (b *builder) end(ctx context.Context) error {
	return b.store.Beside(ctx, func(tx *store.Tx) error {
		var moved bool
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 "+ofFolders+" AND kind = '"+chain.KindRenameFolder+"')",
			b.group, b.seq).Scan(&moved)
		if err != nil {
			return fmt.Errorf("look for renamed folders: %w", err)
		}
		if moved {
			return ErrMoved
		}
		if _, err := tx.Count(ctx, "replace tree of names", "DELETE FROM name_trees WHERE group_id = ? AND build = ?",
			b.group, b.before); err != nil {
			return err
		}
		added, err := tx.Count(ctx, "keep tree of names", "INSERT INTO name_trees (group_id, build, seq, number, "+
			"moved, root, top, last) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (group_id) DO NOTHING", b.group,
			b.build, b.seq, b.Number, b.moved, b.Root[:], b.Top, b.Last)
		if err == nil && added == 0 {
			err = errOvertaken
		}
		return err
	})
}

// dropBuilds removes the pages of all builds of a group but one, also of those that did not come to an end.
func dropBuilds(ctx context.Context, s *store.Store, group string, but int64) error {
	var others []int64
	err := s.Read(ctx, func(tx *store.Tx) (err error) {
		others, err = store.Values[int64](ctx, tx, "look for other trees", "SELECT DISTINCT build FROM name_pages "+
			"WHERE group_id = ? AND build <> ?", group, but)
		return err
	})
	for _, build := range others {
		err = errors.Join(err, dropBuild(ctx, s, group, build))
	}
	return err
}

// dropBuild removes the pages of a build.
func dropBuild(ctx context.Context, s *store.Store, group string, build int64) error {
	for removed := int64(dropPiece); removed >= dropPiece; {
		if err := s.Beside(ctx, func(tx *store.Tx) (err error) {
			removed, err = tx.Count(ctx, "remove pages of names", "DELETE FROM name_pages WHERE group_id = ? AND "+
				"build = ? AND page IN (SELECT page FROM name_pages WHERE group_id = ? AND build = ? ORDER BY page "+
				"LIMIT ?)", group, build, group, build, dropPiece)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// noBuild is no number of a build.
const noBuild = 0

// DropEnded removes the trees of groups that have ended, in pieces, and pages of builds that did not come to an end.
func DropEnded(ctx context.Context, s *store.Store) error {
	var ended []string
	err := s.Read(ctx, func(tx *store.Tx) (err error) {
		ended, err = store.Values[string](ctx, tx, "list trees of ended groups", "SELECT id FROM groups WHERE "+
			"ended_ns IS NOT NULL AND (EXISTS (SELECT 1 FROM name_trees WHERE group_id = groups.id) OR "+
			"EXISTS (SELECT 1 FROM name_pages WHERE group_id = groups.id))")
		return err
	})
	for _, group := range ended {
		if err := dropBuilds(ctx, s, group, noBuild); err != nil {
			return err
		}
		if err := s.Beside(ctx, func(tx *store.Tx) error {
			return tx.Do(ctx, "remove tree of an ended group", "DELETE FROM name_trees WHERE group_id = ?", group)
		}); err != nil {
			return err
		}
	}
	return err
}
