package tree

import (
	"os"
	"sync"

	"github.com/svcfs/svcfs/cache"
)

// Lending is how the kernel reads one of its inodes: from pages that it fills through the
// tree, or from memory that the tree lends. The first open decides, for as long as the
// kernel knows the inode: the kernel mixes the two in no inode, and maps lent memory for
// writers, too. An open that needs the other way is given another inode, see [File.Renew].
// The zero value is undecided.
type Lending struct {
	mu     sync.Mutex
	paged  bool
	memory *cache.Lease // the lent content, also once it is released; nil = none
}

// Page decides for pages. It reports false where memory was lent.
func (l *Lending) Page() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paged = l.memory == nil
	return l.paged
}

// Size returns the length of the lent content, if there is any.
func (l *Lending) Size() (size int64, lent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil {
		return 0, false
	}
	return l.memory.Len(), true
}

// Lend decides, right after Open, how the kernel reads through h. It returns a descriptor
// of lent memory, which the caller closes after Release, or nil where the kernel fills
// pages. Such a handle shows the content as it is now, whatever is saved later. stale: the inode
// was lent other content.
func (h *Handle) Lend(l *Lending) (memory *os.File, stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paged {
		return nil, false
	}
	memory, lease := h.lendable(l.memory)
	switch {
	case memory != nil:
		l.memory, h.lent = lease, lease
	case l.memory != nil:
		return nil, true
	default:
		l.paged = true
	}
	return memory, false
}

// lendable returns a descriptor of the committed content and a lease of it, where h
// only reads it, it has memory of its own, and no other content was lent before.
func (h *Handle) lendable(before *cache.Lease) (*os.File, *cache.Lease) {
	f := h.f
	if f.show != nil || h.flags.Write || h.flags.Truncate || h.direct || h.peeks {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage != nil || f.lease == nil {
		return nil, nil
	}
	if before == nil && f.paged.Load() || before != nil && !before.Shows(f.lease) {
		return nil, nil
	}
	lease := f.lease.Again()
	if lease == nil {
		return nil, nil
	}
	memory, ok := lease.Share()
	if !ok {
		lease.Release()
		return nil, nil
	}
	return memory, lease
}

// Renew makes the next look-up of the file show another inode than the one of
// generation seen, under the same number. paged: the file is not lent any more, because a
// program writes to it.
func (f *File) Renew(seen uint64, paged bool) {
	if paged {
		f.paged.Store(true)
	}
	if seen == f.gen {
		seen = 0
	}
	f.renewed.CompareAndSwap(seen, f.t.NewGeneration())
}

// NewGeneration returns a generation that no inode has.
func (t *Tree) NewGeneration() uint64 { return t.gens.Add(1) }

// generation tells the kernel's inodes of the file apart.
func (f *File) generation() uint64 {
	if g := f.renewed.Load(); g != 0 {
		return g
	}
	return f.gen
}
