package sdk

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/names"
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
// is not compared. The context of the call that opened the file must last until Close. Errors of reads: [ErrCorrupt], [ErrNotAuthorized] and
// [ErrDeleted] if that happened meanwhile, [ErrUnavailable], [ErrTimeout], [ErrCanceled].
type File struct {
	entry  Entry
	fee    Amount
	blocks *blockFile // of format version 2; else nil

	mu      sync.Mutex
	buf     *mem.Buffer
	at      *bytes.Reader // reads buf; nil once closed
	writers int           // calls of WriteTo in progress, which read buf
}

var _ interface {
	fs.File
	io.ReadSeekCloser
	io.ReaderAt
	io.WriterTo
} = (*File)(nil)

// newFile returns a file with the content of b. The file owns b.
func newFile(e Entry, got retrieved, b *mem.Buffer) *File {
	return &File{entry: completed(e, b.Len(), got.sealed), fee: got.fee, buf: b, at: bytes.NewReader(b.Bytes())}
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

// use runs do. On a closed file it returns [fs.ErrClosed] instead.
func (f *File) use(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		return fs.ErrClosed
	}
	return do()
}

// Read copies content from the position on into p. Errors: [io.EOF], [fs.ErrClosed], those of
// [File].
func (f *File) Read(p []byte) (n int, err error) {
	if f.blocks != nil {
		return f.blocks.Read(p)
	}
	err = f.use(func() (err error) { n, err = f.at.Read(p); return err })
	return n, err
}

// ReadAt copies content from an offset on, in bytes, into p. Errors: [io.EOF],
// [fs.ErrClosed], those of [File].
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if f.blocks != nil {
		return f.blocks.ReadAt(p, off)
	}
	err = f.use(func() (err error) { n, err = f.at.ReadAt(p, off); return err })
	return n, err
}

// Seek sets the position, in bytes. Errors: a negative position, [fs.ErrClosed].
func (f *File) Seek(offset int64, whence int) (at int64, err error) {
	if f.blocks != nil {
		return f.blocks.Seek(offset, whence)
	}
	err = f.use(func() (err error) { at, err = f.at.Seek(offset, whence); return err })
	return at, err
}

// WriteTo writes the content from the position on to w, in one Write, or for format version 2 in one
// Write a block. It blocks no other
// call: meanwhile the position is at the end, and Close waits with the wiping. On an error
// the position is after the bytes that w took. Errors: those of w, [fs.ErrClosed], those of [File].
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	if f.blocks != nil {
		return f.blocks.WriteTo(w)
	}
	var rest bytes.Reader
	err = f.use(func() error {
		rest = *f.at
		f.writers++
		_, err := f.at.Seek(int64(f.at.Len()), io.SeekCurrent)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.writers--
		if f.at != nil && f.at.Len() == 0 { // no other call has set the position meanwhile
			*f.at = rest
		}
		f.release()
	}()
	return rest.WriteTo(w)
}

// Close wipes the content and frees its memory, after the last WriteTo in progress. Of a file of
// format version 2 it ends reads in progress, and wipes the keys. Errors:
// [fs.ErrClosed] if the file is closed already.
func (f *File) Close() error {
	if f.blocks != nil {
		return f.blocks.Close()
	}
	return f.use(func() error {
		f.at = nil
		f.release()
		return nil
	})
}

// release wipes the content of a closed file once no WriteTo reads it. The caller holds mu.
func (f *File) release() {
	if f.at == nil && f.writers == 0 {
		f.buf.Release()
	}
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
