package space

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// heldFile is real bytes in the data directory. The reserve of a [Keeper] is only what uploads
	// leave free, and another program can take it. This file is the service's own to give up.
	heldFile = "held-back"
	// maxHeld is the size of heldFile, in bytes; on a small disk it is a quarter of the reserve.
	maxHeld = 16 << 20
	// heldPieces: the file is given up piece by piece, because the other program may go on.
	heldPieces = 8
)

// heldBytes is the size of heldFile on a disk.
func heldBytes(disk int64) int64 {
	if disk < 0 {
		return maxHeld
	}
	return min(maxHeld, disk/ReserveShare/4)
}

// HoldBack makes the file that GiveUp takes pieces of, where the disk of dir has twice its size. It
// does nothing when the file is whole.
func HoldBack(dir string) error {
	free, size := look(dir)
	bytes := heldBytes(size)
	file := filepath.Join(dir, heldFile)
	if info, err := os.Stat(file); err == nil && info.Size() >= bytes || free < 2*bytes {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("hold back space: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, bytes))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(file)
		return fmt.Errorf("hold back space: %w", err)
	}
	return nil
}

// GiveUp gives a piece of what is held back in dir to the disk, and reports whether there was any.
func GiveUp(dir string) bool {
	_, size := look(dir)
	file := filepath.Join(dir, heldFile)
	info, err := os.Stat(file)
	if err != nil || info.Size() == 0 {
		return false
	}
	return os.Truncate(file, max(0, info.Size()-max(1, heldBytes(size)/heldPieces))) == nil
}

// IsFull reports that err is that of a disk without room.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
