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

// remapMemory grows a mapping to size bytes, moving it when needed.
func remapMemory(mem []byte, size int) ([]byte, error) {
	return unix.Mremap(mem, size, unix.MREMAP_MAYMOVE)
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }

func advise(mem []byte) error {
	if len(mem) >= hugePageBytes {
		// Only speed: a kernel without huge pages refuses, and that is fine.
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	return unix.Madvise(mem, unix.MADV_DONTDUMP)
}

// prefault makes the kernel provide the memory now. Only speed: where it cannot,
// it does so when the memory is first written to.
func prefault(mem []byte) { _ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE) }

// mapFile is mapMemory with a file of memory behind it, which never touches a
// disk. The file is sealed: nobody writes to it but through the mapping returned here.
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

// closeFile empties the file first: others may have it open.
func closeFile(file int) {
	_ = unix.Ftruncate(file, 0) // shrinking takes nothing that could be missing
	_ = unix.Close(file)
}

func duplicate(file int) (*os.File, bool) {
	fd, err := unix.FcntlInt(uintptr(file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	return os.NewFile(uintptr(fd), "svcfs"), true
}
