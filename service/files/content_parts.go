package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/store"
)

// part is a row of parts.
type part struct {
	id, account, blocks string
	blob                blob.Info
	blockBytes, loose   int64
	leaves              []byte // 32 bytes for each block
}

const partColumns = "id, account, blob_id, blob_size, blocks, block_size, COALESCE(loose, 0), leaves"

// readParts runs a query for partColumns.
func readParts(ctx context.Context, tx *store.Tx, query store.Query, args ...any) ([]part, error) {
	return store.List(ctx, tx, "list parts", func(p *part) []any {
		return []any{&p.id, &p.account, &p.blob.ID, &p.blob.Size, &p.blocks, &p.blockBytes, &p.loose, &p.leaves}
	}, query, args...)
}

// extents returns the blocks of a part. The error means damage.
func (p *part) extents() (format.Extents, error) {
	e, err := format.ParseExtents(p.blocks, int64(len(p.leaves)/sha256.Size))
	if err == nil && e.Blocks()*sha256.Size != int64(len(p.leaves)) {
		err = errors.New("its hashes and its blocks differ in number")
	}
	if err != nil {
		return nil, fmt.Errorf("part %s: %w", p.id, err)
	}
	return e, nil
}

// sealedBytes is the length of a full sealed block.
func (p *part) sealedBytes() int64 { return p.blockBytes + format.Overhead }

// etag is the root over the blocks of a part alone.
func (p *part) etag() string {
	root := format.RootOf(hashes(p.leaves))
	return hex.EncodeToString(root[:])
}

// hashes reads leaves as the database keeps them.
func hashes(raw []byte) []format.Hash {
	list := make([]format.Hash, len(raw)/len(format.Hash{}))
	for i := range list {
		copy(list[i][:], raw[i*len(list[i]):])
	}
	return list
}
