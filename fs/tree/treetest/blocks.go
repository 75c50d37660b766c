package treetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// DefaultBlock is the plaintext of a block of a world, in bytes.
const DefaultBlock = format.MinBlockBytes

// PartBlocks is how many blocks a part of a world's upload may have.
const PartBlocks = 8

// blocksOf is what a world counts about the files of format version 2.
type blocksOf struct {
	fetched map[sdk.Ref]map[int64]int // how often each block was fetched
	reads   int                       // requests for blocks
	sent    int                       // blocks that were sent
	bad     map[sdk.Ref]map[int64]error
	open    int
	// fromStart counts calls that asked for the first block with the key.
	fromStart int
}

// isLarge reports whether a file of size bytes has blocks.
func (w *World) isLarge(size int64) bool { return w.BlocksAbove > 0 && size > w.BlocksAbove }

func (w *World) blockBytes() int64 { return cmp.Or(w.BlockBytes, DefaultBlock) }

// Spoil makes fetching a block of an upload fail, or with nil succeed again.
func (w *World) Spoil(ref sdk.Ref, block int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blocks.bad == nil {
		w.blocks.bad = map[sdk.Ref]map[int64]error{}
	}
	if w.blocks.bad[ref] == nil {
		w.blocks.bad[ref] = map[int64]error{}
	}
	w.blocks.bad[ref][block] = err
}

// Fetched returns how often each block of an upload was fetched.
func (w *World) Fetched(ref sdk.Ref) map[int64]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.blocks.fetched[ref])
}

// BlockReads returns the number of requests for blocks.
func (w *World) BlockReads() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocks.reads
}

// BlocksSent returns how many blocks were sent in parts.
func (w *World) BlocksSent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocks.sent
}

// OpenBlocksNow returns how many files of format version 2 are open.
func (w *World) OpenBlocksNow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocks.open
}

// OpenedFromStart returns how many files were opened from their first block on.
func (w *World) OpenedFromStart() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocks.fromStart
}

// Blocks is an open file of format version 2.
type Blocks struct {
	p      Person
	entry  sdk.Entry
	layout format.Layout
	once   sync.Once
	closed bool // by World.mu
}

