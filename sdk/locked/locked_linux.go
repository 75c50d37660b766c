package locked

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocate returns n bytes that share their pages with nothing else, locked if the
// limit allows it. They belong to the garbage collector, which moves nothing: a slice
// of them is never one of memory that is gone.
func allocate(n int) []byte {
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	block := make([]byte, size+page)
	first := &block[0]
	start := page - int(uintptr(unsafe.Pointer(first))%uintptr(page)) // #nosec G103 -- only to find where a page begins
	pages := block[start : start+size : start+size]
	if unix.Mlock(pages) != nil {
		return pages[:n:n] // doctor tells of the limit
	}
	runtime.SetFinalizer(first, func(first *byte) {
		pages := unsafe.Slice(first, size+page)[start : start+size] // #nosec G103 -- the block that was allocated above
		clear(pages)
		_ = unix.Munlock(pages)
	})
	return pages[:n:n]
}
