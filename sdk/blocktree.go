package sdk

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/singleflight"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	tileHeight  = 8
	groupLeaves = 1 << tileHeight
	// keptGroups and keptTiles bound what one open file keeps of its tree: groups of proven
	// leaves, and tiles above them, of 8 KiB each.
	keptGroups = 64
	keptTiles  = 64
)

// blockTree returns hashes of the tree over the sealed blocks of a file, which it proves
// to be in the root. It is safe for concurrent use.
type blockTree struct {
	c    *Client
	url  string // of the tiles
	tree tlog.Tree

	life   context.Context    // ends what still asks
	asking singleflight.Group // by group of leaves

	mu     sync.Mutex
	groups recent[int64, []format.Hash] // proven
	tiles  recent[tlog.Tile, []byte]    // not the whole ones of leaves
}

// newTree takes the tiles of an answer. If they suffice to prove the first and the last
// leaf, it proves them.
func (br *blockReader) newTree(life context.Context, blocks int64, root format.Hash,
	a wire.PrepareRetrieveResult) (*blockTree, error) {
	t := &blockTree{c: br.c, life: life, url: a.TilesURL, tree: tlog.Tree{N: blocks, Hash: root},
		groups: recent[int64, []format.Hash]{most: keptGroups}, tiles: recent[tlog.Tile, []byte]{most: keptTiles}}
	given := func(tile tlog.Tile) ([]byte, error) {
		text, ok := a.Tiles[tile.Path()]
		if !ok {
			return nil, errNotGiven
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, call.Malformed(errors.New("a tile is not base64"))
		}
		return raw, nil
	}
	for _, group := range []int64{0, (blocks - 1) / groupLeaves} {
		if _, err := t.prove(group, given); err != nil && !errors.Is(err, errNotGiven) {
			return nil, err
		}
	}
	return t, nil
}

// errNotGiven means that an answer lacks a tile, which can be asked for.
var errNotGiven = errors.New("the tile is not there")

// group returns the proven leaves of a group of 256, which the last one need not fill. The
// slice is shared: do not change it.
func (t *blockTree) group(ctx context.Context, n int64) ([]format.Hash, error) {
	if group, ok := t.known(n); ok {
		return group, nil
	}
	// All readers of the group wait for one request, which outlives those that give up.
	asked := t.asking.DoChan(fmt.Sprint(n), func() (any, error) {
		if group, ok := t.known(n); ok {
			return group, nil
		}
		shared, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer context.AfterFunc(t.life, stop)()
		defer stop()
		return t.prove(n, t.ask(shared))
	})
	select {
	case r := <-asked:
		group, _ := r.Val.([]format.Hash)
		return group, r.Err
	case <-ctx.Done():
		return nil, call.Ended(ctx)
	}
}

// has reports whether the leaves of a group are known.
func (t *blockTree) has(n int64) bool {
	_, ok := t.known(n)
	return ok
}

func (t *blockTree) known(n int64) ([]format.Hash, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.groups.get(n)
}

// prove proves the leaves of a group by tiles that fetch returns.
func (t *blockTree) prove(n int64, fetch func(tlog.Tile) ([]byte, error)) ([]format.Hash, error) {
	indexes := make([]int64, min(groupLeaves, t.tree.N-n*groupLeaves))
	for i := range indexes {
		indexes[i] = tlog.StoredHashIndex(0, n*groupLeaves+int64(i))
	}
	group, err := t.hashes(indexes, fetch)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups.put(n, group)
	return group, nil
}

// groupRoots returns the proven roots of the complete groups.
func (t *blockTree) groupRoots(ctx context.Context) ([]format.Hash, error) {
	roots := make([]format.Hash, 0, t.tree.N/groupLeaves)
	for n := int64(0); n < t.tree.N/groupLeaves; {
		indexes := make([]int64, min(groupLeaves, t.tree.N/groupLeaves-n))
		for i := range indexes {
			indexes[i] = tlog.StoredHashIndex(tileHeight, n+int64(i))
		}
		some, err := t.hashes(indexes, t.ask(ctx))
		if err != nil {
			return nil, err
		}
		roots = append(roots, some...)
		n += int64(len(some))
	}
	return roots, nil
}

// hashes returns proven hashes.
func (t *blockTree) hashes(indexes []int64, fetch func(tlog.Tile) ([]byte, error)) ([]format.Hash, error) {
	reader := &tileReader{t: t, fetch: fetch}
	hashes, err := tlog.TileHashReader(t.tree, reader).ReadHashes(indexes)
	if err != nil && reader.err == nil {
		return nil, call.Malformed(errors.New("the tiles of the tree do not prove the root that the ledger recorded"))
	}
	return hashes, err
}

// ask returns a function that asks the service for a tile.
func (t *blockTree) ask(ctx context.Context) func(tlog.Tile) ([]byte, error) {
	return func(tile tlog.Tile) ([]byte, error) {
		return t.c.blocks.fetchSmall(ctx, call.Call{Path: t.url + "/" + tile.Path()}, int64(tile.W)*tlog.HashSize)
	}
}

// tileReader reads tiles for one proof.
type tileReader struct {
	t     *blockTree
	fetch func(tlog.Tile) ([]byte, error)
	err   error // of fetch
}

func (r *tileReader) Height() int { return tileHeight }

// ReadTiles fetches the tiles that are not known, at the same time.
func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data, errs := make([][]byte, len(tiles)), make([]error, len(tiles))
	var unknown sync.WaitGroup
	for i, tile := range tiles {
		r.t.mu.Lock()
		raw, ok := r.t.tiles.get(tile)
		r.t.mu.Unlock()
		if data[i] = raw; ok {
			continue
		}
		unknown.Go(func() {
			if data[i], errs[i] = r.fetch(tile); errs[i] == nil && len(data[i]) != tile.W*tlog.HashSize {
				errs[i] = call.Malformed(fmt.Errorf("tile %s has %d bytes", tile.Path(), len(data[i])))
			}
		})
	}
	unknown.Wait()
	for _, err := range errs {
		if err != nil {
			r.err = err
			return nil, err
		}
	}
	return data, nil
}

// SaveTiles keeps proven tiles. Those of whole groups of leaves are kept as groups.
func (r *tileReader) SaveTiles(tiles []tlog.Tile, data [][]byte) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	for i, tile := range tiles {
		if tile.L > 0 || tile.W < groupLeaves {
			r.t.tiles.put(tile, data[i])
		}
	}
}

// recent keeps the values that were used last.
type recent[K comparable, V any] struct {
	most int
	now  int64
	all  map[K]*recentValue[V]
}

type recentValue[V any] struct {
	value V
	used  int64
}

func (r *recent[K, V]) get(k K) (v V, ok bool) {
	found, ok := r.all[k]
	if !ok {
		return v, false
	}
	r.now++
	found.used = r.now
	return found.value, true
}

func (r *recent[K, V]) put(k K, v V) {
	if r.all == nil {
		r.all = make(map[K]*recentValue[V])
	}
	if len(r.all) >= r.most && r.all[k] == nil {
		var oldest K
		least := r.now + 1
		for k, v := range r.all {
			if v.used < least {
				oldest, least = k, v.used
			}
		}
		delete(r.all, oldest)
	}
	r.now++
	r.all[k] = &recentValue[V]{v, r.now}
}
