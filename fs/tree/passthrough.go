package tree

import (
	"os"
	"time"

	"github.com/svcfs/svcfs/cache"
)

// KernelReads is how the kernel reads an open file when it may read decrypted memory
// itself.
type KernelReads uint8

const (
	// ReadCached: through the tree, and pages may be cached.
	ReadCached KernelReads = iota
	// ReadMemory: the kernel reads the memory itself.
	ReadMemory
	// ReadDirect: the kernel reads other memory of the inode, and this handle shows or
	// makes other content; so each read and write asks the tree.
	ReadDirect
)

// passthroughRest is how long after the last handle was given up the kernel adapter may
// still hold on to the memory.
const passthroughRest = time.Second

// passthrough is the content of a file that the kernel reads itself: of an inode one at
// a time, and only while nobody has its pages cached. By content.mu.
type passthrough struct {
	handles int          // opened since, and not given up
	memory  bool         // the first of them reads the memory; else all read directly
	content *cache.Lease // of the memory; released once handles is 0
	ended   time.Time    // handles became 0
}

// reads decides how one more handle reads. fits: it only reads, and content is what is
// committed; alone: nobody else has the file open. Where the memory cannot be shared,
// without is how it reads instead.
func (p *passthrough) reads(fits, alone bool, content *cache.Lease) (how, without KernelReads) {
	busy := p.handles > 0
	resting := !busy && p.content != nil && time.Since(p.ended) < passthroughRest
	switch {
	case busy && fits && p.memory && p.content.Shows(content), resting && fits && alone && p.content.Shows(content):
		return ReadMemory, ReadDirect
	case busy, resting:
		return ReadDirect, ReadDirect
	case fits && alone:
		return ReadMemory, ReadCached
	default:
		return ReadCached, ReadCached
	}
}

// Passthrough decides once, right after Open, how the kernel reads through h. With
// ReadMemory it also returns a descriptor of the memory, which the caller closes
// after Release. Handles that read the memory see the content as it was when they were
// opened: a change made later by this mount shows to those that are opened after that
// change was closed.
func (h *Handle) Passthrough() (KernelReads, *os.File) {
	f := h.f
	if f.show != nil {
		return ReadCached, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.passed == nil {
		f.passed = &passthrough{}
	}
	p := f.passed
	fits := !h.flags.Write && !h.flags.Truncate && !h.direct && f.stage == nil && f.lease != nil
	how, without := p.reads(fits, f.opens == 1, f.lease)
	var memory *os.File
	if how == ReadMemory {
		if memory = p.share(f.lease); memory == nil {
			how = without
		}
	}
	if how == ReadCached {
		return ReadCached, nil
	}
	if p.handles == 0 {
		p.memory = how == ReadMemory
	}
	p.handles++
	h.passed = true
	return how, memory
}

// share returns a descriptor of the memory, nil where it has none of its own, or was
// taken away this moment.
func (p *passthrough) share(content *cache.Lease) *os.File {
	memory, ok := content.Share()
	if !ok {
		return nil
	}
	if p.handles > 0 {
		return memory
	}
	if p.content = content.Again(); p.content == nil {
		_ = memory.Close()
		return nil
	}
	return memory
}

// endPassthrough counts h off and returns the lease to release, if any. Needs
// content.mu.
func (h *Handle) endPassthrough() *cache.Lease {
	if !h.passed {
		return nil
	}
	h.passed = false
	p := h.f.passed
	if p.handles--; p.handles > 0 {
		return nil
	}
	p.ended = time.Now()
	return p.content
}
