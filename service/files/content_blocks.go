package files

import (
	"container/list"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// tileHeight is that of the tiles over the blocks of a file.
	tileHeight = 8
	// maxTileLevel is above the levels of any file.
	maxTileLevel = 5
	// keptManifests bounds the manifests that are kept in memory, in bytes.
	keptManifests = 32 << 20
)

// contentRow is what a file of format version 2 consists of. It never changes.
type contentRow struct {
	layout   format.Layout
	manifest []byte
	tops     []byte
}

// find returns the run that holds a block.
func (c *contentRow) find(block int64) (format.Run, error) {
	return format.FindRun(c.manifest, block)
}

// contentOf returns the content of a file that was not deleted.
func (f *Files) contentOf(ctx context.Context, tx *store.Tx, ref string) (c contentRow, err error) {
	if c, ok := f.contents.get(ref); ok {
		return c, nil
	}
	if c, err = f.readContent(ctx, tx, ref); err == nil {
		f.contents.put(ref, c)
	}
	return c, err
}

// readContent is [Files.contentOf] from database and disk.
func (f *Files) readContent(ctx context.Context, tx *store.Tx, ref string) (c contentRow, err error) {
	var info blob.Info
	var sum []byte
	err = tx.QueryRowContext(ctx, `SELECT size, block_size, manifest, tops, blob_id, blob_size, blob_sum FROM files
		JOIN contents ON contents.ref = files.ref
		WHERE files.ref = ?`, ref).Scan(&c.layout.Size, &c.layout.BlockBytes,
		&c.manifest, &c.tops, &info.ID, &info.Size, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return c, fault.New(wire.CodeFileNotFound, "file not found: it is not there in blocks")
	}
	if err == nil {
		err = c.layout.Check()
	}
	if err != nil {
		return c, fmt.Errorf("read content: %w", err)
	}
	if c.manifest == nil {
		copy(info.Sum[:], sum)
		c.manifest, err = f.readBlob(ctx, &file{blob: info}, format.MaxManifestBytes)
	}
	return c, err
}

// contents keeps contents that were read last, within keptManifests.
type contents struct {
	mu    sync.Mutex
	bytes int64
	order list.List // of *keptContent, the last used first
	byRef map[string]*list.Element
}

type keptContent struct {
	ref string
	contentRow
}

func (k *keptContent) bytes() int64 { return int64(len(k.ref) + len(k.manifest) + len(k.tops)) }

