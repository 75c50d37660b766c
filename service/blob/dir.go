// Package blob keeps ciphertext: a directory of files that are written once
// under random names and never changed.
package blob

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// ErrFull means that the disk or the quota has no room.
var ErrFull = errors.New("no room for the file")

// ErrTooLarge means that more bytes came than were allowed.
var ErrTooLarge = errors.New("more bytes than allowed")

// Info describes one stored blob.
type Info struct {
	ID   string // 32 hex digits, made here
	Size int64  // bytes
	Sum  [sha256.Size]byte
}

// Dir stores blobs in a directory: tmp/ while they arrive, then xx/ID where xx
// are the first two digits. Nothing outside the directory can be named.
type Dir struct{ root *os.Root }

const tmpDir = "tmp"

// OpenDir opens or makes a directory store.
func OpenDir(dir string) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make blob directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open blob directory: %w", err)
	}
	d := &Dir{root: root}
	if err := d.makeFolder(tmpDir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

func (d *Dir) makeFolder(name string) error {
	err := d.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return full(fmt.Errorf("make folder: %w", err))
	}
	return d.syncFolder(".")
}

func (d *Dir) syncFolder(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// checkID accepts only names this package makes.
func checkID(id string) error {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
		return fmt.Errorf("blob id of %d characters: want 32 hex digits", len(id))
	}
	return nil
}

func place(id string) string { return path.Join(id[:2], id) }

// Put stores what r gives, at most limit bytes, under a new name. When it
// returns, the bytes and their name are on the disk. On error nothing is left.
func (d *Dir) Put(ctx context.Context, r io.Reader, limit int64) (Info, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return Info{}, fmt.Errorf("make blob id: %w", err)
	}
	info := Info{ID: hex.EncodeToString(random[:])}
	tmp := path.Join(tmpDir, info.ID)
	if err := d.write(ctx, tmp, r, limit, &info); err != nil {
		_ = d.root.Remove(tmp)
		return Info{}, full(fmt.Errorf("write blob: %w", err))
	}
	if err := d.publish(tmp, info.ID); err != nil {
		_ = d.root.Remove(tmp)
		_ = d.root.Remove(place(info.ID))
		return Info{}, full(fmt.Errorf("publish blob: %w", err))
	}
	return info, nil
}

func (d *Dir) write(ctx context.Context, name string, r io.Reader, limit int64, info *Info) error {
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(f, hash)}, &contextReader{ctx, io.LimitReader(r, limit+1)}, make([]byte, 256<<10))
	if err != nil {
		return err
	}
	if n > limit {
		return ErrTooLarge
	}
	info.Size = n
	hash.Sum(info.Sum[:0])
	return errors.Join(f.Sync(), f.Close())
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func (d *Dir) publish(tmp, id string) error {
	if err := d.makeFolder(id[:2]); err != nil {
		return err
	}
	if err := d.root.Rename(tmp, place(id)); err != nil {
		return err
	}
	return d.syncFolder(id[:2])
}

// full marks errors that mean there is no room.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return errors.Join(ErrFull, err)
	}
	return err
}

// Open opens a blob for reading; the caller closes it. A missing one is
// fs.ErrNotExist.
func (d *Dir) Open(id string) (io.ReadSeekCloser, int64, error) {
	if err := checkID(id); err != nil {
		return nil, 0, err
	}
	f, err := d.root.Open(place(id))
	if err != nil {
		return nil, 0, fmt.Errorf("open blob: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.Join(fmt.Errorf("open blob: %w", fs.ErrNotExist), f.Close())
	}
	return f, info.Size(), nil
}

// Delete removes a blob; one that is not there is no error.
func (d *Dir) Delete(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := d.root.Remove(place(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete blob: %w", err)
	}
	return nil
}

// Sweep removes what an interrupted Put left in tmp/ and calls visit with every
// blob older than age.
func (d *Dir) Sweep(age time.Duration, visit func(id string) error) error {
	before := time.Now().Add(-age)
	return fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.ModTime().After(before) {
			return nil // gone meanwhile, or young
		}
		if path.Dir(name) == tmpDir {
			return d.root.Remove(name)
		}
		if checkID(path.Base(name)) != nil {
			return nil
		}
		return visit(path.Base(name))
	})
}

// Path returns where a blob lies below the directory.
func Path(id string) string { return place(id) }

// Ping reports whether the directory is there.
func (d *Dir) Ping(context.Context) error {
	if _, err := d.root.Stat(tmpDir); err != nil {
		return fmt.Errorf("look at blob directory: %w", err)
	}
	return nil
}
