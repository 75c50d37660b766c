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

// File is a retrieved file, complete and equal to the hash in the ledger. It is an
// [fs.File], and reads, seeks and is read at any place without a request. Its memory
// lies outside the garbage-collected heap; Close wipes it and gives it back. It is
// safe for concurrent use; the calls share one position, but for ReadAt.
type File struct {
	entry Entry
	fee   Amount

	mu      sync.Mutex
	buf     *mem.Buffer
	at      *bytes.Reader // reads buf; nil once closed
	writers int           // calls of WriteTo that read buf
}

var _ interface {
	fs.File
	io.ReadSeekCloser
	io.ReaderAt
	io.WriterTo
} = (*File)(nil)

// newFile makes a file of the content in b, which it owns from now on.
func newFile(e Entry, got retrieved, b *mem.Buffer) *File {
	e.Size = b.Len()
	e.Name = cmp.Or(e.Name, got.sealed.Filename)
	e.ContentType = cmp.Or(e.ContentType, got.sealed.ContentType)
	return &File{entry: e, fee: got.fee, buf: b, at: bytes.NewReader(b.Bytes())}
}

// Entry returns the file's record. Name, size and content type that the ledger does
// not tell are those that its uploader sealed with it. Local, free.
func (f *File) Entry() Entry { return f.entry }

// Fee returns what retrieving it was charged; zero when the service does not tell.
// Local, free.
func (f *File) Fee() Amount { return f.fee }

// Stat returns the file's size, time, and name without its folders as a mount shows it
// (package names), which is never empty, "." or ".."; Sys is the [Entry]. Local, free;
// never an error.
func (f *File) Stat() (fs.FileInfo, error) { return fileInfo{f.entry}, nil }

// use runs do, unless the file is closed: [fs.ErrClosed].
func (f *File) use(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		return fs.ErrClosed
	}
	return do()
}

// Read reads from the position on. Errors: [io.EOF], [fs.ErrClosed].
func (f *File) Read(p []byte) (n int, err error) {
	err = f.use(func() (err error) { n, err = f.at.Read(p); return err })
	return n, err
}

// ReadAt reads at an offset. Errors: [io.EOF], [fs.ErrClosed].
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.use(func() (err error) { n, err = f.at.ReadAt(p, off); return err })
	return n, err
}

// Seek sets the position. Errors: a negative position, [fs.ErrClosed].
func (f *File) Seek(offset int64, whence int) (at int64, err error) {
	err = f.use(func() (err error) { at, err = f.at.Seek(offset, whence); return err })
	return at, err
}

// WriteTo writes what is behind the position to w in one piece. It holds up no other
// call: meanwhile the position is at the end, and a Close leaves w the content. Errors:
// those of w, after which the position is behind what w took; [fs.ErrClosed].
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
		if f.at != nil && f.at.Len() == 0 { // nobody has set the position meanwhile
			*f.at = rest
		}
		f.release()
	}()
	return rest.WriteTo(w)
}

// Close wipes the content and gives its memory back, once no WriteTo is under way.
// Closing twice is [fs.ErrClosed].
func (f *File) Close() error {
	return f.use(func() error {
		f.at = nil
		f.release()
		return nil
	})
}

// release wipes the content when nobody reads it any more. The caller holds mu.
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
