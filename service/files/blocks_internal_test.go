package files

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/format"
)

// The tiles above the leaves of a large file follow from the hashes in the table contents.
func TestTilesOfManyBlocks(t *testing.T) {
	const blocks = 1<<16 + 3*256 + 7
	leaves := make([]format.Hash, blocks)
	var sums leafSums
	for i := range leaves {
		leaves[i] = format.Leaf(binary.BigEndian.AppendUint64(nil, uint64(i)))
		sums.add(leaves[i])
	}
	b := &InBlocks{row: contentRow{layout: format.Layout{Size: blocks * format.MinBlockBytes, BlockBytes: format.MinBlockBytes}, tops: sums.tops}}
	for path, want := range map[string]struct{ first, each, count int }{
		"tile/8/1/000":     {0, 256, 256},
		"tile/8/1/001.p/3": {1 << 16, 256, 3},
		"tile/8/1/001.p/2": {1 << 16, 256, 2},
		"tile/8/2/000.p/1": {0, 1 << 16, 1},
		"tile/8/1/001.p/4": {},
		"tile/8/1/002.p/1": {},
		"tile/8/2/000.p/2": {},
		"tile/8/3/000.p/1": {},
		"tile/8/2/000":     {},
	} {
		raw, err := b.Tile(t.Context(), path)
		if (err == nil) != (want.count > 0) {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for i, got := range hashes(raw) {
			from := want.first + i*want.each
			if got != format.RootOf(leaves[from:from+want.each]) {
				t.Errorf("%s: hash %d differs", path, i)
			}
		}
		if len(raw) != want.count*len(format.Hash{}) {
			t.Errorf("%s: %d bytes", path, len(raw))
		}
	}
}

// Contents in memory are bounded in bytes; the one that was not used longest goes first.
func TestContentsInMemoryAreBounded(t *testing.T) {
	var c contents
	manifest := bytes.Repeat([]byte{1}, keptManifests/10)
	for i := range 12 {
		c.put(fmt.Sprint(i), contentRow{manifest: manifest})
		c.put(fmt.Sprint(i), contentRow{manifest: manifest}) // counts once
		c.get("0")
	}
	for i := range 12 {
		if _, has := c.get(fmt.Sprint(i)); has != (i == 0 || i > 3) {
			t.Errorf("content %d is kept: %v", i, has)
		}
	}
	if c.bytes > keptManifests || c.order.Len() != len(c.byRef) {
		t.Errorf("%d bytes, %d in order, %d by name", c.bytes, c.order.Len(), len(c.byRef))
	}
	c.put("large", contentRow{manifest: make([]byte, 2*keptManifests)})
	if len(c.byRef) != 1 {
		t.Errorf("%d are kept beside one that is too large alone", len(c.byRef))
	}
}
