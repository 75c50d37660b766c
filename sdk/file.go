package sdk

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/names"
)

// File is a retrieved file. Its content is complete and equals the hash in the ledger. A
// File is an [fs.File], [io.Seeker] and [io.ReaderAt]; no method sends a request or costs
// tokens. The content lies outside the garbage-collected heap, until Close wipes and frees
// it. A File is safe for concurrent use; all calls but ReadAt share one position.
type File struct {
	entry Entry
	fee   Amount

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
	e.Size = b.Len()
	e.Name = cmp.Or(e.Name, got.sealed.Filename)
	e.ContentType = cmp.Or(e.ContentType, got.sealed.ContentType)
	return &File{entry: e, fee: got.fee, buf: b, at: bytes.NewReader(b.Bytes())}
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

// Read copies content from the position on into p. Errors: [io.EOF], [fs.ErrClosed].
func (f *File) Read(p []byte) (n int, err error) {
	err = f.use(func() (err error) { n, err = f.at.Read(p); return err })
	return n, err
}

// ReadAt copies content from an offset on, in bytes, into p. Errors: [io.EOF],
// [fs.ErrClosed].
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.use(func() (err error) { n, err = f.at.ReadAt(p, off); return err })
	return n, err
}

// Seek sets the position, in bytes. Errors: a negative position, [fs.ErrClosed].
func (f *File) Seek(offset int64, whence int) (at int64, err error) {
	err = f.use(func() (err error) { at, err = f.at.Seek(offset, whence); return err })
	return at, err
}

// WriteTo writes the content from the position on to w, in one Write. It blocks no other
// call: meanwhile the position is at the end, and Close waits with the wiping. On an error
// the position is after the bytes that w took. Errors: those of w, [fs.ErrClosed].
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
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

// Close wipes the content and frees its memory, after the last WriteTo in progress. Errors:
// [fs.ErrClosed] if the file is closed already.
func (f *File) Close() error {
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
