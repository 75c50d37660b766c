package blob

import (
	"os"

	"golang.org/x/sys/unix"
)

// beginFlush makes the disk begin to write n bytes from off, without waiting. It only
// saves time: the sync at the end reports errors.
func beginFlush(f *os.File, off, n int64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SyncFileRange(int(fd), off, n, unix.SYNC_FILE_RANGE_WRITE) })
}
