package sdk

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/names"
)

const (
	// fileMemory is how much of an open file in blocks stays in memory, and fileAhead how much of that a reader in
	// order has fetched ahead, at most, in bytes.
	fileMemory = 32 << 20
	fileAhead  = 16 << 20
	// readBytes is how much one ReadAt asks for at a time, in bytes.
	readBytes = 8 << 20
)

// File is a file that was opened. It is an [fs.File], [io.Seeker] and [io.ReaderAt]. Its
// plaintext lies outside the garbage-collected heap, until Close wipes and frees it. No method
// costs tokens. A File is safe for concurrent use; all calls but ReadAt share one position.
//
// The content of a file that was sealed whole (format version 1) is in memory once it is open, and
// equals the hash in the ledger; no method sends a request.
//
// A file of format version 2 may be larger than memory. Reads fetch the blocks that they need, and
// for sequential reads some more: at most 32 MiB are in memory. Each block is proven to be
// the recorded one before a byte of it is given out; the recorded hash of the whole is what the uploader says, and
// is not compared. The context of the call that opened the file must last until Close. Errors of reads: [ErrCorrupt],
// [ErrNotAuthorized] and [ErrDeleted] if that happened meanwhile, [ErrUnavailable], [ErrTimeout], [ErrCanceled].
type File struct {
	entry  Entry
	fee    Amount
	c      *Client
	open   *Blocks // of format version 2; nil = the content is in memory as one block
	file   blocks.File
	reader blocks.Reader   // follows Read and ReadAt
	ctx    context.Context // ends with that of the open, or with Close
	stop   context.CancelFunc

	seek sync.Mutex // guards at, also while Read fetches
	at   int64      // position

	mu     sync.Mutex
	closed bool
	users  int // calls in progress: the last of them wipes a closed file
}

var _ interface {
	fs.File
	io.ReadSeekCloser
	io.ReaderAt
	io.WriterTo
} = (*File)(nil)

// newFile returns a file with the content of b. The file owns b.
func newFile(c *Client, e Entry, got retrieved, b *mem.Buffer) *File {
	whole := wholeSource{format.Layout{Size: b.Len(), BlockBytes: max(1, b.Len())}}
	f := newOpenFile(context.Background(), c, completed(e, b.Len(), got.sealed), got.fee, whole, b.Footprint())
	f.file.Memory.Store.Add(f.file.BlockKey(0), b).Release() // it fits, so it stays
	return f
}

// openBlockFile opens a file of format version 2.
func (g Group) openBlockFile(ctx context.Context, e Entry, report func(done, total int64)) (*File, error) {
	b, err := g.OpenBlocks(ctx, e, g.c.Traffic().Line)
	if err != nil {
		return nil, err
	}
	b.reportTo(report)
	f := newOpenFile(ctx, g.c, completed(e, b.layout.Size, b.meta), b.fee, b, fileMemory)
	f.open = b
	f.file.Memory.Line = func() int64 { return g.c.Traffic().Line }
	return f, nil
}

func newOpenFile(ctx context.Context, c *Client, e Entry, fee Amount, source blocks.Source, memory int64) *File {
	shared := &blocks.Memory{Store: cache.New(memory), Ahead: fileAhead}
	f := &File{c: c, entry: e, fee: fee, file: blocks.File{Memory: shared,
		Key: cache.Key{Group: string(e.Group), Ref: string(e.Ref)}, Source: source}}
	f.ctx, f.stop = context.WithCancel(ctx)
	return f
}

// wholeSource is content that was sealed whole: one block, which is in memory already.
type wholeSource struct{ layout format.Layout }

// Layout returns that of one block.
func (s wholeSource) Layout() format.Layout { return s.layout }

// Fetch is not called: the block is in memory until the file is closed.
func (s wholeSource) Fetch(context.Context, int64, int) ([]cache.Buffer, error) {
	return nil, fs.ErrClosed
}

// Fetch returns blocks with one request: all of them, or none. It is [Blocks.Read] into memory of its own, which the
// caller owns.
func (b *Blocks) Fetch(ctx context.Context, first int64, count int) ([]cache.Buffer, error) {
	into, got := make([]*mem.Buffer, 0, count), make([]cache.Buffer, 0, count)
	var err error
	for range count {
		var buf *mem.Buffer
		if buf, err = b.c.pool.Get(0); err != nil {
			break
		}
		into, got = append(into, buf), append(got, buf)
	}
	if err == nil {
		err = b.Read(ctx, first, into)
	}
	if err == nil {
		return got, nil
	}
	for _, buf := range into {
		buf.Release()
	}
	return nil, err
}

