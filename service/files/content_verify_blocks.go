package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// verifyPage is how many parts are in memory at a time.
const verifyPage = 500

// damagedParts are the parts that cannot be served as they were stored, by id.
type damagedParts map[string]error

// verifyParts checks every part once, however many files use it.
func (f *Files) verifyParts(ctx context.Context, readData bool) (damagedParts, error) {
	bad := damagedParts{}
	for after, more := "", true; more; {
		var list []part
		err := f.store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = readParts(ctx, tx, "SELECT "+partColumns+" FROM parts WHERE id > ? ORDER BY id LIMIT ?",
				after, verifyPage)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := range list {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			err := f.verifyPart(ctx, &list[i], readData)
			if err != nil {
				err = f.verifyAgain(ctx, list[i], readData, err)
			}
			if err != nil {
				bad[list[i].id] = fmt.Errorf("part %s: %w", list[i].id, err)
			}
			after = list[i].id
		}
		more = len(list) == verifyPage
	}
	return bad, nil
}

// verifyAgain checks a part once more when it ended or was written anew meanwhile, and else
// returns was.
func (f *Files) verifyAgain(ctx context.Context, p part, readData bool, was error) error {
	var now []part
	err := f.store.Read(ctx, func(tx *store.Tx) (err error) {
		now, err = readParts(ctx, tx, "SELECT "+partColumns+" FROM parts WHERE id = ?", p.id)
		return err
	})
	switch {
	case err != nil || len(now) == 1 && now[0].blob.ID == p.blob.ID:
		return was
	case len(now) == 0:
		return nil
	default:
		return f.verifyPart(ctx, &now[0], readData)
	}
}

func (f *Files) verifyPart(ctx context.Context, p *part, readData bool) error {
	blocks, err := p.extents()
	if err != nil {
		return err
	}
	n := blocks.Blocks()
	if p.blob.Size > n*p.sealedBytes() || p.blob.Size <= (n-1)*p.sealedBytes()+format.Overhead {
		return damaged("cut or extended", nil)
	}
	r, err := f.openBlob(ctx, p.blob)
	if err != nil {
		return err
	}
	defer r.Close()
	if !readData {
		return nil
	}
	_, err = io.Copy(io.Discard, &blockReader{r: r, part: p, all: blocks, left: append(format.Extents{}, blocks...)})
	if errors.Is(err, errDamaged) {
		return damaged("changed", err)
	}
	return err
}

// verifyBlocks checks a file of format version 2 that has its key: the ledger's content follows
// from its metadata and manifest, its root from the hashes of the blocks in its parts, and
// each part has a key that the file's key opens.
func (f *Files) verifyBlocks(ctx context.Context, ref, content, stated string, key vaultwire.WrappedKey,
	parts damagedParts) error {
	meta, err := format.ParseMetadata([]byte(stated))
	if err != nil || meta.Version != format.VersionBlocks {
		return fmt.Errorf("its metadata is not of format version %d: %w", format.VersionBlocks,
			errors.Join(err, format.ErrCorrupt))
	}
	manifest, err := f.manifestOf(ctx, ref)
	if err != nil {
		return err
	}
	sum := meta.Content(format.ManifestSum(manifest.Encode()))
	if hex.EncodeToString(sum[:]) != content {
		return damaged("manifest and metadata are not those of the ledger", nil)
	}
	var leaves leafSums
	for runs := range slices.Chunk(manifest, vaultwire.MaxParts) {
		q := vaultwire.Check{WrappedKey: key, KeyCheck: meta.KeyCheck[:]}
		for i := range runs {
			q.Parts = append(q.Parts, runs[i].Key[:]...)
		}
		checked, err := f.keys.CheckKey(ctx, f.store, q)
		if err != nil {
			return err
		}
		if checked.Other {
			return damaged("the key is another", nil)
		}
		for i := range runs {
			opens := !slices.Contains(checked.Bad, i)
			if err := f.verifyRun(ctx, ref, &runs[i], opens, parts, &leaves); err != nil {
				return err
			}
		}
	}
	var tops []byte
	err = f.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT tops FROM contents WHERE ref = ?", ref).Scan(&tops)
	})
	if err != nil {
		return fmt.Errorf("read hashes: %w", err)
	}
	if leaves.tree.Root() != meta.Root || !bytes.Equal(tops, leaves.tops) {
		return damaged("the hashes of its blocks are not those of the ledger", nil)
	}
	return nil
}

// leafSums are the tree over the leaves of a file, and the roots of each topLeaves of them.
type leafSums struct {
	tree, group format.Tree
	tops        []byte
}

// addGroup adds a root of topLeaves leaves, after a multiple of as many.
func (l *leafSums) addGroup(root format.Hash) {
	l.tree.AddComplete(root, topLeaves)
	l.tops = append(l.tops, root[:]...)
}

// topLeaves is how many leaves the table of contents has one hash for: those of a tile.
const topLeaves = 1 << tileHeight

func (l *leafSums) add(leaf format.Hash) {
	l.tree.Add(leaf)
	l.group.Add(leaf)
	if l.group.Size() == topLeaves {
		root := l.group.Root()
		l.tops, l.group = append(l.tops, root[:]...), format.Tree{}
	}
}

// verifyRun checks a run, whose key the vault opens, and adds the hashes of its blocks to leaves.
func (f *Files) verifyRun(ctx context.Context, ref string, run *format.Run, opens bool, parts damagedParts,
	leaves *leafSums) error {
	id := run.Part.String()
	if err := parts[id]; err != nil {
		return err
	}
	if !opens {
		return damaged("the key of part "+id+" does not open", nil)
	}
	var p part
	err := f.store.Read(ctx, func(tx *store.Tx) error {
		list, err := readParts(ctx, tx, "SELECT "+partColumns+" FROM parts WHERE id = ? AND EXISTS (SELECT 1 FROM "+
			"part_uses WHERE part = parts.id AND ref = ?)", id, ref)
		if len(list) > 0 {
			p = list[0]
		}
		return err
	})
	if err != nil {
		return err
	}
	if p.id == "" {
		return damaged("part "+id+" is missing", nil)
	}
	blocks, err := p.extents()
	if err != nil {
		return err
	}
	for block := run.First; block < run.First+run.Count; block++ {
		at, has := blocks.Index(block)
		if !has {
			return damaged(fmt.Sprintf("block %d is missing", block), nil)
		}
		leaves.add(format.Hash(p.leaves[at*sha256.Size : (at+1)*sha256.Size]))
	}
	return nil
}
