package mem

import "golang.org/x/sys/unix"

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
