package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// tightenBatch is how many parts are looked at together: each manifest that uses one of
	// them is read once.
	tightenBatch = 256
	// tightenAtOnce is how many parts one sweep writes anew, at most: 2 GiB.
	tightenAtOnce = 256
)

// selectLoose finds the parts of which blocks may be of no use.
const selectLoose = "SELECT " + partColumns + " FROM parts WHERE loose >= ? AND upload_id IS NULL AND (loose, id) > " +
	"(?, ?) ORDER BY loose, id LIMIT ?"

// tighten writes parts anew of which files use only some blocks, without the others. Killed
// at any step, it leaves a part as it was or as it shall be, and at most a blob that the
// sweep removes. Of several processes that write one part anew, the first counts.
//
// The blocks of a part that are in use only become fewer: a new file takes blocks over from
// a file that has its key, and only those that this file uses. So what was of no use
// once stays so, and the row of the part needs to be compared with its blob alone.
func (f *Files) tighten(ctx context.Context) (err error) {
	var after part
	for written := 0; written < tightenAtOnce; {
		var list []part
		var uses map[string]*usage
		err := f.store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = readParts(ctx, tx, selectLoose, after.loose, after.loose, after.id, tightenBatch)
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		if uses, err = f.usedBlocks(ctx, list); err != nil {
			return err
		}
		after = list[len(list)-1]
		// two processes seldom do the same
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for i := range list {
			anew, err := f.tightenPart(ctx, &list[i], uses[list[i].id])
			if err != nil {
				return err
			}
			if anew {
				written++
			}
		}
	}
	return nil
}

// usage is which blocks of a part files use.
type usage struct {
	blocks  map[int64]bool
	unknown bool // the manifest of one of the files cannot be read: all may be in use
}

// usedBlocks returns the blocks of parts that files use.
func (f *Files) usedBlocks(ctx context.Context, list []part) (map[string]*usage, error) {
	uses := make(map[string]*usage, len(list))
	byID := make(map[format.PartID]*usage, len(list))
	for _, p := range list {
		u := &usage{blocks: map[int64]bool{}}
		uses[p.id] = u
		id, err := format.ParsePartID(p.id)
		if err != nil {
			u.unknown = true
		}
		byID[id] = u
	}
	users, err := f.usersOf(ctx, list)
	if err != nil {
		return nil, err
	}
	for ref, parts := range users {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		manifest, err := f.manifestOf(ctx, ref)
		if err != nil { // the file ended meanwhile, or is damaged: the next sweep looks again
			for _, id := range parts {
				uses[id].unknown = true
			}
			continue
		}
		for i := range manifest {
			run := &manifest[i]
			if u := byID[run.Part]; u != nil {
				for block := run.First; block < run.First+run.Count; block++ {
					u.blocks[block] = true
				}
			}
		}
	}
	return uses, nil
}

// usersOf returns the parts of a list that files use, by the reference of the file.
func (f *Files) usersOf(ctx context.Context, list []part) (map[string][]string, error) {
	users := map[string][]string{}
	err := f.store.Read(ctx, func(tx *store.Tx) error {
		for _, p := range list {
			refs, err := store.Values[string](ctx, tx, "list the files of a part",
				"SELECT ref FROM part_uses WHERE part = ?", p.id)
			if err != nil {
				return err
			}
			for _, ref := range refs {
				users[ref] = append(users[ref], p.id)
			}
		}
		return nil
	})
	return users, err
}

