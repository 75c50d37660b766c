package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// wholePrefix begins the names of files that are being written.
const wholePrefix = ".svcfs-get-"

// wholeFiles writes files below dir that appear complete (mode 0600) or not at
// all. What is being written has no name where the file system can do that
// (O_TMPFILE); elsewhere, and for the moment in which an older file is replaced,
// it has a temporary one, locked by the process that writes. Those of a process
// that was killed are removed by the next write into the same folder. The names are
// durable after sync. It is safe for concurrent use.
type wholeFiles struct {
	dir     *os.Root
	named   bool // do without O_TMPFILE
	mu      sync.Mutex
	folders map[string]bool // in which something was made; false = not looked through
}

// write makes path hold content, with some marks, or leaves it as it was. A file that is there is
// replaced only if replace is set; else the error is [os.ErrExist].
func (w *wholeFiles) write(path string, content io.WriterTo, as marks, replace bool) error {
	folder, err := w.dir.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := w.clean(folder, filepath.Dir(path)); err != nil {
		return err
	}
	f, name, err := w.create(int(folder.Fd()))
	if err != nil {
		return fmt.Errorf("create a temporary file: %w", err)
	}
	defer f.Close()
	if err := writeSynced(f, content, as); err != nil {
		discard(folder, name)
		return err
	}
	if name == "" {
		if name, err = publish(int(folder.Fd()), f, filepath.Base(path), replace); name == "" {
			return err
		}
	}
	if err := rename(int(folder.Fd()), name, filepath.Base(path), replace); err != nil {
		discard(folder, name)
		return &os.PathError{Op: "rename", Path: path, Err: err}
	}
	return nil
}

// rename gives a file of a folder another name. Where the file system cannot refuse
// to replace, looking before has to do.
func rename(folder int, from, to string, replace bool) error {
	if replace {
		return unix.Renameat(folder, from, folder, to)
	}
	err := unix.Renameat2(folder, from, folder, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if err := unix.Faccessat(folder, to, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
		return unix.EEXIST
	}
	return unix.Renameat(folder, from, folder, to)
}

func writeSynced(f *os.File, content io.WriterTo, as marks) error {
	if _, err := content.WriteTo(f); err != nil {
		return err
	}
	if as.executable {
		if err := f.Chmod(0o700); err != nil {
			return err
		}
	}
	if !as.modTime.IsZero() {
		if err := os.Chtimes(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), time.Time{}, as.modTime); err != nil {
			return fmt.Errorf("set the time: %w", err)
		}
	}
	return f.Sync()
}

// link makes path a symbolic link, or leaves it as it was. What is there, and is no folder,
// is replaced only if replace is set; else the error is [os.ErrExist].
func (w *wholeFiles) link(path, target string, replace bool) error {
	err := w.dir.Symlink(target, path)
	if replace && errors.Is(err, os.ErrExist) {
		name := filepath.Join(filepath.Dir(path), wholePrefix+rand.Text())
		if err = w.dir.Symlink(target, name); err != nil {
			return err
		}
		if err = w.dir.Rename(name, path); err != nil {
			_ = w.dir.Remove(name)
		}
	}
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.made(filepath.Dir(path), false)
	}
	return err
}

// discard removes a temporary name; an anonymous file has none.
func discard(folder *os.File, name string) {
	if name != "" {
		_ = unix.Unlinkat(int(folder.Fd()), name, 0)
	}
}

// create makes a locked file in a folder: one without a name, or with the name
// it returns.
func (w *wholeFiles) create(folder int) (*os.File, string, error) {
	if !w.named {
		fd, err := unix.Openat(folder, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err == nil {
			return lockWhole(fd), "", nil
		}
		if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) &&
			!errors.Is(err, unix.ENOENT) {
			return nil, "", err
		}
	}
	const attempts = 3 // another process may take a file for abandoned before it is locked
	for range attempts {
		name := wholePrefix + rand.Text()
		fd, err := unix.Openat(folder, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW,
			0o600)
		if err != nil {
			return nil, "", err
		}
		f := lockWhole(fd)
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err == nil && stat.Nlink > 0 {
			return f, name, nil
		}
		_ = f.Close()
	}
	return nil, "", errors.New("another process removes it")
}

// lockWhole marks a file as being written. A file system without locks marks
// nothing, and nothing is removed from it either.
func lockWhole(fd int) *os.File {
	_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	return os.NewFile(uintptr(fd), "temporary file")
}

// publish gives a file without a name the name wanted. When there is a file of that
// name, and it is to be replaced, it gives it a temporary one, which it returns.
func publish(folder int, f *os.File, wanted string, replace bool) (temporary string, err error) {
	self := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	err = unix.Linkat(unix.AT_FDCWD, self, folder, wanted, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.EEXIST) && replace {
		temporary = wholePrefix + rand.Text()
		err = unix.Linkat(unix.AT_FDCWD, self, folder, temporary, unix.AT_SYMLINK_FOLLOW)
	}
	if err != nil {
		return "", &os.PathError{Op: "link", Path: wanted, Err: err}
	}
	return temporary, nil
}

// clean removes what killed processes left in a folder, once for each folder.
func (w *wholeFiles) clean(folder *os.File, path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.folders[path] {
		return nil
	}
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, wholePrefix) {
			removeAbandoned(int(folder.Fd()), name)
		}
	}
	w.made(path, true)
	return nil
}

// made notes a folder in which something was made. It is called with the lock.
func (w *wholeFiles) made(path string, isClean bool) {
	if w.folders == nil {
		w.folders = make(map[string]bool)
	}
	w.folders[path] = w.folders[path] || isClean
}

// sync makes the names durable that were made, and those of the folders above them. That needs the right to read a
// folder: without it, the system does so later.
func (w *wholeFiles) sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	synced := make(map[string]bool)
	for at := range w.folders {
		for ; !synced[at]; at = filepath.Dir(at) {
			folder, err := w.dir.Open(at)
			if err == nil {
				err = errors.Join(folder.Sync(), folder.Close())
			}
			if err != nil && !errors.Is(err, os.ErrPermission) {
				return err
			}
			synced[at] = true
		}
	}
	return nil
}

// removeAbandoned removes a temporary file that nobody has locked.
func removeAbandoned(folder int, name string) {
	fd, err := unix.Openat(folder, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = unix.Unlinkat(folder, name, 0)
	}
}
