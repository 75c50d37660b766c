package staging

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nameless makes a file without a name. Where the filesystem cannot, the file has a name until
// it is open.
func nameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "spool"), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) {
		return nil, os.NewSyscallError("open", err)
	}
	return unnamed(dir)
}

// punch frees the disk behind a range, which is not read before it is written again.
func punch(f *os.File, at, n int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
}

// FreeBytes returns how much disk is free for this user where a folder lies, in bytes.
func FreeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(min(s.Bavail, 1<<40)) * s.Bsize, nil
}