// OpenBlocks opens a file that was recorded as one of format version 2. Of options it
// only counts which calls have one.
func (p Person) OpenBlocks(ctx context.Context, e sdk.Entry, ahead ...int64) (*Blocks, error) {
	if err := p.begin(ctx, "open blocks"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reads(e); err != nil {
		return nil, err
	}
	if e.Content == (sdk.Digest{}) {
		return nil, &sdk.Error{Op: "open blocks", Kind: sdk.ErrInvalid, Err: fmt.Errorf("the file has no blocks")}
	}
	p.retrieves++
	p.blocks.open++
	p.blocks.fromStart += min(len(ahead), 1)
	return &Blocks{p: p, entry: e, layout: format.Layout{Size: e.Size, BlockBytes: p.cut[e.Ref]}}, nil
}

// reads refuses who may not read e. Needs World.mu.
func (p Person) reads(e sdk.Entry) error {
	if err := p.allowed(e.Group); err != nil {
		return err
	}
	if _, ok := p.content[e.Ref]; !ok {
		return &sdk.Error{Op: "read blocks", Kind: sdk.ErrDeleted}
	}
	return nil
}

// Layout tells how the file is cut.
func (b *Blocks) Layout() format.Layout { return b.layout }

// Fee is zero.
func (b *Blocks) Fee() sdk.Amount { return sdk.Amount{} }

// Footprint is zero.
func (b *Blocks) Footprint() int64 { return 0 }

// Read fetches consecutive blocks.
func (b *Blocks) Read(ctx context.Context, first int64, into []*mem.Buffer) (err error) {
	defer func() {
		if err != nil {
			for _, buf := range into {
				_ = buf.Resize(0)
			}
		}
	}()
	if err := b.p.begin(ctx, "read blocks"); err != nil {
		return err
	}
	w := b.p.World
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.closed {
		panic("blocks are read after Close")
	}
	w.blocks.reads++
	if err := b.p.reads(b.entry); err != nil {
		return err
	}
	if w.blocks.fetched == nil {
		w.blocks.fetched = map[sdk.Ref]map[int64]int{}
	}
	if w.blocks.fetched[b.entry.Ref] == nil {
		w.blocks.fetched[b.entry.Ref] = map[int64]int{}
	}
	data := w.content[b.entry.Ref]
	for i, buf := range into {
		block := first + int64(i)
		if err := w.blocks.bad[b.entry.Ref][block]; err != nil {
			return err
		}
		if err := buf.Resize(b.layout.Plain(block)); err != nil {
			return err
		}
		copy(buf.Bytes(), data[block*b.layout.BlockBytes:])
		w.blocks.fetched[b.entry.Ref][block]++
	}
	return nil
}

// Close ends the reading.
func (b *Blocks) Close() error {
	b.once.Do(func() {
		b.p.mu.Lock()
		defer b.p.mu.Unlock()
		b.closed = true
		b.p.blocks.open--
	})
	return nil
}

// BlockUpload is an upload of format version 2 in progress.
type BlockUpload struct {
	p      Person
	group  sdk.GroupID
	base   *Blocks
	block  int64
	mu     sync.Mutex
	blocks map[int64][]byte
	opened *Blocks      // what was recorded, until it is taken
	unsure *sdk.Receipt // the answer was lost; by World.mu
}

// BeginBlocks begins an upload.
func (p Person) BeginBlocks(ctx context.Context, g sdk.GroupID, base *Blocks, blockBytes int64) (*BlockUpload, error) {
	if err := p.begin(ctx, "begin blocks"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayWrite(g); err != nil {
		return nil, err
	}
	if p.BlocksAbove == 0 {
		return nil, &sdk.Error{Op: "begin blocks", Group: g, Kind: sdk.ErrUnsupported, Err: fmt.Errorf("the service takes no files of format version 2")}
	}
	u := &BlockUpload{p: p, group: g, blocks: map[int64][]byte{}}
	if from := base; from != nil && from.entry.Group == g && from.entry.Uploader == p.id && (blockBytes == 0 || blockBytes == from.layout.BlockBytes) && p.reads(from.entry) == nil {
		u.base = from
		blockBytes = from.layout.BlockBytes
	}
	u.block = cmp.Or(blockBytes, p.blockBytes())
	return u, nil
}

// TakesOver tells whether blocks that are not sent are those of the base.
func (u *BlockUpload) TakesOver() bool { return u.base != nil }

// PartBlocks is the constant.
func (u *BlockUpload) PartBlocks() int64 { return PartBlocks }

// PutPart keeps blocks.
func (u *BlockUpload) PutPart(ctx context.Context, blocks format.Extents, read func(block int64, into []byte) (int, error)) error {
	if n := blocks.Blocks(); n < 1 || n > PartBlocks {
		return &sdk.Error{Op: "put part", Group: u.group, Kind: sdk.ErrInvalid, Err: fmt.Errorf("a part of %d blocks", n)}
	}
	got := map[int64][]byte{}
	for _, x := range blocks {
		for i := x.First; i < x.First+x.Count; i++ {
			into := make([]byte, u.block)
			n, err := read(i, into)
			if err != nil {
				return err
			}
			got[i] = into[:n]
		}
	}
	if err := u.p.begin(ctx, "put part"); err != nil {
		return err
	}
	u.p.mu.Lock()
	err := u.p.mayWrite(u.group)
	if err == nil {
		u.p.blocks.sent += len(got)
	}
	u.p.mu.Unlock()
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.Copy(u.blocks, got)
	return nil
}

// Finish records the upload.
func (u *BlockUpload) Finish(ctx context.Context, name string, size int64, hash sdk.Digest,
	opts ...sdk.PutOptions) (sdk.Receipt, error) {
	o := opts[len(opts)-1]
	refused := func(kind sdk.Kind, code, text string) (sdk.Receipt, error) {
		return sdk.Receipt{}, &sdk.Error{Op: "finish blocks", Group: u.group, Kind: kind, Code: code, Err: fmt.Errorf("%s", text)}
	}
	p := u.p
	err := p.begin(ctx, "upload")
	var base []byte
	p.mu.Lock()
	if u.unsure != nil { // it is the same upload
		defer p.mu.Unlock()
		if was := u.unsure; was.Name != name || was.Size != size || was.Hash != hash {
			err = &sdk.Error{Op: "check", Kind: sdk.ErrInvalid, Err: fmt.Errorf("another may have been recorded")}
		}
		if err != nil {
			return sdk.Receipt{}, mayBeRecorded(err)
		}
		return *u.unsure, nil
	}
	err = cmp.Or(err, p.mayWrite(u.group), p.isBase(u.group, name, o.Base))
	lives := true
	if u.base != nil {
		base, lives = p.content[u.base.entry.Ref]
		i := slices.IndexFunc(p.rows[u.group], func(e sdk.Entry) bool { return e.Ref == u.base.entry.Ref })
		lives = lives && i >= 0 && p.rows[u.group][i].Deleted == nil && p.rows[u.group][i].Name == name
	}
	p.mu.Unlock()
	if err != nil {
		return sdk.Receipt{}, err
	}
	if !lives {
		return refused(sdk.ErrConflict, wire.CodeBase, "nothing can be taken over")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	l := format.Layout{Size: size, BlockBytes: u.block}
	data := make([]byte, size)
	for i := range l.Blocks() {
		at, n := i*u.block, l.Plain(i)
		sent, ok := u.blocks[i]
		switch {
		case ok && int64(len(sent)) == n:
			copy(data[at:], sent)
		case ok:
			return refused(sdk.ErrConflict, "", fmt.Sprintf("block %d has %d bytes, want %d", i, len(sent), n))
		case u.base != nil && at < int64(len(base)) && u.base.layout.Plain(i) == n:
			copy(data[at:at+n], base[at:])
		default:
			return refused(sdk.ErrConflict, "", fmt.Sprintf("block %d is missing", i))
		}
	}
	switch computed := sdk.ComputeHash(data); {
	case hash == (sdk.Digest{}) && u.base == nil:
		return refused(sdk.ErrInvalid, "", "a hash is missing")
	case hash != (sdk.Digest{}) && hash != computed:
		panic("a hash differs from the content")
	}
	p.mu.Lock()
	p.uploads++
	e := p.put(u.group, p.id, name, data, o.Attributes, u.block)
	e.Hash = hash
	p.rows[u.group][len(p.rows[u.group])-1].Hash = hash
	p.blocks.open++
	u.opened = &Blocks{p: p, entry: e, layout: l}
	r := sdk.Receipt{Entry: e}
	p.mu.Unlock()
	p.setUpon(&r.Entry, o.Upon)
	if err := p.begin(ctx, "uploaded"); err != nil { // the record is there, the answer is on its way
		p.mu.Lock()
		defer p.mu.Unlock()
		u.unsure = &r
		return sdk.Receipt{}, mayBeRecorded(err)
	}
	return r, nil
}

// Opened returns what was recorded, once.
func (u *BlockUpload) Opened() *Blocks {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.opened
	u.opened = nil
	return b
}

// Abandon forgets the upload.
func (u *BlockUpload) Abandon() {
	if b := u.Opened(); b != nil {
		_ = b.Close()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.blocks = nil
}
