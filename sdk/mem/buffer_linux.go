package mem

import (
	"os"

	"golang.org/x/sys/unix"
)

const hugePageBytes = 2 << 20

// mapMemory returns size zero bytes outside the Go heap and outside core dumps.
func mapMemory(size int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	if err := advise(mem); err != nil {
		_ = unix.Munmap(mem)
		return nil, err
	}
	return mem, nil
}

// remapMemory resizes a mapping to size bytes, and may move it.
func remapMemory(mem []byte, size int) ([]byte, error) {
	return unix.Mremap(mem, size, unix.MREMAP_MAYMOVE)
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }

func advise(mem []byte) error {
	if len(mem) >= hugePageBytes {
		// A kernel without huge pages refuses, which costs speed only.
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	return unix.Madvise(mem, unix.MADV_DONTDUMP)
}

// prefault asks the kernel for the memory now. A kernel that cannot provides it at the
// first write, which costs speed only.
func prefault(mem []byte) { _ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE) }

// mapFile is mapMemory with a file in memory behind it, which never touches a disk. The
// file is sealed: only the returned mapping can write to it.
func mapFile(size int) (mem []byte, file int, err error) {
	file, err = unix.MemfdCreate("svcfs", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, err
	}
	if err = resizeFile(file, size); err == nil {
		mem, err = unix.Mmap(file, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		if _, err = unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); err == nil {
			err = advise(mem)
		}
		if err != nil {
			_ = unix.Munmap(mem)
		}
	}
	if err != nil {
		_ = unix.Close(file)
		return nil, -1, err
	}
	return mem, file, nil
}

func resizeFile(file, size int) error { return unix.Ftruncate(file, int64(size)) }

// closeFile empties the file before it closes it, because others may have the file open.
func closeFile(file int) {
	_ = unix.Ftruncate(file, 0) // shrinking needs no memory, and cannot fail
	_ = unix.Close(file)
}

func duplicate(file int) (*os.File, bool) {
	fd, err := unix.FcntlInt(uintptr(file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	return os.NewFile(uintptr(fd), "svcfs"), true
}
