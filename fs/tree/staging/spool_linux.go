package staging

import (
	"os"

	"golang.org/x/sys/unix"
)

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
