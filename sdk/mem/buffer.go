// Package mem keeps the plaintext of files outside the Go heap. The memory is
// excluded from core dumps, and wiped before it is used again. A program that
// manages the memory of its files itself, such as the mount, passes buffers to
// [sdk.Group.Upload] and [sdk.Group.Retrieve]. Other programs need only the
// readers of package sdk.
package mem

import (
	"fmt"
	"slices"
	"sync"
)

const (
	// sealRoom is the room for the tag that AES-GCM appends, in bytes.
	sealRoom = 16
	// smallestCell and largestCell bound the cells that share an arena, in bytes. A larger
	// buffer has a mapping of its own. Small files share mappings, because the kernel
	// limits their number.
	smallestCell = 512
	largestCell  = 128 << 10
	arenaBytes   = 1 << 20
	// keptBytes bounds the mappings that a pool keeps for the next buffers of their size, in
	// bytes. Who reads a large file returns a block for each that it takes: a mapping that
	// the kernel makes anew for every block costs a page fault for every page.
	keptBytes = 16 * (256<<10 + sealRoom)
)

// Pool allocates buffers for plaintext. Their memory is outside the Go heap, excluded from
// core dumps, and wiped before it is used again or returned to the system. A Pool is safe
// for concurrent use. The zero value is not usable, see [NewPool].
type Pool struct {
	mu     sync.Mutex
	free   map[int][][]byte // wiped cells, by size in bytes
	arenas [][]byte
	kept   [][]byte // wiped mappings of blocks, the oldest first
	closed bool
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{free: make(map[int][][]byte)} }

// Get returns a buffer of size zero bytes. The caller owns the buffer until
// [Buffer.Release]. It fails if the system has no memory.
func (p *Pool) Get(size int64) (*Buffer, error) {
	b := &Buffer{pool: p}
	if err := b.Resize(size); err != nil {
		return nil, err
	}
	return b, nil
}

// Close returns the arenas to the system. All buffers must have been released.
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
	for _, mem := range p.kept {
		if err := unmapMemory(mem); err != nil && first == nil {
			first = fmt.Errorf("unmap kept memory: %w", err)
		}
	}
	p.kept = nil
	return first
}

// isKept reports whether a pool keeps mappings of size bytes: those of a block of a file,
// which has a power of two up to 1 MiB, and room for the tag.
func isKept(size int) bool {
	plain := size - sealRoom
	return plain > 0 && plain <= 1<<20 && plain&(plain-1) == 0
}

// takeKept returns a wiped mapping of size bytes, nil if there is none.
func (p *Pool) takeKept(size int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.kept) - 1; i >= 0; i-- {
		if mem := p.kept[i]; len(mem) == size {
			p.kept = slices.Delete(p.kept, i, i+1)
			return mem
		}
	}
	return nil
}

// keep wipes a mapping and keeps it, or returns it to the system.
func (p *Pool) keep(mem []byte) {
	if !isKept(len(mem)) || !p.isWanted(len(mem)) {
		_ = unmapMemory(mem) // the kernel zeroes pages before it maps them again
		return
	}
	clear(mem)
	p.mu.Lock()
	p.kept = append(p.kept, mem)
	most := keptBytes
	if p.closed {
		most = 0
	}
	var over [][]byte
	for held := p.heldBytes(); held > most; {
		over = append(over, p.kept[0])
		held -= len(p.kept[0])
		p.kept = slices.Delete(p.kept, 0, 1)
	}
	p.mu.Unlock()
	for _, mem := range over {
		_ = unmapMemory(mem)
	}
}

// isWanted reports whether there is room for a mapping of size bytes, or one of another size
// makes room.
func (p *Pool) isWanted(size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldBytes()+size <= keptBytes || len(p.kept[0]) != size
}

// heldBytes needs Pool.mu.
func (p *Pool) heldBytes() (sum int) {
	for _, mem := range p.kept {
		sum += len(mem)
	}
	return sum
}

// cellSize returns the cell size for need bytes, or 0 for a mapping of its own.
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

// cell returns a wiped cell.
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

// Buffer is a resizable byte slice for the plaintext of one file, with room after it for
// the tag of AES-GCM, which seals in place. It is not safe for concurrent use. Its text
// form never shows content.
type Buffer struct {
	pool *Pool
	mem  []byte // whole cell or mapping; nil after Release
	own  bool   // mem is a mapping of its own
	size int

	take  func(bytes int64) error // function of Within; may be nil
	taken int64                   // bytes that take has granted
	most  int64                   // expected largest length, in bytes; 0 = unknown

	background background
}

