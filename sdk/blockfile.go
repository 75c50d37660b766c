package sdk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
)

const (
	// aheadBytes is how much of a file is fetched ahead of a sequential reader, at most, in bytes.
	aheadBytes = 16 << 20
	// aheadRequests is how many requests do so at the same time.
	aheadRequests = 4
	// keptBlocks is how many blocks stay in memory besides, for reads that come back.
	keptBlocks = 8
)

// blockFile is the content of an open file of format version 2. It keeps the blocks that were used
// last, and those that a sequential reader will want next.
type blockFile struct {
	b    *Blocks
	ctx  context.Context // ends with that of the open, or with Close
	stop context.CancelFunc

	seek sync.Mutex // guards at, also while Read fetches
	at   int64      // position

	mu       sync.Mutex
	closed   bool
	users    int // of blocks, and requests: the last of them wipes a closed file
	held     map[int64]*heldBlock
	requests map[*blockRequest]bool
	spare    []*mem.Buffer
	uses     int64 // counts up
	next     int64 // block after the one that was used last
	ahead    int64 // blocks to fetch ahead, 0 unless reads are sequential
	until    int64 // block after the last that a reader will want next
}

// heldBlock is a block in memory, or on its way there.
type heldBlock struct {
	block int64
	buf   *mem.Buffer
	by    *blockRequest
	ready chan struct{} // closed once buf has the block, or err is set
	done  bool          // ready is closed
	err   error
	users int
	used  int64
}

// blockRequest is a request in flight.
type blockRequest struct {
	stop  context.CancelFunc
	users int // that wait for one of its blocks
}

// openBlockFile opens a file of format version 2.
func (g Group) openBlockFile(ctx context.Context, e Entry, report Progress) (*File, error) {
	b, err := g.OpenBlocks(ctx, e, FromStart(g.c.Traffic().Line))
	if err != nil {
		return nil, err
	}
	b.reportTo(report)
	f := &blockFile{b: b, held: make(map[int64]*heldBlock), requests: make(map[*blockRequest]bool)}
	f.ctx, f.stop = context.WithCancel(ctx)
	return &File{entry: completed(e, b.layout.Size, b.meta), fee: b.fee, blocks: f}, nil
}

// use returns a block, which release gives back. last is the last block that the caller wants.
func (f *blockFile) use(block, last int64) (*heldBlock, error) {
	for {
		h, err := f.reserve(block, last)
		if err != nil {
			return nil, err
		}
		select {
		case <-h.ready:
		case <-f.ctx.Done():
		}
		f.mu.Lock()
		h.by.users--
		done, failed, closed := h.done, h.err, f.closed
		f.mu.Unlock()
		switch {
		case closed:
			err = fs.ErrClosed
		case done && failed == nil:
			return h, nil
		case f.ctx.Err() != nil:
			err = f.b.c.wrap("read", f.b.group, f.b.entry.Ref, call.Ended(f.ctx))
		case !errors.Is(failed, context.Canceled): // else it was dropped as this call asked for it
			err = failed
		}
		f.release(h)
		if err != nil {
			return nil, err
		}
	}
}

// reserve returns a block that may be on its way, and asks for what is wanted and missing.
func (f *blockFile) reserve(block, last int64) (*heldBlock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fs.ErrClosed
	}
	h := f.held[block]
	if block != f.next-1 || h == nil || last >= f.until {
		f.plan(block, last)
		h = f.held[block]
	}
	f.uses++
	f.users++
	h.users++
	h.by.users++
	h.used = f.uses
	return h, nil
}

// plan asks for a block, and for what will be wanted after it. The caller holds mu.
func (f *blockFile) plan(block, last int64) {
	most := aheadBytes / f.b.layout.BlockBytes
	switch block {
	case 0:
		f.ahead = 0
	case f.next:
		f.ahead = min(max(2*f.ahead, 1), most)
	case f.next - 1: // again
	default:
		f.ahead = 0
		f.drop(block)
	}
	f.next = block + 1
	f.until = min(max(last, block+f.ahead)+1, block+1+most, f.b.layout.Blocks())
	f.request(block, max((f.until-block)/aheadRequests, 1))
	f.trim()
}

// request asks for missing blocks: for block at once, for others at least so many together. The
// caller holds mu.
func (f *blockFile) request(block, least int64) {
	for first := block; first < f.until; first++ {
		if f.held[first] != nil {
			continue
		}
		count := int64(1)
		for first+count < f.until && count < least && f.held[first+count] == nil {
			count++
		}
		if first > block && (len(f.requests) >= aheadRequests || count < least && first+count < f.b.layout.Blocks()) {
			return
		}
		f.fetch(first, count)
		first += count - 1
	}
}

// fetch asks for blocks. The caller holds mu.
func (f *blockFile) fetch(first, count int64) {
	ctx, stop := context.WithCancel(f.ctx)
	by := &blockRequest{stop: stop}
	f.requests[by] = true
	f.users++
	list := make([]*heldBlock, count)
	for i := range list {
		h := &heldBlock{block: first + int64(i), by: by, ready: make(chan struct{}), used: f.uses}
		if n := len(f.spare); n > 0 {
			h.buf, f.spare = f.spare[n-1], f.spare[:n-1]
		}
		list[i], f.held[h.block] = h, h
	}
	go func() {
		defer stop()
		err := f.fill(list)
		if err == nil {
			err = f.b.fetch(ctx, first, count, func(i int64) []byte { return list[i-first].buf.Bytes() }, func(i int64) { f.arrived(list[i-first]) })
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.requests, by)
		for _, h := range list {
			if !h.done {
				h.err, h.done = f.b.c.wrap("read", f.b.group, f.b.entry.Ref, err), true
				close(h.ready)
				if f.held[h.block] == h {
					delete(f.held, h.block)
				}
				f.recycle(h)
			}
		}
		f.users--
		f.wipe()
	}()
}

