package outbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// disk is a folder of files. What was written counts after sync only, and names count after
// syncNames only: a loss of power may take everything else, in any part.
type disk interface {
	// names lists the files.
	names() ([]string, error)
	// create makes a new file; one of that name is an error.
	create(name string) (newFile, error)
	// extend opens a file to write behind its end, made if it is not there.
	extend(name string) (newFile, error)
	open(name string) (oldFile, error)
	rename(from, to string) error
	remove(name string) error
	syncNames() error
	// free returns the bytes that may still be written.
	free() (int64, error)
}

// isEnd reports whether a read ended with its file.
func isEnd(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

type newFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

type oldFile interface {
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

// folder is a disk in a folder of the system, that this account's user alone may enter.
type folder struct {
	root   *os.Root
	path   string
	dir    *atomic.Int32 // descriptor of the folder, -1 once it is closed
	locked *int          // descriptor of the lock, -1 = none
}

func openFolder(path string) (folder, error) {
	if err := ownfile.MakeFolder(path); err != nil {
		return folder{}, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return folder{}, err
	}
	info, err := root.Stat(".")
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = errors.New("other users may enter " + path + ": run: chmod 700 " + path)
	}
	if err != nil {
		return folder{}, errors.Join(err, root.Close())
	}
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return folder{}, errors.Join(err, root.Close())
	}
	none := -1
	f := folder{root, path, new(atomic.Int32), &none}
	f.dir.Store(int32(dir))
	return f, nil
}

func (f folder) descriptor() int { return int(f.dir.Load()) }

// ErrTaken: another process has the outbox.
var ErrTaken = errors.New("another mount of this account has the outbox")

const lockName = "lock"

// lock keeps other processes out until the process ends.
func (f folder) lock() error {
	fd, err := unix.Openat(f.descriptor(), lockName, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("lock the outbox: %w", err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		if err == unix.EWOULDBLOCK {
			return ErrTaken
		}
		return fmt.Errorf("lock the outbox: %w", err)
	}
	*f.locked = fd
	return nil
}

func (f folder) close() error {
	if *f.locked >= 0 {
		_ = unix.Close(*f.locked)
		*f.locked = -1
	}
	return errors.Join(f.root.Close(), unix.Close(int(f.dir.Swap(-1))))
}

func (f folder) names() ([]string, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

func (f folder) create(name string) (newFile, error) {
	return f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (f folder) extend(name string) (newFile, error) {
	return f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// open takes a tenth of the time of os.Root.Open, which counts with 100,000 items. Names are those
// that this package made.
func (f folder) open(name string) (oldFile, error) {
	fd, err := unix.Openat(f.descriptor(), name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == unix.ELOOP || err == unix.ENXIO {
		return nil, errDamaged // a link, a socket
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG { // a pipe would never end
		return nil, errors.Join(errDamaged, err, unix.Close(fd))
	}
	return plainFile(fd), nil
}

// plainFile is a descriptor of a regular file.
type plainFile int

func (f plainFile) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		k, err := unix.Pread(int(f), p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err == unix.EIO: // of this part of the disk: others can be read
			return n, errDamaged
		case err != nil:
			return n, err
		case k == 0:
			return n, io.EOF
		default:
			n += k
		}
	}
	return n, nil
}

func (f plainFile) Size() (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f), &st)
	return st.Size, err
}

func (f plainFile) Close() error { return unix.Close(int(f)) }

func (f folder) rename(from, to string) error { return f.root.Rename(from, to) }

func (f folder) remove(name string) error { return f.root.Remove(name) }

func (f folder) syncNames() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f folder) free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(f.path, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}
