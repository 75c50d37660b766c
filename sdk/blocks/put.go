package blocks

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/svcfs/svcfs/format"
)

// PutParts cuts blocks into parts of at most partBlocks and calls put with them, for atOnce at a time, each begun in
// order. The first error ends those that are under way, and is returned; so is the cause of ctx.
func PutParts(ctx context.Context, blocks format.Extents, partBlocks int64, atOnce int,
	put func(ctx context.Context, part format.Extents) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make(chan format.Extents)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for part := range parts {
				if err := put(ctx, part); err != nil {
					cancel(err) // the first counts
				}
			}
		})
	}
	for _, part := range cut(blocks, partBlocks) {
		select {
		case parts <- part:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(parts)
	workers.Wait()
	return context.Cause(ctx)
}

// cut cuts blocks into parts of at most so many.
func cut(blocks format.Extents, most int64) (parts []format.Extents) {
	var part format.Extents
	n := int64(0)
	for i := range blocks.All() {
		if part, n = part.Add(i), n+1; n == most {
			parts, part, n = append(parts, part), nil, 0
		}
	}
	if part != nil {
		parts = append(parts, part)
	}
	return parts
}

// ReadBlock fills into with a block, and returns its length.
type ReadBlock func(ctx context.Context, block int64, into []byte) (int, error)

// Hash returns the SHA-256 of content that is cut as l says. It reads each block once, in order, into buf.
func Hash(ctx context.Context, l format.Layout, buf []byte, read ReadBlock) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for i := range l.Blocks() {
		n, err := read(ctx, i, buf)
		if err != nil {
			return sum, err
		}
		_, _ = h.Write(buf[:n]) // never fails
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