// fill gets memory for blocks.
func (f *blockFile) fill(list []*heldBlock) (err error) {
	for _, h := range list {
		if h.buf == nil {
			if h.buf, err = f.b.c.pool.Get(0); err != nil {
				return err
			}
		}
		if err := h.buf.Resize(f.b.layout.Plain(h.block)); err != nil {
			return err
		}
	}
	return nil
}

func (f *blockFile) arrived(h *heldBlock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.done = true
	close(h.ready)
}

// drop ends requests that nobody waits for, after a jump to a block. The caller holds mu.
func (f *blockFile) drop(block int64) {
	for by := range f.requests {
		if h := f.held[block]; by.users == 0 && (h == nil || h.by != by) {
			by.stop()
		}
	}
}

// trim frees blocks that were not used for long, but for those ahead of a sequential reader. The
// caller holds mu.
func (f *blockFile) trim() {
	for {
		var oldest *heldBlock
		outside := 0
		for _, h := range f.held {
			if !h.done || h.users > 0 || h.block >= f.next-1 && h.block < f.until {
				continue
			}
			if outside++; oldest == nil || h.used < oldest.used {
				oldest = h
			}
		}
		if outside <= keptBlocks {
			return
		}
		delete(f.held, oldest.block)
		f.recycle(oldest)
	}
}

// release gives a block back.
func (f *blockFile) release(h *heldBlock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	h.users--
	f.recycle(h)
	f.wipe()
}

// recycle keeps the memory of a block that is held no more, once nobody uses it. The caller holds mu.
func (f *blockFile) recycle(h *heldBlock) {
	if h.users > 0 || h.buf == nil || f.held[h.block] == h {
		return
	}
	if int64(len(f.spare)) < aheadBytes/aheadRequests/f.b.layout.BlockBytes {
		f.spare = append(f.spare, h.buf)
	} else {
		h.buf.Release()
	}
	h.buf = nil
}

// wipe frees a closed file once nobody uses it. The caller holds mu.
func (f *blockFile) wipe() {
	if !f.closed || f.users > 0 {
		return
	}
	for _, h := range f.held {
		h.buf.Release()
	}
	for _, b := range f.spare {
		b.Release()
	}
	f.held, f.spare = nil, nil
}

// Close ends reads in progress, and wipes.
func (f *blockFile) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return fs.ErrClosed
	}
	f.closed = true
	f.stop()
	f.wipe()
	f.mu.Unlock()
	return f.b.Close()
}

func (f *blockFile) size() int64 { return f.b.layout.Size }

// ReadAt reads at an offset.
func (f *blockFile) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errNegative
	}
	for n < len(p) && off < f.size() {
		got, err := f.readSome(p[n:], off)
		if err != nil {
			return n, err
		}
		n, off = n+got, off+int64(got)
	}
	if n < len(p) {
		return n, f.eof()
	}
	return n, nil
}

var errNegative = errors.New("negative position")

// eof returns the error at the end of the file.
func (f *blockFile) eof() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	return io.EOF
}

// readSome reads within one block.
func (f *blockFile) readSome(p []byte, off int64) (int, error) {
	l := f.b.layout
	last := min(off+int64(len(p)), l.Size) - 1
	h, err := f.use(off/l.BlockBytes, last/l.BlockBytes)
	if err != nil {
		return 0, err
	}
	defer f.release(h)
	return copy(p, h.buf.Bytes()[off%l.BlockBytes:]), nil
}

// Read reads at the position.
func (f *blockFile) Read(p []byte) (n int, err error) {
	f.seek.Lock()
	defer f.seek.Unlock()
	if f.at >= f.size() {
		return 0, f.eof()
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err = f.readSome(p, f.at)
	f.at += int64(n)
	return n, err
}

// Seek sets the position.
func (f *blockFile) Seek(offset int64, whence int) (int64, error) {
	f.seek.Lock()
	defer f.seek.Unlock()
	if err := f.eof(); err != io.EOF {
		return 0, err
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.size()
	default:
		return 0, errors.New("unknown whence")
	}
	if offset < 0 {
		return 0, errNegative
	}
	f.at = offset
	return offset, nil
}

// WriteTo writes all from the position on.
func (f *blockFile) WriteTo(w io.Writer) (n int64, err error) {
	f.seek.Lock()
	at := f.at
	f.at = max(f.at, f.size())
	f.seek.Unlock()
	defer func() {
		f.seek.Lock()
		defer f.seek.Unlock()
		if err != nil && f.at == f.size() { // no other call has set the position meanwhile
			f.at = at + n
		}
	}()
	if at >= f.size() {
		if err := f.eof(); err != io.EOF {
			return 0, err
		}
		return 0, nil
	}
	for at+n < f.size() {
		got, err := f.writeBlock(w, at+n)
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// writeBlock writes the rest of a block.
func (f *blockFile) writeBlock(w io.Writer, off int64) (int64, error) {
	l := f.b.layout
	h, err := f.use(off/l.BlockBytes, min(off/l.BlockBytes+aheadBytes/l.BlockBytes, l.Blocks())-1)
	if err != nil {
		return 0, err
	}
	defer f.release(h)
	piece := h.buf.Bytes()[off%l.BlockBytes:]
	n, err := w.Write(piece)
	if err == nil && n < len(piece) {
		err = io.ErrShortWrite
	}
	return int64(n), err
}
