package staging

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"hash"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Content is the content of one file that programs change. It may stand on a base, the content
// that was recorded before: blocks that nobody changed are not here, and the owner fetches the
// ones that a change needs ([Content.Missing], [Content.Fetched]). It is safe for concurrent
// use.
type Content struct {
	store   *Store
	working sync.WaitGroup // background hashing

	mu       sync.Mutex
	released bool
	size     int64
	whole    *mem.Buffer // nil once it is cut into blocks
	uncut    bool        // it never is
	reserved int64       // memory of whole

	blockBytes int64
	base       format.Layout // Size 0 = none
	based      int64         // leading blocks that are those of base, unless they are local
	local      map[int64]*block
	ends       block // of the ring of blocks in memory: next is the oldest
	inMemory   int64
	changes    int64              // local blocks that differ from base
	turn       uint64             // counts changes
	elsewhere  map[int64]struct{} // blocks that are not local and were sent
	recent     [2]int64           // parts that were written last, the latest first
	offered    map[int64]struct{} // parts that were once in rested, since the upload began
	rested     []int64
	lastRead   lastRead
	sum        running
}

// block is a block that is here.
type block struct {
	index      int64
	buf        *mem.Buffer // nil: in the spool
	at         place
	turn       uint64 // of the content of buf, or of the spool
	spooled    uint64 // turn of what the place holds
	sent       uint64 // turn of what was sent
	same       bool   // as in base
	pinned     bool
	prev, next *block
}

// lastRead is the block that was read from the spool last.
type lastRead struct {
	buf   *mem.Buffer
	index int64
	turn  uint64
}

// running is the hash of the content so far.
type running struct {
	hash hash.Hash
	done int64 // bytes
	off  bool  // content that was hashed changed
	busy bool
}

// New returns empty content.
func (s *Store) New() (*Content, error) {
	c := s.content()
	var err error
	if c.whole, err = s.opt.Pool.Get(0); err != nil {
		return nil, err
	}
	return c, nil
}

// NewWhole returns empty content that is never cut into blocks.
func (s *Store) NewWhole() (*Content, error) {
	c, err := s.New()
	if err == nil {
		c.uncut = true
	}
	return c, err
}

// NewOn returns content that equals a base, of which nothing is here.
func (s *Store) NewOn(base format.Layout) *Content {
	c := s.content()
	c.base, c.based, c.size, c.blockBytes = base, base.Blocks(), base.Size, base.BlockBytes
	c.cut()
	return c
}

func (s *Store) content() *Content {
	return &Content{store: s, blockBytes: s.opt.BlockBytes, recent: [2]int64{-1, -1}}
}

// cut prepares c for blocks.
func (c *Content) cut() {
	c.sum = running{busy: c.sum.busy}
	c.local, c.elsewhere = make(map[int64]*block), make(map[int64]struct{})
	if c.offered == nil { // else the upload that has the parts goes on
		c.offered = make(map[int64]struct{})
	}
	c.ends.next, c.ends.prev = &c.ends, &c.ends
}

// ErrReleased is the error of content that was released.
var ErrReleased = errors.New("the staged content was released")

// Release wipes the content and frees what it holds. A second Release does nothing.
func (c *Content) Release() {
	c.mu.Lock()
	c.release()
	c.mu.Unlock()
	c.working.Wait()
}

func (c *Content) release() {
	if c.released {
		return
	}
	c.released = true
	if c.whole != nil {
		c.whole.Release()
		c.store.give(c.reserved)
		c.whole = nil
		return
	}
	for _, b := range c.local {
		c.drop(b)
	}
	c.forgetRead()
}

// TakeWhole returns the buffer of content that is whole, which is the caller's from then on,
// and releases the rest. It returns nil for content in blocks.
func (c *Content) TakeWhole() *mem.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole == nil {
		return nil
	}
	buf := c.whole
	c.whole, c.released = nil, true
	c.store.give(c.reserved)
	return buf
}

// Whole returns the content, if it is one buffer; else nil. The buffer stays c's.
func (c *Content) Whole() *mem.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whole
}

// Len returns the length, in bytes.
func (c *Content) Len() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// Layout returns how content in blocks is cut.
func (c *Content) Layout() format.Layout {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.layout()
}

func (c *Content) layout() format.Layout {
	return format.Layout{Size: c.size, BlockBytes: c.blockBytes}
}

// Differs reports whether the content differs from its base, as far as that is known here.
func (c *Content) Differs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whole != nil || c.changes > 0 || c.size != c.base.Size || c.based < c.layout().Blocks()
}

// Turn returns a number that is another one after each change.
func (c *Content) Turn() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turn
}

