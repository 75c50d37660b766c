package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Pending is a new file with mode 0600 that gets its name once it is complete. After a
// crash the name has the earlier file or the new one, whole. Only a regular file is
// replaced: anything else with that name, such as a link or a device, stays, and is an
// error.
type Pending struct {
	*os.File
	path string
}

// New creates a file for the name path. The caller must call Discard in every case; a file
// that got its name stays.
func New(path string) (*Pending, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return nil, err
	}
	return &Pending{f, path}, nil
}

// Replace makes the file durable and gives it its name. It replaces a file of that name.
func (p *Pending) Replace() error {
	return p.place(func(from, to string) error {
		if err := Replaceable(to); err != nil {
			return err
		}
		return os.Rename(from, to)
	})
}

// Create makes the file durable and gives it its name. If the name exists in any form, also
// as a link or a folder, the error is [fs.ErrExist]. On a file system without hard links, a
// crash may leave an empty file of that name.
func (p *Pending) Create() error {
	return p.place(func(from, to string) error {
		err := os.Link(from, to)
		if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
			return reserve(from, to)
		}
		return err
	})
}

// reserve gives a file a free name without a hard link: it creates the name first.
func reserve(from, to string) error {
	taken, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(taken.Close(), os.Rename(from, to)); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

func (p *Pending) place(bring func(from, to string) error) error {
	if err := errors.Join(p.Sync(), p.Close()); err != nil {
		return err
	}
	if err := bring(p.Name(), p.path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(p.path))
}

// Discard removes the file, unless it got its name.
func (p *Pending) Discard() {
	_ = p.Close()
	_ = os.Remove(p.Name())
}

// Replace writes content to a file at path and replaces the file that is there, as
// [Pending.Replace] does.
func Replace(path string, content []byte) error { return write(path, content, (*Pending).Replace) }

// Create writes content to a new file at path, as [Pending.Create] does. If path exists,
// the error is [fs.ErrExist].
func Create(path string, content []byte) error { return write(path, content, (*Pending).Create) }

func write(path string, content []byte, place func(*Pending) error) error {
	p, err := New(path)
	if err != nil {
		return err
	}
	defer p.Discard()
	if _, err := p.Write(content); err != nil {
		return err
	}
	return place(p)
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeFolder makes the folder at path with mode 0700, and those above it that are missing.
// It makes their names durable, so that a file made durable in the folder is found after a
// loss of power. A folder that exists may have been made a moment ago by a process that
// was killed: its name is made durable too. That needs the right to read the folder
// above; without the right, the name becomes durable when the system writes it.
func MakeFolder(path string) error {
	above := filepath.Dir(filepath.Clean(path))
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) && above != path {
		if err = MakeFolder(above); err == nil {
			err = os.Mkdir(path, 0o700)
		}
	}
	if err != nil { // a name that is taken by a folder is no error
		if info, failed := os.Stat(path); failed != nil || !info.IsDir() {
			return err
		}
		_ = SyncFolder(above) // this process made nothing
		return nil
	}
	if err := SyncFolder(above); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// Replaceable returns why the file at path may not be replaced, or nil. A path without a
// file may be used.
func Replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: it stays as it is", path)
	}
	return nil
}

// Lock keeps other programs that lock the file at path out until unlock is called. The file stays: if it were removed,
// one program could hold it while another locks a new file of that name.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
