package locked

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocate returns n bytes that share their pages with nothing else, locked if the limit
// allows it. The garbage collector owns them and moves nothing, so that a slice of them
// stays valid.
func allocate(n int) []byte {
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	block := make([]byte, size+page)
	first := &block[0]
	start := page - int(uintptr(unsafe.Pointer(first))%uintptr(page)) // #nosec G103 -- only to find where a page begins
	pages := block[start : start+size : start+size]
	_ = unix.Mlock(pages) // beyond the limit they stay unlocked; svcfs doctor reports the limit
	runtime.SetFinalizer(first, func(first *byte) {
		pages := unsafe.Slice(first, size+page)[start : start+size] // #nosec G103 -- the block that was allocated above
		clear(pages)
		_ = unix.Munlock(pages)
	})
	return pages[:n:n]
}