func (c *contents) get(ref string) (contentRow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byRef[ref]
	if e == nil {
		return contentRow{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*keptContent).contentRow, true
}

func (c *contents) put(ref string, row contentRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRef == nil {
		c.byRef = make(map[string]*list.Element)
	}
	if c.byRef[ref] != nil {
		return
	}
	k := &keptContent{ref, row}
	c.byRef[ref] = c.order.PushFront(k)
	for c.bytes += k.bytes(); c.bytes > keptManifests && c.order.Len() > 1; {
		old := c.order.Remove(c.order.Back()).(*keptContent)
		delete(c.byRef, old.ref)
		c.bytes -= old.bytes()
	}
}

// InBlocks is a file of format version 2, for a member who may read it.
type InBlocks struct {
	Manifest []byte // not to be changed
	Content  string // hex, of the ledger
	Size     int64  // of all sealed blocks, in bytes
	// Edges are the tiles with all hashes that prove the first and the last block, by path;
	// only of a retrieval.
	Edges map[string][]byte

	f       *Files
	account string
	req     wire.PrepareRetrieveRequest
	row     contentRow
}

// unsupported refuses a client that does not read format version 2.
func unsupported() error {
	return fault.New(wire.CodeUnsupported, "this file is stored in sealed blocks (format version 2), which this "+
		"program does not read: nothing was charged. "+
		"The owner of the group has it saved anew, for every program, with: svcfs group config GROUP format 1 "+
		"--existing; "+
		"an older svcfs wants an update, and a program of one's own asks with \"formats\":[1,2]")
}

// OpenBlocks opens a file of format version 2 for a member with a ticket.
func (f *Files) OpenBlocks(ctx context.Context, account, group, ref string) (*InBlocks, error) {
	req := wire.PrepareRetrieveRequest{GroupID: group, IPFSHash: ref}
	row, err := f.recorded(ctx, account, req)
	if err != nil {
		return nil, err
	}
	b, err := f.openBlocks(ctx, account, req, row)
	if err != nil {
		return nil, f.unlessDeleted(ctx, account, req, err)
	}
	return b, nil
}

func (f *Files) openBlocks(ctx context.Context, account string, req wire.PrepareRetrieveRequest,
	row file) (*InBlocks, error) {
	if row.content == "" {
		return nil, fault.New(wire.CodeFileNotFound, "file not found: it is not there in blocks")
	}
	if row.blob.ID != req.IPFSHash { // the manifest is a blob, and in memory until the request is answered
		if err := f.takeMemory(ctx, row.blob.Size); err != nil {
			return nil, err
		}
	}
	b := &InBlocks{Content: row.content, f: f, account: account, req: req}
	err := f.store.Look(ctx, func(tx *store.Tx) (err error) {
		b.row, err = f.contentOf(ctx, tx, req.IPFSHash)
		return err
	})
	if err != nil {
		return nil, err
	}
	b.Manifest, b.Size = b.row.manifest, b.row.layout.SealedBytes()
	return b, nil
}

// openWithEdges is openBlocks with the Edges.
func (f *Files) openWithEdges(ctx context.Context, account string, req wire.PrepareRetrieveRequest,
	row file) (*InBlocks, error) {
	b, err := f.openBlocks(ctx, account, req, row)
	if err != nil {
		return nil, err
	}
	b.Edges, err = b.edges(ctx)
	return b, err
}

// Within returns how many of the first sealed blocks have at most so many bytes together, and how many these are.
func (b *InBlocks) Within(bytes int64) (blocks, sealed int64) {
	l := b.row.layout
	if b.Size <= bytes {
		return l.Blocks(), b.Size
	}
	blocks = bytes / (l.BlockBytes + format.Overhead)
	return blocks, l.Offset(blocks)
}

// Reader returns a reader of all sealed blocks, until ctx ends. It opens a part when bytes
// of it are read, and looks at the rights of the reader again each time. The caller closes
// it.
func (b *InBlocks) Reader(ctx context.Context) *BlockReader {
	return &BlockReader{b: b, ctx: ctx}
}

// BlockReader reads the sealed blocks of a file, one after the other.
type BlockReader struct {
	b       *InBlocks
	ctx     context.Context // of the request
	pos     int64
	part    io.ReadSeekCloser // nil = none is open
	partPos int64             // where it stands among all sealed blocks
	partEnd int64             // where its run ends among them
	begun   bool              // bytes were read: from then on the rights are looked at with each part
}

// Open opens the part with the next byte, so that its absence is known before an answer
// begins.
func (r *BlockReader) Open() error {
	if r.part != nil && r.partPos == r.pos || r.pos >= r.b.Size {
		return nil
	}
	if err := r.Close(); err != nil {
		return err
	}
	sealed := r.b.row.layout.BlockBytes + format.Overhead
	block := r.pos / sealed
	run, err := r.b.row.find(block)
	if err != nil {
		return err
	}
	for again := true; ; again = false {
		var part io.ReadSeekCloser
		info, at, err := r.b.partAt(r.ctx, run.Part.String(), block, sealed, r.begun)
		if err == nil {
			part, err = r.b.f.openBlob(r.ctx, info)
		}
		if errors.Is(err, fs.ErrNotExist) && again {
			continue // the part may have moved to another blob
		}
		if err != nil {
			return r.b.f.unlessDeleted(r.ctx, r.b.account, r.b.req, err)
		}
		if _, err := part.Seek(at*sealed+r.pos%sealed, io.SeekStart); err != nil {
			return errors.Join(fmt.Errorf("seek in part: %w", err), part.Close())
		}
		r.part, r.partPos, r.partEnd = part, r.pos, min(r.b.row.layout.Offset(run.First+run.Count), r.b.Size)
		return nil
	}
}

// partAt returns the blob of a part, and the place of a block among its blocks; with look,
// as long as the file may be read.
func (b *InBlocks) partAt(ctx context.Context, id string, block, sealed int64, look bool) (info blob.Info,
	at int64, err error) {
	var text string
	err = b.f.store.Look(ctx, func(tx *store.Tx) error {
		if look {
			if _, err := getFile(ctx, tx, b.account, b.req); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, "SELECT blob_id, blob_size, blocks FROM parts WHERE id = ?", id).Scan(&info.ID,
			&info.Size, &text)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return info, 0, damaged("part "+id+" is missing", err)
	}
	if err != nil {
		return info, 0, err
	}
	blocks, err := format.ParseExtents(text, wire.PartBytes/format.MinBlockBytes)
	at, ok := blocks.Index(block)
	if err != nil || !ok || at*sealed >= info.Size {
		return info, 0, damaged(fmt.Sprintf("part %s lacks block %d", id, block), err)
	}
	return info, at, nil
}

// Read reads the next bytes.
func (r *BlockReader) Read(p []byte) (int, error) {
	if r.pos >= r.b.Size {
		return 0, io.EOF
	}
	n, err := r.readPart(p)
	// it moved to another blob between Open and now, see [Files.tighten]
	if n == 0 && errors.Is(err, fs.ErrNotExist) && r.part != nil {
		if err := r.Close(); err != nil {
			return 0, err
		}
		n, err = r.readPart(p)
	}
	if r.part == nil {
		return 0, err
	}
	closing := r.Passed(int64(n))
	if r.pos == r.partEnd {
		return n, closing
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readPart reads from the part with the next byte; part is nil if it cannot be opened.
func (r *BlockReader) readPart(p []byte) (int, error) {
	if err := r.Open(); err != nil {
		return 0, err
	}
	return r.part.Read(p[:min(int64(len(p)), r.partEnd-r.pos)])
}

// Next returns the file with the next bytes, where it stands there, and how many of the blocks'
// bytes follow in it; nil when they lie in no file of this machine, or there are none. The file
// is valid until the next call of another method.
func (r *BlockReader) Next() (f *os.File, bytes int64, err error) {
	if err := r.Open(); err != nil || r.part == nil {
		return nil, 0, err
	}
	f, _ = r.part.(*os.File)
	return f, r.partEnd - r.pos, nil
}

// Passed tells that so many bytes of the file of Next were read.
func (r *BlockReader) Passed(bytes int64) error {
	r.pos, r.partPos, r.begun = r.pos+bytes, r.pos+bytes, r.begun || bytes > 0
	if r.pos == r.partEnd {
		return r.Close()
	}
	return nil
}

// Seek moves; it opens and closes nothing.
func (r *BlockReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.b.Size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek in blocks: position %d", offset)
	}
	r.pos = offset
	return offset, nil
}

// Close ends reading.
func (r *BlockReader) Close() error {
	if r.part == nil {
		return nil
	}
	part := r.part
	r.part = nil
	return part.Close()
}

// Tile returns the hashes of a tile of the tree over the sealed blocks, by its path in
// package tlog.
func (b *InBlocks) Tile(ctx context.Context, path string) ([]byte, error) {
	none := fault.New(wire.CodeFileNotFound, "tile not found: the file has no tile %.60q", path)
	tile, err := tlog.ParseTilePath(path)
	if err != nil || tile.H != tileHeight || tile.L < 0 || tile.L > maxTileLevel {
		return nil, none
	}
	count := b.row.layout.Blocks() >> (tileHeight * tile.L) // hashes on the level
	if first := tile.N << tileHeight; tile.N > count>>tileHeight || first+int64(tile.W) > count {
		return nil, none
	}
	return b.tile(ctx, tile)
}

func (b *InBlocks) tile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	first := tile.N << tileHeight
	if tile.L == 0 {
		return b.leaves(ctx, first, int64(tile.W))
	}
	const size = int64(len(format.Hash{}))
	each := int64(1) << (tileHeight * (tile.L - 1)) // tops beneath a hash
	raw := make([]byte, 0, int64(tile.W)*size)
	if int64(len(b.row.tops)) < (first+int64(tile.W))*each*size {
		return nil, damaged("hashes are missing", nil)
	}
	for i := range int64(tile.W) {
		at := (first + i) * each * size
		root := format.RootOf(hashes(b.row.tops[at : at+each*size]))
		raw = append(raw, root[:]...)
	}
	return raw, nil
}

// leaves returns the leaves of consecutive blocks.
func (b *InBlocks) leaves(ctx context.Context, first, count int64) (raw []byte, err error) {
	err = b.f.store.Look(ctx, func(tx *store.Tx) error {
		raw = make([]byte, 0, count*int64(len(format.Hash{})))
		for block := first; block < first+count; {
			run, err := b.row.find(block)
			if err != nil {
				return err
			}
			found, err := plannedParts(ctx, tx, selectPart, run.Part.String())
			if err != nil {
				return err
			}
			part := found[run.Part.String()]
			if part == nil {
				return damaged("part "+run.Part.String()+" is missing", nil)
			}
			for end := min(run.First+run.Count, first+count); block < end; block++ {
				leaf, ok := part.at(block, b.row.layout.Sealed(block))
				if !ok {
					return damaged(fmt.Sprintf("part %s lacks block %d", run.Part, block), nil)
				}
				raw = append(raw, leaf[:]...)
			}
		}
		return nil
	})
	return raw, err
}

func (b *InBlocks) edges(ctx context.Context) (map[string][]byte, error) {
	tiles := make(map[string][]byte)
	for level := range maxTileLevel + 1 {
		count := b.row.layout.Blocks() >> (tileHeight * level)
		if count == 0 {
			break
		}
		last := (count - 1) >> tileHeight
		for _, n := range []int64{0, last} {
			tile := tlog.Tile{H: tileHeight, L: level, N: n, W: int(min(count-n<<tileHeight, 1<<tileHeight))}
			raw, err := b.tile(ctx, tile)
			if err != nil {
				return nil, err
			}
			tiles[tile.Path()] = raw
		}
	}
	return tiles, nil
}
