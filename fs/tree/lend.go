package tree

import (
	"os"
	"time"

	"github.com/svcfs/svcfs/cache"
)

// Lending is how an open file is read when the kernel may read decrypted memory
// itself.
type Lending uint8

const (
	// LendNot: the file is read through the tree, and its pages may be cached.
	LendNot Lending = iota
	// LendMemory: the kernel reads the content itself.
	LendMemory
	// LendAround: others have the content lent, and this handle shows or makes
	// another; the kernel must ask for each read and write.
	LendAround
)

// lendRest is how long after the last handle was given up the kernel adapter may
// still hold on to what was lent.
const lendRest = time.Second

// lending is what of a file's content was lent to the kernel, which takes one
// content of an inode at a time, and only while nobody has its pages cached. By
// File.mu.
type lending struct {
	handles int          // opened since, and not given up
	memory  bool         // the first of them has the memory; else all go around
	content *cache.Lease // what was lent last; released once handles is 0
	ended   time.Time    // handles became 0
}

// Lend decides once, right after Open, how the kernel reads through h. With
// LendMemory it also returns a descriptor of the content, which the caller
// closes after Release. Whoever has the memory sees the content as it was when
// they opened the file: a change made later by this mount shows to those who open
// it after that change was closed.
func (h *Handle) Lend() (Lending, *os.File) {
	f := h.f
	if f.show != nil {
		return LendNot, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lent == nil {
		f.lent = &lending{}
	}
	l := f.lent
	fits := !h.flags.Write && !h.flags.Truncate && !h.direct && f.stage == nil && f.lease != nil
	resting := l.content != nil && time.Since(l.ended) < lendRest
	switch {
	case l.handles > 0 && (!fits || !l.memory || !l.content.Shows(f.lease)):
		return h.lend(LendAround), nil
	case l.handles == 0 && resting && (!fits || f.opens > 1 || !l.content.Shows(f.lease)):
		l.memory = false
		return h.lend(LendAround), nil
	case l.handles == 0 && (!fits || f.opens > 1):
		return LendNot, nil
	}
	memory, ok := f.lease.Share()
	if !ok && l.handles == 0 && !resting {
		return LendNot, nil
	}
	if l.handles == 0 {
		l.content, l.memory = f.lease.Again(), ok
	}
	if !ok || l.content == nil { // purged this moment
		if ok {
			_ = memory.Close()
		}
		l.memory = false
		return h.lend(LendAround), nil
	}
	return h.lend(LendMemory), memory
}

func (h *Handle) lend(how Lending) Lending {
	h.f.lent.handles++
	h.lent = true
	return how
}

// lendEnd counts h off and returns the lease to release, if any. Needs File.mu.
func (h *Handle) lendEnd() *cache.Lease {
	if !h.lent {
		return nil
	}
	l := h.f.lent
	h.lent = false
	if l.handles--; l.handles > 0 {
		return nil
	}
	l.ended = time.Now()
	return l.content
}
