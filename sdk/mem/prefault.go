package mem

import (
	"crypto/sha256"
	"hash"
	"sync"
	"sync/atomic"
)

const (
	// hashStep is how many bytes are hashed before the lock is released: a fraction of a
	// millisecond.
	hashStep = 256 << 10
	// prefaultStep is how much memory is prefaulted at a time, and prefaultAhead how far
	// ahead of the writer, in bytes. For a small buffer, a quarter of its content is far
	// enough.
	prefaultStep  = 2 << 20
	prefaultAhead = 4 << 20
	pageBytes     = 4 << 10
)

// background is work on a buffer that another processor does while content is appended. It
// prefaults the memory for the next content, which the kernel fills with zeros first, and
// hashes the content so far.
type background struct {
	appended atomic.Int64 // bytes that were appended in order, from the first on
	running  atomic.Bool

	mu         sync.Mutex // held while the memory is used here, and while the owner moves or frees it
	sum        hash.Hash  // hash of the first summed bytes; nil = none
	summed     int
	prefaulted int
	off        bool // content is changed in place, not appended
}

// WriteAt copies p to off and grows the buffer if needed. Content that is written in order
// is hashed in the background, see [Buffer.Hash]. From then on only WriteAt and Resize may
// change it.
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

// Hash returns the SHA-256 of the content. It hashes only what was not hashed in the
// background.
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

// startHash starts hashing in the background. Content must be appended from the first byte
// on.
func (b *Buffer) startHash() {
	b.background.mu.Lock()
	defer b.background.mu.Unlock()
	b.background.sum, b.background.summed = sha256.New(), 0
}

// forgetHash discards the hash, because content is about to change. inPlace means that no
// more content will be appended, so that hashing does not start again.
func (b *Buffer) forgetHash(inPlace bool) {
	a := &b.background
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum, a.summed, a.off = nil, 0, inPlace
	a.appended.Store(0)
}

// arrived reports that the content up to end is complete, and nothing follows it.
func (b *Buffer) arrived(end int64) {
	before := b.background.appended.Swap(end)
	if end/hashStep != before/hashStep && b.isOwn() && !b.background.running.Swap(true) {
		go b.work()
	}
}

func (b *Buffer) work() {
	for b.workStep() {
	}
}

// workStep does a small part of the work. It returns false if none is left; the next call
// of arrived starts the work again.
func (b *Buffer) workStep() bool {
	a := &b.background
	a.mu.Lock()
	defer a.mu.Unlock()
	come := int(a.appended.Load())
	if b.isOwn() && !a.off {
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
