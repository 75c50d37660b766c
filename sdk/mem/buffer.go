// Package mem holds the plaintext of files outside the Go heap: left out of core
// dumps, and wiped before it is used again. A program that manages the memory of its
// files itself, as the mount does, gives such buffers to [sdk.Group.Upload] and
// [sdk.Group.Retrieve]; any other needs only the readers of package sdk.
package mem

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

const (
	// sealRoom is what AES-GCM appends when a buffer is sealed in place, in bytes.
	sealRoom = 16
	// smallestCell and largestCell bound the cells that share an arena, in
	// bytes; larger buffers have a mapping of their own, so that a cache full of
	// small files does not use up the kernel's limit of mappings.
	smallestCell = 512
	largestCell  = 128 << 10
	arenaBytes   = 1 << 20
)

// Pool hands out buffers for plaintext. Their memory lies outside the Go heap,
// is left out of core dumps and is wiped before it is used again or returned to
// the system. A Pool is safe for concurrent use; the zero value is not usable.
type Pool struct {
	mu     sync.Mutex
	free   map[int][][]byte // by cell size; wiped
	arenas [][]byte
	closed bool
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{free: make(map[int][][]byte)} }

// Get returns a buffer whose content is size bytes, all zero, which the caller
// owns until [Buffer.Release]. It fails when the system has no memory for it.
func (p *Pool) Get(size int64) (*Buffer, error) { return p.get(size, false) }

// GetShared is [Pool.Get] for content that others will read: [Buffer.Share] works
// once the buffer is large enough for a mapping of its own, where the system can.
// Such memory is slower to fill: few systems give it huge pages.
func (p *Pool) GetShared(size int64) (*Buffer, error) { return p.get(size, true) }

func (p *Pool) get(size int64, shared bool) (*Buffer, error) {
	b := &Buffer{pool: p, file: -1, shared: shared}
	if err := b.Resize(size); err != nil {
		return nil, err
	}
	return b, nil
}

// Close returns the arenas to the system. Every buffer must have been released.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.free = nil
	var first error
	for _, arena := range p.arenas {
		if err := unmapMemory(arena); err != nil && first == nil {
			first = fmt.Errorf("unmap arena: %w", err)
		}
	}
	p.arenas = nil
	return first
}

// cellSize returns the size class for need bytes, or 0 when it wants a mapping
// of its own.
func cellSize(need int) int {
	if need > largestCell {
		return 0
	}
	size := smallestCell
	for size < need {
		size *= 2
	}
	return size
}

// cell returns wiped memory of the size class.
func (p *Pool) cell(size int) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("buffer pool is closed")
	}
	if len(p.free[size]) == 0 {
		arena, err := mapMemory(arenaBytes)
		if err != nil {
			return nil, fmt.Errorf("map %d bytes: %w", arenaBytes, err)
		}
		p.arenas = append(p.arenas, arena)
		for at := 0; at < arenaBytes; at += size {
			p.free[size] = append(p.free[size], arena[at:at+size:at+size])
		}
	}
	cells := p.free[size]
	last := len(cells) - 1
	p.free[size] = cells[:last]
	return cells[last], nil
}

func (p *Pool) putCell(cell []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free != nil {
		p.free[cap(cell)] = append(p.free[cap(cell)], cell)
	}
}

// Buffer is a resizable run of bytes for one file's plaintext, with room behind
// it so that AES-GCM seals in place. It is not safe for concurrent use: its
// owner serialises. Its text form never shows content.
type Buffer struct {
	pool *Pool
	mem  []byte // whole cell or mapping; nil after Release
	own  bool   // mem is a mapping of its own
	file int    // descriptor behind mem, which closes with it; -1 = none
	size int

	shared bool // a mapping of its own shall have a file behind it

	take  func(bytes int64) error // see Within; may be nil
	taken int64                   // what it was asked for, bytes
	most  int64                   // length that is not expected to be exceeded; 0 = not known

	cut atomic.Bool // the file ends with the content

	background background
}

// FootprintOf tells the memory that a file of a known size occupies once it is
// retrieved, sealed or open, in bytes.
func FootprintOf(size int64) int64 {
	const page = 4096
	need := size + 2*sealRoom // it comes with a tag, and with room to seal it again
	if cell := cellSize(int(min(need, largestCell+1))); cell != 0 {
		return int64(cell)
	}
	return (need + page - 1) / page * page
}

// Within makes b ask take before it maps memory of its own, in bytes, and tell it
// with a negative number what it has given back. take may wait; its error is that of
// [Buffer.Resize]. Buffers of at most 128 KiB share memory, and do not ask. nil ends it.
func (b *Buffer) Within(take func(bytes int64) error) { b.take, b.taken = take, 0 }

// Expect tells the length that is not expected to be exceeded, so that no more is taken
// than that needs; 0 ends it.
func (b *Buffer) Expect(size int64) { b.most = size }

// Copy returns a buffer of its own with the content of b, within the same bounds. The
// caller releases it.
func (b *Buffer) Copy() (*Buffer, error) {
	c := &Buffer{pool: b.pool, file: -1, take: b.take}
	if err := c.Resize(b.Len()); err != nil {
		return nil, err
	}
	copy(c.Bytes(), b.Bytes())
	return c, nil
}

// Changed tells that the content was changed by somebody who has [Buffer.Bytes], so
// that what was hashed before is forgotten.
func (b *Buffer) Changed() { b.forgetHash(true) }