// Unstored returns how many bytes of the content neither its base has nor [Content.Sent] noted.
func (c *Content) Unstored() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil {
		return c.size
	}
	blocks := max(0, c.layout().Blocks()-c.based) - int64(len(c.elsewhere))
	for i, b := range c.local {
		switch {
		case i < c.based && !b.same && b.sent != b.turn:
			blocks++
		case i >= c.based && b.sent == b.turn:
			blocks--
		}
	}
	return min(c.size, max(0, blocks)*c.blockBytes)
}

// block numbers of bytes from off to end, which are not none.
func (c *Content) span(off, end int64) (first, last int64) {
	return off / c.blockBytes, (end - 1) / c.blockBytes
}

// isBased reports whether a block is that of the base, and not here.
func (c *Content) isBased(i int64) bool { return i < c.based && c.local[i] == nil }

// IsBased reports whether a block is that of the base, whole and unchanged, and not here.
func (c *Content) IsBased(i int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.released && c.whole == nil && i < c.layout().Blocks() && c.isBased(i) &&
		c.layout().Plain(i) == c.base.Plain(i)
}

// Missing returns the blocks of the base that must be here before bytes from off on are
// written: those that are overwritten in part. With n = 0 it means those that must be here
// before the length becomes off.
func (c *Content) Missing(off, n int64) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil || c.released {
		return nil
	}
	var list []int64
	need := func(i int64) {
		if c.isBased(i) && (len(list) == 0 || list[len(list)-1] != i) {
			list = append(list, i)
		}
	}
	end := off + n
	if end > c.size && c.size%c.blockBytes != 0 {
		if i := c.size / c.blockBytes; n == 0 || off > i*c.blockBytes {
			need(i) // gets longer
		}
	}
	if n == 0 {
		if off < c.size && off%c.blockBytes != 0 {
			need(off / c.blockBytes)
		}
		return list
	}
	first, last := c.span(off, end)
	if off%c.blockBytes != 0 {
		need(first)
	}
	if end%c.blockBytes != 0 && end < min(c.size, c.base.Size) {
		need(last)
	}
	return list
}

// Replaced returns the blocks of the base that a write of n bytes from off on replaces, and that are
// not here. Those that [Content.Missing] returns are among them.
func (c *Content) Replaced(off, n int64) (list []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil || c.released || n == 0 {
		return nil
	}
	first, last := c.span(off, off+n)
	for i := first; i <= last; i++ {
		if c.isBased(i) {
			list = append(list, i)
		}
	}
	return list
}

// Fetched gives c a block of the base that [Content.Missing] returned. plain stays the
// caller's.
func (c *Content) Fetched(i int64, plain []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released || c.whole != nil || !c.isBased(i) {
		return nil
	}
	_, sent := c.elsewhere[i]
	b, err := c.hold(i)
	if err != nil {
		return err
	}
	copy(b.buf.Bytes(), plain)
	b.same, c.changes = true, c.changes-1
	if delete(c.elsewhere, i); sent {
		b.sent = b.turn
	}
	return nil
}

// Range is a part of what [Content.ReadAt] was to read: bytes from From to To.
type Range struct{ From, To int64 }

// ReadAt reads into p. n < len(p) only at the end of the content. The caller reads the rest,
// ranges of p[:n], from the base. After Release the error is [ErrReleased].
func (c *Content) ReadAt(p []byte, off int64) (n int, rest []Range, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return 0, nil, ErrReleased
	}
	if off >= c.size {
		return 0, nil, nil
	}
	n = int(min(int64(len(p)), c.size-off))
	if c.whole != nil {
		return copy(p[:n], c.whole.Bytes()[off:]), nil, nil
	}
	for at := int64(0); at < int64(n); {
		i, within := (off+at)/c.blockBytes, (off+at)%c.blockBytes
		to := min(int64(n), at+c.blockBytes-within)
		switch b := c.local[i]; {
		case b != nil:
			plain, err := c.plain(b)
			if err != nil {
				return 0, nil, err
			}
			copy(p[at:to], plain[within:])
		case i < c.based:
			if k := len(rest); k > 0 && rest[k-1].To == at {
				rest[k-1].To = to
			} else {
				rest = append(rest, Range{at, to})
			}
		default:
			clear(p[at:to])
		}
		at = to
	}
	return n, rest, nil
}

// plain returns the plaintext of a block that is here.
func (c *Content) plain(b *block) ([]byte, error) {
	if b.buf != nil {
		return b.buf.Bytes(), nil
	}
	r := &c.lastRead
	if r.buf != nil && r.index == b.index && r.turn == b.turn {
		return r.buf.Bytes(), nil
	}
	if r.buf == nil {
		buf, err := c.store.opt.Pool.Get(c.blockBytes)
		if err != nil {
			return nil, err
		}
		r.buf = buf
	}
	r.turn = 0
	if err := c.store.opt.Spool.get(b.at, r.buf.Bytes()); err != nil {
		return nil, err
	}
	r.index, r.turn = b.index, b.turn
	return r.buf.Bytes(), nil
}