// manifestOf returns the manifest of a file of format version 2 that has its key.
func (f *Files) manifestOf(ctx context.Context, ref string) (format.Manifest, error) {
	var c contentRow
	err := f.store.Look(ctx, func(tx *store.Tx) (err error) {
		c, err = f.readContent(ctx, tx, ref)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return format.ParseManifest(c.manifest, c.layout.Blocks())
}

// tightenPart writes a part anew without the blocks that are of no use, and reports whether it
// did. It leaves alone what others changed meanwhile, and what is damaged.
func (f *Files) tightenPart(ctx context.Context, p *part, used *usage) (anew bool, err error) {
	all, err := p.extents()
	if err != nil || used.unknown {
		return false, nil // svcd verify names damage
	}
	var keep format.Extents
	for _, x := range all {
		for i := x.First; i < x.First+x.Count; i++ {
			if used.blocks[i] {
				keep = keep.Add(i)
			}
		}
	}
	switch keep.Blocks() {
	case 0: // its last file ends just now
		return false, nil
	case all.Blocks():
		return false, f.store.Write(ctx, store.Chains{}, func(tx *store.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE parts SET loose = NULL WHERE id = ? AND loose = ?", p.id, p.loose)
			return err
		})
	}
	if still, err := f.isStill(ctx, p); err != nil || !still {
		return false, err
	}
	info, leaves, err := f.copyBlocks(ctx, p, all, keep)
	if errors.Is(err, errDamaged) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write part %s anew: %w", p.id, err)
	}
	faultpoint.Hit("tighten.stored")
	anew, err = f.replacePart(ctx, p, info, keep, leaves)
	switch {
	case err == nil && anew:
		faultpoint.Hit("tighten.recorded")
		f.discard(ctx, p.blob.ID) // who reads it goes on, or opens the part again
	case err == nil || isRolledBack(err):
		f.discard(ctx, info.ID)
	}
	return anew && err == nil, err
}

// replacePart gives a part the blob with the blocks that are kept, unless others changed it meanwhile.
func (f *Files) replacePart(ctx context.Context, p *part, info blob.Info, keep format.Extents,
	leaves []byte) (anew bool, err error) {
	err = f.store.Write(ctx, store.Chains{}, func(tx *store.Tx) error {
		n, err := tx.Count(ctx, "replace part", `UPDATE parts SET blob_id = ?, blob_size = ?, blocks = ?, leaves = ?,
			loose = CASE WHEN loose = ? THEN NULL ELSE loose END
			WHERE id = ? AND blob_id = ?
			AND upload_id IS NULL`, info.ID, info.Size, keep.String(), leaves, p.loose, p.id, p.blob.ID)
		anew = n == 1
		return err
	})
	return anew, err
}

// isStill reports that no other process has written a part anew.
func (f *Files) isStill(ctx context.Context, p *part) (still bool, err error) {
	err = f.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM parts WHERE id = ? AND blob_id = ?)", p.id,
			p.blob.ID).Scan(&still)
	})
	return still, err
}

// errDamaged means that stored blocks do not fit their hashes.
var errDamaged = errors.New("blocks were changed since they were stored")

// copyBlocks writes some blocks of a part to a new blob. The blocks are compared with their
// hashes on the way.
func (f *Files) copyBlocks(ctx context.Context, p *part, all, keep format.Extents) (info blob.Info,
	leaves []byte, err error) {
	r, size, err := f.blobs.Open(ctx, p.blob.ID)
	if err != nil {
		return info, nil, damagedOr(err)
	}
	defer r.Close()
	if size != p.blob.Size {
		return info, nil, errDamaged
	}
	from := &blockReader{r: r, part: p, all: all, left: slices.Clone(keep)}
	if info, err = f.blobs.PutProved(ctx, from, wire.PartBytes); err != nil {
		return info, nil, err
	}
	return info, from.leaves, nil
}

// damagedOr is err, or [errDamaged] for a blob that is gone.
func damagedOr(err error) error {
	if errors.Is(err, blob.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return errDamaged
}

// blockReader reads some blocks of a part, one after the other.
type blockReader struct {
	r      io.ReadSeeker
	part   *part
	all    format.Extents
	left   format.Extents // to be read
	at     int64          // in the blob; -1 = not known
	block  []byte         // memory for one block
	ready  *bytes.Reader  // the rest of one that was compared
	leaves []byte         // of the blocks that were read
}

func (b *blockReader) Read(p []byte) (int, error) {
	for b.ready == nil || b.ready.Len() == 0 {
		if len(b.left) == 0 {
			return 0, io.EOF
		}
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	return b.ready.Read(p)
}

// next reads the next block and compares it.
func (b *blockReader) next() error {
	number := b.left[0].First
	if b.left[0].First++; b.left[0].Count > 1 {
		b.left[0].Count--
	} else {
		b.left = b.left[1:]
	}
	index, _ := b.all.Index(number)
	begin := index * b.part.sealedBytes()
	n := min(b.part.sealedBytes(), b.part.blob.Size-begin)
	if n <= format.Overhead {
		return errDamaged
	}
	if b.block == nil {
		b.block = make([]byte, b.part.sealedBytes())
	}
	if b.at != begin {
		if _, err := b.r.Seek(begin, io.SeekStart); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(b.r, b.block[:n]); err != nil {
		return damagedOr(err)
	}
	b.at = begin + n
	leaf := format.Leaf(b.block[:n])
	if !bytes.Equal(leaf[:], b.part.leaves[index*sha256.Size:(index+1)*sha256.Size]) {
		return errDamaged
	}
	b.leaves = append(b.leaves, leaf[:]...)
	b.ready = bytes.NewReader(b.block[:n])
	return nil
}
