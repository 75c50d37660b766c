package staging

import (
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Mark tells which content of a block was read, for [Content.Sent].
type Mark struct {
	turn   uint64 // of a block that is here; 0 = none is
	isBase bool   // it is the base's
	bytes  int64
}

// Unsent returns the blocks that have to be sent. takesOver means that those of the base need not.
func (c *Content) Unsent(takesOver bool) (list format.Extents) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil || c.released {
		return nil
	}
	for i := range c.layout().Blocks() {
		if c.isUnsent(i, takesOver) {
			list = list.Add(i)
		}
	}
	return list
}

func (c *Content) isUnsent(i int64, takesOver bool) bool {
	b := c.local[i]
	switch {
	case b != nil && b.same && takesOver, b == nil && i < c.based && takesOver:
		return false
	case b != nil:
		return b.sent != b.turn
	}
	_, sent := c.elsewhere[i]
	return !sent
}

// Block copies a block into a buffer that is long enough for it. isBase means that the block is
// that of the base, and n bytes of it are to be read from there.
func (c *Content) Block(i int64, into []byte) (n int, mark Mark, isBase bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released || i >= c.layout().Blocks() {
		return 0, mark, false, nil // cut off meanwhile
	}
	n = int(c.layout().Plain(i))
	mark.bytes = int64(n)
	b := c.local[i]
	switch {
	case b == nil && i < c.based:
		mark.isBase = true
		return n, mark, true, nil
	case b == nil:
		clear(into[:n])
		return n, mark, false, nil
	}
	plain, err := c.plain(b)
	if err != nil {
		return 0, Mark{}, false, err
	}
	mark.turn = b.turn
	return copy(into[:n], plain), mark, false, nil
}

// Sent notes that a block arrived as it was when [Content.Block] gave out its mark.
func (c *Content) Sent(i int64, mark Mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released || i >= c.layout().Blocks() {
		return
	}
	b := c.local[i]
	switch {
	case b != nil && mark.turn != 0:
		b.sent = mark.turn
	case mark.turn != 0 || mark.isBase != (i < c.based) || mark.bytes != c.layout().Plain(i): // cut off, or made longer
	case b == nil:
		c.elsewhere[i] = struct{}{}
	case b.same: // fetched meanwhile
		b.sent = b.turn
	}
}

// Unsend notes that nothing of the content arrived: the upload is begun anew.
func (c *Content) Unsend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.local {
		b.sent = 0
	}
	clear(c.elsewhere)
	clear(c.offered)
	c.rested = nil
}

// moved notes that a block was written. The writer has left the part before the one before.
func (c *Content) moved(i int64) {
	part := i / c.store.opt.PartBlocks
	if part == c.recent[0] {
		return
	}
	left := c.recent[1]
	c.recent[1], c.recent[0] = c.recent[0], part
	if left >= 0 && left != part {
		c.rest(left)
	}
	c.hashBehind()
}

// rest offers a part that was left, if it is complete. A part is offered once in an upload, also where the content was
// empty in between: what is written again is sent at the end, when no part is on its way. Of two on their way the
// later one counts, but the earlier may have read the later bytes.
func (c *Content) rest(part int64) {
	first := part * c.store.opt.PartBlocks
	if _, was := c.offered[part]; was || (first+c.store.opt.PartBlocks)*c.blockBytes > c.size {
		return
	}
	for i := first; i < first+c.store.opt.PartBlocks; i++ {
		if b := c.local[i]; b == nil || b.same || b.sent == b.turn {
			return
		}
	}
	c.offered[part] = struct{}{}
	c.rested = append(c.rested, first)
}

// HasRested reports whether Rested may return something.
func (c *Content) HasRested() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.rested) > 0
}

// Rested returns the blocks of a part that is complete and that nobody wrote to for a while, or
// none.
func (c *Content) Rested() format.Extents {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.rested) > 0 {
		first := c.rested[0]
		c.rested = c.rested[1:]
		var list format.Extents
		for i := first; i < min(first+c.store.opt.PartBlocks, c.layout().Blocks()); i++ {
			if b := c.local[i]; b != nil && !b.same && b.sent != b.turn {
				list = list.Add(i)
			}
		}
		if list != nil {
			return list
		}
	}
	return nil
}

// GiveBlocks gives away the blocks that are in memory, those that were used longest ago first, and
// releases the rest. The buffers are do's from then on.
func (c *Content) GiveBlocks(do func(block int64, buf *mem.Buffer)) {
	c.mu.Lock()
	if !c.released && c.whole == nil {
		for c.ends.next != &c.ends {
			b := c.ends.next
			buf, n := b.buf, c.layout().Plain(b.index)
			c.unlink(b)
			b.buf = nil
			c.store.give(c.blockBytes)
			c.drop(b)
			if buf.Resize(n) != nil {
				buf.Release()
				continue
			}
			do(b.index, buf)
		}
	}
	c.release()
	c.mu.Unlock()
	c.working.Wait()
}