func (c *Content) forgetRead() {
	if c.lastRead.buf != nil {
		c.lastRead.buf.Release()
	}
	c.lastRead = lastRead{}
}

// WriteAt writes all of p, or on error nothing. [Content.Missing] must have returned none.
func (c *Content) WriteAt(p []byte, off int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := off + int64(len(p))
	if err := c.mayGrow(end); err != nil {
		return err
	}
	if c.whole != nil {
		if end > c.size {
			if err := c.resizeWhole(end); err != nil {
				return err
			}
		}
		_, err := c.whole.WriteAt(p, off)
		return err
	}
	if len(p) == 0 {
		return nil
	}
	first, last := c.span(off, end)
	held, err := c.holdAll(first, last)
	if err != nil {
		return err
	}
	defer unpin(held)
	if end > c.size {
		c.lengthen(end)
	}
	for _, b := range held {
		from, to := max(off, b.index*c.blockBytes), min(end, (b.index+1)*c.blockBytes)
		into, what := b.buf.Bytes()[from-b.index*c.blockBytes:to-b.index*c.blockBytes], p[from-off:to-off]
		if b.same && string(into) == string(what) {
			continue // the recorded bytes
		}
		copy(into, what)
		c.change(b)
		c.wroteHashed(from)
	}
	c.moved(last)
	return nil
}

// change notes that a block in memory changed.
func (c *Content) change(b *block) {
	if b.same {
		b.same = false
		c.changes++
	}
	c.turn++
	b.turn = c.turn
}

// Resize sets the length. Bytes that are added are zero, and hold no memory. On error nothing
// changed. [Content.Missing] must have returned none.
func (c *Content) Resize(size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mayGrow(size); err != nil {
		return err
	}
	switch {
	case c.whole != nil:
		return c.resizeWhole(size)
	case size > c.size:
		c.lengthen(size)
		return nil
	case size < c.size:
		return c.shorten(size)
	}
	return nil
}

// lengthen makes content in blocks longer.
func (c *Content) lengthen(size int64) {
	if i := c.size / c.blockBytes; c.size%c.blockBytes != 0 { // becomes longer
		if b := c.local[i]; b != nil {
			c.change(b)
		}
		delete(c.elsewhere, i)
	}
	c.size = size
	c.turn++
}

// shorten makes content in blocks shorter.
func (c *Content) shorten(size int64) error {
	if size == 0 {
		if whole, err := c.store.opt.Pool.Get(0); err == nil {
			c.empty(whole)
			return nil
		}
	}
	blocks := (size + c.blockBytes - 1) / c.blockBytes
	var last *block
	if within := size % c.blockBytes; within != 0 && c.local[blocks-1] != nil {
		var err error
		if last, err = c.hold(blocks - 1); err != nil {
			return err
		}
		clear(last.buf.Bytes()[within:])
		c.change(last)
	}
	for i, b := range c.local {
		if i >= blocks {
			c.drop(b)
		}
	}
	for i := range c.elsewhere {
		if i >= blocks || last == nil && i == blocks-1 && size%c.blockBytes != 0 {
			delete(c.elsewhere, i)
		}
	}
	c.based = min(c.based, blocks)
	c.size = size
	c.turn++
	c.wroteHashed(size)
	return nil
}

// empty makes content in blocks whole again.
func (c *Content) empty(whole *mem.Buffer) {
	for _, b := range c.local {
		c.drop(b)
	}
	c.forgetRead()
	c.whole, c.size, c.based = whole, 0, 0
	c.recent, c.rested = [2]int64{-1, -1}, nil
	c.sum = running{off: true, busy: c.sum.busy}
}

// mayGrow cuts content that becomes too long for one buffer into blocks.
func (c *Content) mayGrow(size int64) error {
	if c.whole == nil || c.uncut || c.store.opt.WholeBytes < 0 || size <= c.store.opt.WholeBytes {
		return nil
	}
	was, reserved := c.whole, c.reserved
	c.whole, c.reserved = nil, 0
	c.store.give(reserved) // the blocks take its place
	c.cut()
	err := func() error {
		for off := int64(0); off < c.size; off += c.blockBytes {
			b, err := c.hold(off / c.blockBytes)
			if err != nil {
				return err
			}
			copy(b.buf.Bytes(), was.Bytes()[off:])
		}
		return nil
	}()
	if err != nil {
		for _, b := range c.local {
			c.drop(b)
		}
		c.whole, c.reserved = was, reserved
		c.store.used.Add(reserved)
		return err
	}
	was.Release()
	return nil
}