// ask takes room for memory of need bytes in all.
func (b *Buffer) ask(need int) error {
	more := int64(need) - b.taken
	if b.take == nil || more <= 0 {
		return nil
	}
	if err := b.take(more); err != nil {
		return err
	}
	b.taken += more
	return nil
}

// Len returns the content's length in bytes.
func (b *Buffer) Len() int64 { return int64(b.size) }

// Bytes returns the content, with a capacity of 16 bytes more for sealing. The
// slice is valid until the next Resize or Release and belongs to the buffer.
func (b *Buffer) Bytes() []byte {
	return b.mem[: b.size : b.size+sealRoom]
}

// Footprint returns the memory the buffer occupies, in bytes.
func (b *Buffer) Footprint() int64 { return int64(len(b.mem)) }

// Resize sets the content's length to size bytes. What is cut off is wiped;
// what is added reads as zero. On error the buffer is unchanged.
func (b *Buffer) Resize(size int64) error {
	if size < 0 || size > maxBufferBytes {
		return fmt.Errorf("buffer of %d bytes: want 0 to %d", size, maxBufferBytes)
	}
	n := int(size)
	if b.cut.Load() {
		if err := resizeFile(b.file, len(b.mem)); err != nil {
			return fmt.Errorf("resize shared buffer: %w", err)
		}
		b.cut.Store(false)
	}
	if n < int(b.background.appended.Load()) || n == 0 {
		b.forgetHash(n > 0)
	}
	if b.mem == nil || n+sealRoom > len(b.mem) {
		if err := b.grow(n + sealRoom); err != nil {
			return err
		}
	}
	if n < b.size {
		clear(b.mem[n : b.size+sealRoom])
	} else {
		clear(b.mem[b.size : b.size+sealRoom]) // a tag left by sealing
	}
	b.size = n
	return nil
}

// grow replaces the memory by at least need bytes, keeping the content. A
// buffer that outgrows its memory doubles, so that appending is linear.
func (b *Buffer) grow(need int) error {
	b.background.mu.Lock()
	defer b.background.mu.Unlock()
	if b.mem != nil {
		ahead := min(2*len(b.mem), need+maxGrowAhead)
		if b.most > 0 {
			ahead = min(ahead, int(FootprintOf(b.most)))
		}
		need = max(need, ahead)
	}
	if size := cellSize(need); size != 0 {
		cell, err := b.pool.cell(size)
		if err != nil {
			return err
		}
		b.replace(cell, false)
		return nil
	}
	if err := b.ask(need); err != nil {
		return err
	}
	if b.own {
		if b.file >= 0 {
			if err := resizeFile(b.file, need); err != nil {
				return fmt.Errorf("grow buffer to %d bytes: %w", need, err)
			}
		}
		mem, err := remapMemory(b.mem, need)
		if err != nil {
			return fmt.Errorf("grow buffer to %d bytes: %w", need, err)
		}
		b.mem = mem
		return nil
	}
	mem, file, err := mapping(need, b.shared)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", need, err)
	}
	b.replace(mem, true)
	b.file = file
	return nil
}

// mapping returns memory of its own and the file behind it, -1 when it has none.
func mapping(size int, shared bool) (mem []byte, file int, err error) {
	if shared {
		if mem, file, err = mapFile(size); err == nil {
			return mem, file, nil
		}
	}
	mem, err = mapMemory(size)
	return mem, -1, err
}

// Share returns a new descriptor of memory that holds exactly the content, which
// the caller closes; false where there is none. Release empties the file whoever
// else has it. Until then the content may not be changed.
func (b *Buffer) Share() (*os.File, bool) {
	if b.mem == nil || b.file < 0 {
		return nil, false
	}
	if !b.cut.Load() {
		if resizeFile(b.file, b.size) != nil {
			return nil, false
		}
		b.cut.Store(true)
	}
	return duplicate(b.file)
}

func (b *Buffer) replace(mem []byte, own bool) {
	copy(mem, b.mem[:b.size])
	b.drop()
	b.mem, b.own = mem, own
}

// drop wipes the memory and gives it back.
func (b *Buffer) drop() {
	if b.mem == nil {
		return
	}
	if b.file >= 0 {
		closeFile(b.file)
		b.file = -1
		b.cut.Store(false)
	}
	if b.own {
		_ = unmapMemory(b.mem) // the kernel zeroes pages before anybody gets them again
	} else {
		clear(b.mem)
		b.pool.putCell(b.mem)
	}
	b.mem = nil
}

// Release wipes the content and gives the memory back. Releasing twice is
// allowed; any other use after Release is not.
func (b *Buffer) Release() {
	b.background.mu.Lock()
	defer b.background.mu.Unlock()
	b.drop()
	b.own, b.size = false, 0
	if b.take != nil && b.taken > 0 {
		_ = b.take(-b.taken) // giving back cannot fail
		b.taken = 0
	}
}

// Format prints the length only, whatever the verb.
func (b *Buffer) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "buffer of %d bytes", b.size) }

const (
	// maxBufferBytes bounds one buffer: a file is one AES-GCM message, which may
	// not exceed 2^36-32 bytes (NIST SP 800-38D, section 5.2.1.1).
	maxBufferBytes = 1<<36 - 32
	// maxGrowAhead bounds how much a growing buffer takes in advance, in bytes.
	maxGrowAhead = 64 << 20
)
