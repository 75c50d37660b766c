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
	// spareArenas bounds the arenas without a buffer that a pool keeps for the next ones, of any size.
	spareArenas = 4
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
	arenas map[*arena]struct{} // that have buffers
	free   map[int][]*arena    // those of them with free cells, by size of the cells in bytes
	spare  [][]byte            // wiped arenas without a buffer
	kept   [][]byte            // wiped mappings of blocks, the oldest first
	closed bool
}

// arena is a mapping that buffers share. Its cells have one size.
type arena struct {
	mem  []byte
	next int      // where the cells begin that nobody had
	free [][]byte // wiped cells before
	out  int      // cells that buffers have
}

// isFull needs Pool.mu.
func (a *arena) isFull() bool { return len(a.free) == 0 && a.next == len(a.mem) }

// NewPool returns an empty pool.
func NewPool() *Pool {
	return &Pool{arenas: make(map[*arena]struct{}), free: make(map[int][]*arena)}
}

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
	for a := range p.arenas {
		p.spare = append(p.spare, a.mem)
	}
	p.arenas, p.free = nil, nil
	var first error
	for _, mem := range p.spare {
		if err := unmapMemory(mem); err != nil && first == nil {
			first = fmt.Errorf("unmap arena: %w", err)
		}
	}
	p.spare = nil
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

// cell returns a wiped cell and its arena.
func (p *Pool) cell(size int) (cell []byte, a *arena, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, fmt.Errorf("buffer pool is closed")
	}
	if last := len(p.free[size]) - 1; last >= 0 {
		a = p.free[size][last]
	} else if a, err = p.addArena(size); err != nil {
		return nil, nil, err
	}
	if last := len(a.free) - 1; last >= 0 {
		cell, a.free = a.free[last], a.free[:last]
	} else {
		cell = a.mem[a.next : a.next+size : a.next+size]
		a.next += size
	}
	a.out++
	if a.isFull() {
		p.free[size] = p.free[size][:len(p.free[size])-1]
	}
	return cell, a, nil
}

// addArena adds an arena with cells of size bytes. Needs Pool.mu.
func (p *Pool) addArena(size int) (*arena, error) {
	a := new(arena)
	if last := len(p.spare) - 1; last >= 0 {
		a.mem, p.spare = p.spare[last], p.spare[:last]
	} else {
		mem, err := mapMemory(arenaBytes)
		if err != nil {
			return nil, fmt.Errorf("map %d bytes: %w", arenaBytes, err)
		}
		a.mem = mem
	}
	p.arenas[a] = struct{}{}
	p.free[size] = append(p.free[size], a)
	return a, nil
}

// putCell takes a wiped cell back. An arena without a buffer serves buffers of any size, or returns to the system.
func (p *Pool) putCell(a *arena, cell []byte) {
	if over := p.takeBack(a, cell); over != nil {
		_ = unmapMemory(over)
	}
}

// takeBack is putCell, and returns what is to return to the system.
func (p *Pool) takeBack(a *arena, cell []byte) (over []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	size := len(cell)
	if a.isFull() {
		p.free[size] = append(p.free[size], a)
	}
	a.free = append(a.free, cell)
	if a.out--; a.out > 0 {
		return nil
	}
	at := slices.Index(p.free[size], a)
	p.free[size] = slices.Delete(p.free[size], at, at+1)
	delete(p.arenas, a)
	if len(p.spare) < spareArenas {
		p.spare = append(p.spare, a.mem)
		return nil
	}
	return a.mem
}

// Buffer is a resizable byte slice for the plaintext of one file, with room after it for
// the tag of AES-GCM, which seals in place. It is not safe for concurrent use. Its text
// form never shows content.
type Buffer struct {
	pool *Pool
	mem  []byte // whole cell or mapping; nil after Release
	in   *arena // of the cell; nil = mem is a mapping of its own
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
		cell, in, err := b.pool.cell(size)
		if err != nil {
			return err
		}
		b.replace(cell, in)
		return nil
	}
	if err := b.ask(need); err != nil {
		return err
	}
	if b.isOwn() {
		mem, err := remapMemory(b.mem, need)
		if err != nil {
			return fmt.Errorf("grow buffer to %d bytes: %w", need, err)
		}
		b.mem = mem
		return nil
	}
	if kept := b.pool.takeKept(need); kept != nil {
		b.replace(kept, nil)
		return nil
	}
	mem, err := mapMemory(need)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", need, err)
	}
	b.replace(mem, nil)
	return nil
}

func (b *Buffer) replace(mem []byte, in *arena) {
	copy(mem, b.mem[:b.size])
	b.drop()
	b.mem, b.in = mem, in
}

// isOwn reports whether the memory is a mapping of its own.
func (b *Buffer) isOwn() bool { return b.mem != nil && b.in == nil }

// drop wipes and frees the memory.
func (b *Buffer) drop() {
	if b.mem == nil {
		return
	}
	if b.isOwn() {
		b.pool.keep(b.mem)
	} else {
		clear(b.mem)
		b.pool.putCell(b.in, b.mem)
	}
	b.mem, b.in = nil, nil
}

// Release wipes the content and frees the memory. A second Release does nothing. No other
// method may be called after Release.
func (b *Buffer) Release() {
	b.background.mu.Lock()
	defer b.background.mu.Unlock()
	b.drop()
	b.size = 0
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