func (c *Content) resizeWhole(size int64) error {
	if more := size - c.reserved; more > 0 {
		if err := c.store.take(more); err != nil {
			return err
		}
		c.reserved = size
	}
	if err := c.whole.Resize(size); err != nil {
		return err
	}
	c.size = size
	return nil
}

// Hash returns the SHA-256 of the content; known is false where that would need the base.
func (c *Content) Hash() (sum [sha256.Size]byte, known bool, err error) {
	if whole := c.Whole(); whole != nil {
		return whole.Hash(), true, nil
	}
	return c.hashBlocks()
}

// buffer returns zero memory for a block: its own share first, then that of the block that was
// used longest ago.
func (c *Content) buffer() (*mem.Buffer, error) {
	crowded := c.store.opt.Spool != nil && (c.inMemory+1)*c.blockBytes > c.store.opt.FileBytes
	if crowded {
		if buf, err := c.evict(); buf != nil || err != nil {
			return buf, err
		}
	}
	err := c.store.take(c.blockBytes)
	if err != nil && !crowded {
		buf, evicted := c.evict()
		if buf != nil {
			return buf, nil
		}
		return nil, cmp.Or(evicted, err)
	}
	if err != nil {
		return nil, err
	}
	buf, err := c.store.opt.Pool.Get(c.blockBytes)
	if err != nil {
		c.store.give(c.blockBytes)
	}
	return buf, err
}

// evict takes the memory of a block that can be had again. It returns nil if there is none, and
// why if the spool did not take one.
func (c *Content) evict() (buf *mem.Buffer, full error) {
	for b := c.ends.next; b != &c.ends; b = b.next {
		stale := !b.same && b.spooled != b.turn
		if b.pinned || stale && (full != nil || c.store.opt.Spool == nil) {
			continue
		}
		if stale {
			if full = c.store.opt.Spool.put(&b.at, b.buf.Bytes()); full != nil {
				continue
			}
			b.spooled = b.turn
		}
		buf = b.buf
		b.buf = nil
		c.unlink(b)
		if b.same {
			if b.sent == b.turn {
				c.elsewhere[b.index] = struct{}{}
			}
			c.drop(b)
		}
		_ = buf.Resize(0) // wipes it
		if err := buf.Resize(c.blockBytes); err != nil {
			buf.Release()
			c.store.give(c.blockBytes)
			return nil, err
		}
		return buf, nil
	}
	return nil, full
}

// hold returns a block in memory. One that is neither here nor the base's is zero.
func (c *Content) hold(i int64) (*block, error) {
	b := c.local[i]
	if b != nil && b.buf != nil {
		c.unlink(b)
		c.link(b)
		return b, nil
	}
	buf, err := c.buffer()
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = &block{index: i}
		c.local[i] = b
		c.changes++
		c.turn++
		b.turn = c.turn
	} else if err := c.store.opt.Spool.get(b.at, buf.Bytes()); err != nil {
		buf.Release()
		c.store.give(c.blockBytes)
		return nil, err
	}
	b.buf = buf
	c.link(b)
	return b, nil
}

// holdAll pins blocks in memory; on error those that are new are gone again.
func (c *Content) holdAll(first, last int64) (held []*block, err error) {
	var made, there []*block
	for i := first; i <= last; i++ {
		if b := c.local[i]; b != nil {
			b.pinned = true // before others need room: what was fetched for this write stays
			there = append(there, b)
		}
	}
	for i := first; i <= last; i++ {
		is := c.local[i] != nil
		b, err := c.hold(i)
		if err != nil {
			unpin(held)
			unpin(there)
			for _, b := range made {
				c.drop(b)
			}
			return nil, err
		}
		b.pinned = true
		held = append(held, b)
		if !is {
			made = append(made, b)
		}
	}
	for _, b := range made {
		delete(c.elsewhere, b.index)
	}
	return held, nil
}

func unpin(list []*block) {
	for _, b := range list {
		b.pinned = false
	}
}

func (c *Content) link(b *block) {
	b.prev, b.next = c.ends.prev, &c.ends
	b.prev.next, b.next.prev = b, b
	c.inMemory++
}

func (c *Content) unlink(b *block) {
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
	c.inMemory--
}

// drop forgets a block.
func (c *Content) drop(b *block) {
	if b.buf != nil {
		c.unlink(b)
		b.buf.Release()
		c.store.give(c.blockBytes)
	}
	if c.store.opt.Spool != nil {
		c.store.opt.Spool.drop(&b.at, c.blockBytes)
	}
	if !b.same {
		c.changes--
	}
	delete(c.local, b.index)
}