// FootprintOf returns the memory that a retrieved file of size bytes occupies, sealed or
// open, in bytes.
func FootprintOf(size int64) int64 {
	const page = 4096
	need := size + 2*sealRoom // the tag that came with it, and room for another
	if cell := cellSize(int(min(need, largestCell+1))); cell != 0 {
		return int64(cell)
	}
	return (need + page - 1) / page * page
}

// Within limits the memory of b. Before b maps memory of its own, it calls take with the
// number of bytes, and after it has freed that memory, with the negative number. take may
// block. Its error becomes the error of [Buffer.Resize]. A buffer of at most 128 KiB shares
// memory and does not call take. nil removes the limit.
func (b *Buffer) Within(take func(bytes int64) error) { b.take, b.taken = take, 0 }

// Expect sets the expected largest length, in bytes, so that a growing buffer takes no more
// memory than that needs. 0 means unknown.
func (b *Buffer) Expect(size int64) { b.most = size }

// Copy returns another buffer with the content of b and the limit of [Buffer.Within]. The
// caller releases it.
func (b *Buffer) Copy() (*Buffer, error) {
	c := &Buffer{pool: b.pool, take: b.take}
	if err := c.Resize(b.Len()); err != nil {
		return nil, err
	}
	copy(c.Bytes(), b.Bytes())
	return c, nil
}

// Changed must be called after a change of the content through [Buffer.Bytes]. It discards
// the hash of the earlier content.
func (b *Buffer) Changed() { b.forgetHash(true) }

// ask calls take for a total of need bytes.
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

// Len returns the length of the content, in bytes.
func (b *Buffer) Len() int64 { return int64(b.size) }

// Bytes returns the content itself, not a copy, with a capacity of 16 bytes more for
// sealing. The slice is valid until the next Resize or Release.
func (b *Buffer) Bytes() []byte {
	return b.mem[: b.size : b.size+sealRoom]
}

// Footprint returns the memory that the buffer occupies, in bytes.
func (b *Buffer) Footprint() int64 { return int64(len(b.mem)) }

// Resize sets the length of the content, in bytes. It wipes what it cuts off. Added bytes
// are zero. On error the buffer is unchanged.
func (b *Buffer) Resize(size int64) error {
	if size < 0 || size > maxBufferBytes {
		return fmt.Errorf("buffer of %d bytes: want 0 to %d", size, maxBufferBytes)
	}
	n := int(size)
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
		clear(b.mem[b.size : b.size+sealRoom]) // sealing may have left a tag
	}
	b.size = n
	return nil
}

// grow replaces the memory by at least need bytes and keeps the content. A growing buffer
// doubles its memory, so that appending takes linear time.
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
		mem, err := remapMemory(b.mem, need)
		if err != nil {
			return fmt.Errorf("grow buffer to %d bytes: %w", need, err)
		}
		b.mem = mem
		return nil
	}
	if kept := b.pool.takeKept(need); kept != nil {
		b.replace(kept, true)
		return nil
	}
	mem, err := mapMemory(need)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", need, err)
	}
	b.replace(mem, true)
	return nil
}

func (b *Buffer) replace(mem []byte, own bool) {
	copy(mem, b.mem[:b.size])
	b.drop()
	b.mem, b.own = mem, own
}

// drop wipes and frees the memory.
func (b *Buffer) drop() {
	if b.mem == nil {
		return
	}
	if b.own {
		b.pool.keep(b.mem)
	} else {
		clear(b.mem)
		b.pool.putCell(b.mem)
	}
	b.mem = nil
}

// Release wipes the content and frees the memory. A second Release does nothing. No other
// method may be called after Release.
func (b *Buffer) Release() {
	b.background.mu.Lock()
	defer b.background.mu.Unlock()
	b.drop()
	b.own, b.size = false, 0
	if b.take != nil && b.taken > 0 {
		_ = b.take(-b.taken) // returning memory cannot fail
		b.taken = 0
	}
}

// Format prints only the length, for every verb.
func (b *Buffer) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "buffer of %d bytes", b.size) }

const (
	// maxBufferBytes bounds one buffer. A file is one AES-GCM message, which has at most
	// 2^36-32 bytes (NIST SP 800-38D, section 5.2.1.1).
	maxBufferBytes = 1<<36 - 32
	// maxGrowAhead bounds how much memory a growing buffer takes in advance, in bytes.
	maxGrowAhead = 64 << 20
)
