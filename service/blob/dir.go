package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/space"
)

// Dir stores blobs in a directory: in tmp/ while they arrive, then under xx/ID where xx
// are the first two digits. A blob id cannot name a file outside the directory, and only
// regular files are read.
//
// After a failed sync the content of the disk is unknown, and a later sync that succeeds
// says nothing about the failed one. The store then takes no more blobs until it is
// opened again. Reading continues.
type Dir struct {
	path   string
	mark   string
	root   *os.Root
	sync   func(*os.File) error
	failed atomic.Bool // a sync

	making  sync.Mutex
	folders map[string]bool // whose names this process has made durable

	buffers sync.Pool // of *[copyBytes]byte
}

// TmpDir is where blobs are while they arrive, below the directory.
const TmpDir = "tmp"

var errSyncFailed = fmt.Errorf("%w: a sync failed: stop the service, check the disk, run svcd verify --read-data, "+
	"then start it again", ErrUnavailable)

// OpenDir opens or makes a directory store.
func OpenDir(dir, mark string) (*Dir, error) {
	if err := ownfile.MakeFolder(dir); err != nil {
		return nil, fmt.Errorf("make blob directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open blob directory: %w", err)
	}
	d := &Dir{path: dir, mark: mark, root: root, sync: (*os.File).Sync, folders: map[string]bool{},
		buffers: sync.Pool{New: func() any { return new([copyBytes]byte) }}}
	if err := d.makeFolder(TmpDir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Check reports whether the directory is still there.
func (d *Dir) Check(context.Context) error {
	if _, err := d.root.Stat(TmpDir); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if d.failed.Load() {
		return errSyncFailed
	}
	return nil
}

// Where returns the file of a blob.
func (d *Dir) Where(id string) string {
	if checkID(id) != nil {
		return ""
	}
	return filepath.Join(d.path, filepath.FromSlash(place(id)))
}

// makeFolder makes a folder of the store, unless it exists, with a durable name.
func (d *Dir) makeFolder(name string) error {
	err := d.root.Mkdir(name, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return full(fmt.Errorf("make folder: %w", err))
	}
	d.making.Lock() // who finds the folder waits for who made it
	defer d.making.Unlock()
	if err != nil && d.folders[name] {
		return nil
	}
	if err := d.syncFolder("."); err != nil {
		return err
	}
	d.folders[name] = true
	return nil
}

// synced syncs a file or a folder.
func (d *Dir) synced(f *os.File) error {
	err := d.sync(f)
	if err != nil {
		d.failed.Store(true)
	}
	return err
}

func (d *Dir) syncFolder(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.synced(f), f.Close())
}

// Put stores the bytes of r, at most limit, under a new name. When it returns, the bytes
// and their name are on the disk. After an error nothing is left.
func (d *Dir) Put(ctx context.Context, r io.Reader, limit int64) (Info, error) {
	return d.put(limit, func(f *os.File, info *Info) (err error) {
		info.Size, info.Sum, err = d.copyHashed(f, &contextReader{ctx: ctx, r: io.LimitReader(r, limit+1)})
		return err
	})
}

// PutProved is Put without a hash.
func (d *Dir) PutProved(ctx context.Context, r io.Reader, limit int64) (Info, error) {
	return d.put(limit, func(f *os.File, info *Info) (err error) {
		info.Size, err = d.copyProved(ctx, f, r, limit)
		return err
	})
}

// put stores what fill writes, at most limit bytes, under a new name.
func (d *Dir) put(limit int64, fill func(*os.File, *Info) error) (Info, error) {
	if d.failed.Load() {
		return Info{}, errSyncFailed
	}
	info := Info{ID: newID(d.mark)}
	tmp := path.Join(TmpDir, info.ID)
	if err := d.write(tmp, limit, &info, fill); err != nil {
		_ = d.root.Remove(tmp)
		return Info{}, full(fmt.Errorf("write blob: %w", err))
	}
	faultpoint.Hit("blob.written")
	if err := d.publish(tmp, info.ID); err != nil {
		_ = d.root.Remove(tmp)
		_ = d.root.Remove(place(info.ID))
		return Info{}, full(fmt.Errorf("publish blob: %w", err))
	}
	return info, nil
}

// PutMemory is two pieces at most: one that is written, one that is hashed.
func (d *Dir) PutMemory(size int64) int64 { return max(atMost(size, 2*copyBytes), copyBytes) }

func (d *Dir) write(name string, limit int64, info *Info, fill func(*os.File, *Info) error) error {
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := fill(f, info); err != nil {
		return err
	}
	if info.Size > limit {
		return ErrTooLarge
	}
	return errors.Join(d.synced(f), f.Close())
}

func (d *Dir) publish(tmp, id string) error {
	if err := d.makeFolder(id[:2]); err != nil {
		return err
	}
	if err := d.root.Rename(tmp, place(id)); err != nil {
		return err
	}
	faultpoint.Hit("blob.named")
	return d.syncFolder(id[:2])
}

// full marks errors of a disk without room.
func full(err error) error {
	if space.IsFull(err) || errors.Is(err, syscall.EFBIG) {
		return errors.Join(ErrFull, err)
	}
	return err
}

// Open opens a blob for reading; the caller closes it. A missing blob is fs.ErrNotExist,
// and so is anything but a regular file: Open follows no link and waits for no pipe in
// the store.
func (d *Dir) Open(_ context.Context, id string) (io.ReadSeekCloser, int64, error) {
	if err := checkID(id); err != nil {
		return nil, 0, err
	}
	named, err := d.root.Lstat(place(id))
	if err == nil && !named.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open blob: %w", err)
	}
	f, err := d.root.OpenFile(place(id), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("open blob: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if !os.SameFile(named, info) {
		return nil, 0, errors.Join(fmt.Errorf("open blob: %w", fs.ErrNotExist), f.Close())
	}
	return f, info.Size(), nil
}

// Read returns a whole blob of so many bytes.
func (d *Dir) Read(ctx context.Context, id string, size int64) ([]byte, error) {
	f, found, err := d.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if found != size {
		return nil, fmt.Errorf("read blob: %w: %d bytes, want %d", ErrSize, found, size)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read blob: %w", err)
	}
	return data, nil
}

// Delete removes a blob; a missing blob is no error.
func (d *Dir) Delete(_ context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := d.root.Remove(place(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete blob: %w", err)
	}
	return nil
}

// Sweep removes the leftovers of interrupted Puts in tmp/ and calls visit with every
// blob older than age that has the mark of this store.
func (d *Dir) Sweep(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error {
	return d.walk(ctx, age, func(name, id string, size int64) error {
		if id == "" {
			return d.root.Remove(name)
		}
		if !strings.HasSuffix(id, d.mark) {
			return nil
		}
		return visit(id, size)
	})
}

// List calls visit with every blob older than age.
func (d *Dir) List(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error {
	return d.walk(ctx, age, func(_, id string, size int64) error {
		if id == "" {
			return nil
		}
		return visit(id, size)
	})
}

// walk calls visit with every blob older than age, and with the files in tmp/, which
// have no id.
func (d *Dir) walk(ctx context.Context, age time.Duration, visit func(name, id string, size int64) error) error {
	before := time.Now().Add(-age)
	return fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.ModTime().After(before) {
			return nil // gone meanwhile, or young
		}
		id := path.Base(name)
		switch {
		case path.Dir(name) == TmpDir:
			return visit(name, "", info.Size())
		case checkID(id) != nil || name != place(id):
			return nil
		}
		return visit(name, id, info.Size())
	})
}
