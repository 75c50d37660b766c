//go:build !linux

package mem

// On systems other than Linux buffers are on the Go heap. Release wipes them.

func mapMemory(size int) ([]byte, error) { return make([]byte, size), nil }

func remapMemory(mem []byte, size int) ([]byte, error) {
	grown := make([]byte, size)
	copy(grown, mem)
	clear(mem)
	return grown, nil
}

func unmapMemory(mem []byte) error {
	clear(mem)
	return nil
}

func prefault([]byte) {}
