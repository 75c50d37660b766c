package mem

import (
	"crypto/sha256"
	"hash"
	"sync"
	"sync/atomic"
)

const (
	// hashStep is how much is hashed before somebody else may have the buffer, in
	// bytes: a fraction of a millisecond.
	hashStep = 256 << 10
	// prefaultStep is how much memory is prefaulted at a time, and prefaultAhead how far
	// ahead of the writer, in bytes. A quarter of what there is already is enough for less than that.
	prefaultStep  = 2 << 20
	prefaultAhead = 4 << 20
	pageBytes     = 4 << 10
)

// background is work on a buffer that another processor does while content is
// appended: it takes memory for what comes next, which the kernel fills with zeros
// first, and hashes what has come.
type background struct {
	appended atomic.Int64 // bytes that came one after the other, from the first on
	running  atomic.Bool

	mu         sync.Mutex // held while the memory is used here, and by the owner while it is moved or taken away
	sum        hash.Hash  // of the first summed bytes; nil = there is none
	summed     int
	prefaulted int
	off        bool // content is not appended, but changed in place
}

// WriteAt writes p at off, and makes the buffer larger where needed. Content that
// is written from the first byte to the last is hashed meanwhile, see
// [Buffer.Hash]; once that was begun it may be changed by WriteAt and Resize only.
func (b *Buffer) WriteAt(p []byte, off int64) (n int, err error) {
	end := off + int64(len(p))
	if end > b.Len() {
		if err := b.Resize(end); err != nil {
			return 0, err
		}
	}
	if off < b.background.appended.Load() {
		b.forgetHash(true)
	}
	n = copy(b.mem[off:end], p)
	if off == b.background.appended.Load() && !b.background.off {
		if b.background.sum == nil {
			b.startHash()
		}
		b.arrived(end)
	}
	return n, nil
}

// Hash returns the SHA-256 of the content. What was hashed already while it was
// written is not hashed again.
func (b *Buffer) Hash() [sha256.Size]byte {
	a := &b.background
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sum == nil {
		return sha256.Sum256(b.Bytes())
	}
	_, _ = a.sum.Write(b.mem[a.summed:b.size]) // never fails
	a.summed = b.size
	a.appended.Store(int64(b.size))
	return [sha256.Size]byte(a.sum.Sum(nil))
}

// startHash makes arrived hash, too. Content arrives from the first byte on.
func (b *Buffer) startHash() {
	b.background.mu.Lock()
	defer b.background.mu.Unlock()
	b.background.sum, b.background.summed = sha256.New(), 0
}

// forgetHash ends hashing ahead, because what was hashed is about to change;
// inPlace = content is not appended any more, so that it does not begin again.
func (b *Buffer) forgetHash(inPlace bool) {
	a := &b.background
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum, a.summed, a.off = nil, 0, inPlace
	a.appended.Store(0)
}

// arrived tells that the content up to end is there, and nothing behind it.
func (b *Buffer) arrived(end int64) {
	before := b.background.appended.Swap(end)
	if end/hashStep != before/hashStep && b.own && !b.background.running.Swap(true) {
		go b.work()
	}
}

func (b *Buffer) work() {
	for b.workStep() {
	}
}

// workStep does a small part of the work; false = there is none left. The next
// arrival begins anew.
func (b *Buffer) workStep() bool {
	a := &b.background
	a.mu.Lock()
	defer a.mu.Unlock()
	come := int(a.appended.Load())
	if b.own && !a.off {
		a.prefaulted = max(a.prefaulted, come&^(prefaultStep-1))
		if until := min(come+min(prefaultAhead, come/4), len(b.mem)) &^ (pageBytes - 1); a.prefaulted < until {
			next := min(a.prefaulted+prefaultStep, until)
			prefault(b.mem[a.prefaulted:next])
			a.prefaulted = next
			return true
		}
		if a.sum != nil && come-a.summed >= hashStep {
			_, _ = a.sum.Write(b.mem[a.summed : a.summed+hashStep])
			a.summed += hashStep
			return true
		}
	}
	a.running.Store(false)
	return false
}
