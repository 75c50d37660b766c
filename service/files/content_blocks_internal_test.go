package files

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/store"
)

// movingBlobs has two blobs: the first one is gone once it was opened.
type movingBlobs struct {
	Blobs
	opened func()
	size   int64
}

func (b movingBlobs) Open(_ context.Context, id string) (io.ReadSeekCloser, int64, error) {
	if id == "before" {
		b.opened()
		return goneBlob{}, b.size, nil
	}
	return nopCloser{bytes.NewReader(make([]byte, b.size))}, b.size, nil
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

type goneBlob struct{}

func (goneBlob) Read([]byte) (int, error)           { return 0, fmt.Errorf("read blob: %w", fs.ErrNotExist) }
func (goneBlob) Seek(n int64, _ int) (int64, error) { return n, nil }
func (goneBlob) Close() error                       { return nil }

// A bucket opens a part without asking for its bytes: it may be written anew before they are
// read.
func TestPartsMoveBetweenOpenAndRead(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	layout := format.Layout{Size: 3 * format.MinBlockBytes, BlockBytes: format.MinBlockBytes}
	move := func(to string) {
		err := s.Write(context.Background(), store.Everything(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(context.Background(), "UPDATE parts SET blob_id = ?", to)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	part := format.PartID{1}
	err = s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO parts (id, blob_id, blob_size, group_id, account, blocks, "+
			"block_size, leaves) VALUES (?, 'before', ?, 'g', 'a', '0-2', ?, ?)",
			part.String(), layout.SealedBytes(), layout.BlockBytes, []byte{1})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &Files{store: s,
		blobs: contentStore{Blobs: movingBlobs{opened: func() { move("after") }, size: layout.SealedBytes()}, store: s}}
	b := &InBlocks{f: f, Size: layout.SealedBytes(),
		row: contentRow{layout: layout, manifest: format.Manifest{{Part: part, Count: 3}}.Encode()}}
	r := b.Reader(t.Context())
	defer r.Close()
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil || int64(len(raw)) != b.Size {
		t.Errorf("%d bytes of %d: %v", len(raw), b.Size, err)
	}
}

// The tiles above the leaves of a large file follow from the hashes in the table contents.
func TestTilesOfManyBlocks(t *testing.T) {
	const blocks = 1<<16 + 3*256 + 7
	leaves := make([]format.Hash, blocks)
	var sums leafSums
	for i := range leaves {
		leaves[i] = format.Leaf(binary.BigEndian.AppendUint64(nil, uint64(i)))
		sums.add(leaves[i])
	}
	b := &InBlocks{row: contentRow{layout: format.Layout{Size: blocks * format.MinBlockBytes,
		BlockBytes: format.MinBlockBytes}, tops: sums.tops}}
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
