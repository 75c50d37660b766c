package proof

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"
)

const (
	height   = 8 // log2 of a tile's width (c2sp.org/tlog-tiles)
	parallel = 8 // tiles fetched at once
)

// tiles fetches each tile once. Package tlog checks a tile against the signed root before
// it uses the tile.
type tiles struct {
	ctx   context.Context
	fetch Fetch
	have  map[tlog.Tile][]byte // verified tiles
	fault error                // of the first failed fetch
}

// Height returns the height of a tile, which the format fixes.
func (*tiles) Height() int { return height }

// ReadTiles returns tiles and fetches the missing ones.
func (t *tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(list))
	group, ctx := errgroup.WithContext(t.ctx)
	group.SetLimit(parallel)
	for i, tile := range list {
		if raw, ok := t.have[tile]; ok {
			data[i] = raw
			continue
		}
		group.Go(func() error {
			raw, err := t.fetch(ctx, path(tile))
			data[i] = raw
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.fault = fmt.Errorf("fetch tiles: %w", err)
		return nil, t.fault
	}
	for i, tile := range list {
		if len(data[i]) != tile.W*tlog.HashSize {
			return nil, fmt.Errorf("%s has %d bytes, want %d", path(tile), len(data[i]), tile.W*tlog.HashSize)
		}
	}
	return data, nil
}

// SaveTiles keeps verified tiles.
func (t *tiles) SaveTiles(list []tlog.Tile, data [][]byte) {
	for i, tile := range list {
		t.have[tile] = data[i]
	}
}

// blame returns a refusal for a service that lies, and the error of the fetch for a service
// that did not answer.
func (t *tiles) blame(err error) error {
	if t.fault != nil {
		return t.fault
	}
	return refuse(0, "the tiles do not give the signed root: %v", err)
}

// path returns the path of a tile by c2sp.org/tlog-tiles, which has no height in it.
func path(t tlog.Tile) string {
	return strings.Replace(t.Path(), fmt.Sprintf("tile/%d/", height), "tile/", 1)
}
