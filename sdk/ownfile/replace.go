package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Pending is a file, mode 0600, that gets the name it is meant for when all is in it:
// after a crash there is what was there before or the new file, whole. Only a file is
// replaced; what else is there, such as a link or a device, stays, and is an error
// when the name is given.
type Pending struct {
	*os.File
	path string
}

// New makes a file that is to have the name path. The caller discards it in every
// case; one that got its name stays.
func New(path string) (*Pending, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return nil, err
	}
	return &Pending{f, path}, nil
}

// Replace makes the file durable and gives it its name; a file of that name is gone.
func (p *Pending) Replace() error {
	return p.place(func(from, to string) error {
		if err := Replaceable(to); err != nil {
			return err
		}
		return os.Rename(from, to)
	})
}

// Create makes the file durable and gives it its name, unless there is anything of
// that name, also a link or a folder: [fs.ErrExist]. Where the file system has no hard
// links, a crash may leave an empty file of that name.
func (p *Pending) Create() error {
	return p.place(func(from, to string) error {
		err := os.Link(from, to)
		if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
			return reserve(from, to)
		}
		return err
	})
}

// reserve gives a file a name that is free, without a hard link: it takes the name first.
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

// Discard removes what has no name of its own.
func (p *Pending) Discard() {
	_ = p.Close()
	_ = os.Remove(p.Name())
}

// Replace puts content in the place of the file at path, as [Pending.Replace] does.
func Replace(path string, content []byte) error { return write(path, content, (*Pending).Replace) }

// Create puts content at path, unless there is anything, as [Pending.Create] does:
// [fs.ErrExist].
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

// SyncFolder makes names in a folder durable.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Replaceable tells why what is at path may not be replaced; a path where nothing is
// may be taken.
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