// completed returns a record with what the uploader sealed.
func completed(e Entry, size int64, sealed format.Metadata) Entry {
	e.Size = size
	e.Name = cmp.Or(e.Name, sealed.Filename)
	e.ContentType = cmp.Or(e.ContentType, sealed.ContentType)
	return e
}

// Entry returns the file's record. If the ledger does not hold the name, the size or the
// content type, Entry has those that the uploader sealed with the content. Local, free.
func (f *File) Entry() Entry { return f.entry }

// Fee returns the fee of the retrieval, zero if the service does not tell it. Local, free.
func (f *File) Fee() Amount { return f.fee }

// Stat returns the size in bytes, the time, and the last part of the name that a mount
// shows (package names). That name is never empty, "." or "..". Sys returns the [Entry].
// Local, free. The error is always nil.
func (f *File) Stat() (fs.FileInfo, error) { return fileInfo{f.entry}, nil }

// enter begins a call. On a closed file it returns [fs.ErrClosed].
func (f *File) enter() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.users++
	return nil
}

func (f *File) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	f.wipe()
}

// wipe frees a closed file once nobody uses it. The caller holds mu.
func (f *File) wipe() {
	if f.closed && f.users == 0 {
		f.file.Memory.Store.Close()
	}
}

func (f *File) size() int64 { return f.file.Source.Layout().Size }

// why is the error of a call that failed with err.
func (f *File) why(err error) error {
	if err == nil {
		return nil
	}
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return fs.ErrClosed
	}
	if f.ctx.Err() != nil {
		err = call.Ended(f.ctx)
	}
	return f.c.wrap("read", f.entry.Group, f.entry.Ref, err)
}

// readSome copies content of one piece.
func (f *File) readSome(p []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, f.why(err)
	}
	v, err := f.file.View(f.ctx, &f.reader, p[:min(len(p), readBytes)], off)
	if err != nil {
		return 0, f.why(err)
	}
	defer v.Done()
	return copy(p, v.Bytes), nil
}

// Read copies content from the position on into p. Errors: [io.EOF], [fs.ErrClosed], those of
// [File].
func (f *File) Read(p []byte) (n int, err error) {
	f.seek.Lock()
	defer f.seek.Unlock()
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	switch {
	case f.at >= f.size():
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	n, err = f.readSome(p, f.at)
	f.at += int64(n)
	return n, err
}

// ReadAt copies content from an offset on, in bytes, into p. Errors: [io.EOF],
// [fs.ErrClosed], those of [File].
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errNegative
	}
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	for n < len(p) && off < f.size() {
		got, err := f.readSome(p[n:], off)
		if err != nil {
			return n, err
		}
		n, off = n+got, off+int64(got)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

var errNegative = errors.New("negative position")

// Seek sets the position, in bytes. Errors: a negative position, [fs.ErrClosed].
func (f *File) Seek(offset int64, whence int) (at int64, err error) {
	f.seek.Lock()
	defer f.seek.Unlock()
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
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

// WriteTo writes the content from the position on to w, in one Write, or for format version 2 in one
// Write a block. It blocks no other
// call: meanwhile the position is at the end, and Close waits with the wiping. On an error
// the position is after the bytes that w took. Errors: those of w, [fs.ErrClosed], those of [File].
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
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
	r := &blocks.Reader{Whole: true}
	defer r.Leave()
	for at+n < f.size() {
		got, err := f.writeBlock(w, r, at+n)
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// writeBlock writes the rest of a block.
func (f *File) writeBlock(w io.Writer, r *blocks.Reader, off int64) (int64, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, f.why(err)
	}
	v, err := f.file.Lend(f.ctx, r, off, f.file.Source.Layout().BlockBytes)
	if err != nil {
		return 0, f.why(err)
	}
	defer v.Done()
	n, err := w.Write(v.Bytes)
	if err == nil && n < len(v.Bytes) {
		err = io.ErrShortWrite
	}
	return int64(n), err
}

// Close ends reads in progress, and wipes the content and its keys, after the last call in progress. Errors:
// [fs.ErrClosed] if the file is closed already.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.stop()
	f.reader.Leave()
	f.wipe()
	if f.open == nil {
		return nil
	}
	return f.open.Close()
}

type fileInfo struct{ e Entry }

func (i fileInfo) Name() string {
	named := i.e.Named()
	return path.Base(names.Show(named.Recorded, named.Ref))
}

func (i fileInfo) Size() int64        { return i.e.Size }
func (i fileInfo) Mode() fs.FileMode  { return 0o400 }
func (i fileInfo) ModTime() time.Time { return i.e.Time }
func (i fileInfo) IsDir() bool        { return false }
func (i fileInfo) Sys() any           { return i.e }
