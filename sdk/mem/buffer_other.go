//go:build !linux

package mem

import (
	"errors"
	"os"
)

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

func mapFile(int) ([]byte, int, error) { return nil, -1, errors.ErrUnsupported }

func resizeFile(int, int) error { return errors.ErrUnsupported }

func closeFile(int) {}

func duplicate(int) (*os.File, bool) { return nil, false }
