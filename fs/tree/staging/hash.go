package staging

import (
	"crypto/sha256"
	"errors"

	"github.com/svcfs/svcfs/sdk/mem"
)

// errLater ends hashing that has caught up.
var errLater = errors.New("not yet")

// wroteHashed notes that content from off on changed.
func (c *Content) wroteHashed(off int64) {
	if off < c.sum.done {
		c.sum = running{off: true, busy: c.sum.busy}
	}
}

// hashBehind hashes what a writer has left, on another processor. It needs content that is
// written in order.
func (c *Content) hashBehind() {
	if c.sum.off || c.sum.busy || c.based > 0 {
		return
	}
	c.sum.busy = true
	c.working.Go(func() {
		scratch, err := c.store.opt.Pool.Get(c.blockBytes)
		if err == nil {
			for err == nil {
				err = c.hashStep(scratch, true)
			}
			scratch.Release()
		}
		c.mu.Lock()
		c.sum.busy = false
		c.mu.Unlock()
	})
}

// hashStep hashes what is left of a block. behind means: only what a writer left, and never
// anew. The error is errLater when nothing is left to do.
func (c *Content) hashStep(scratch *mem.Buffer, behind bool) error {
	c.mu.Lock()
	at, i := c.sum.done, c.sum.done/c.blockBytes
	end := min(c.size, (i+1)*c.blockBytes)
	left := end == (i+1)*c.blockBytes && i/c.store.opt.PartBlocks < min(c.recent[0], c.recent[1])
	if c.released || c.whole != nil || at >= c.size || behind && (c.sum.off || !left || c.local[i] == nil) {
		c.mu.Unlock()
		return errLater
	}
	if c.sum.hash == nil {
		c.sum.hash = sha256.New()
	}
	sum := c.sum.hash
	part := scratch.Bytes()[:end-at]
	if b := c.local[i]; b != nil {
		plain, err := c.plain(b)
		if err != nil {
			c.mu.Unlock()
			return err
		}
		copy(part, plain[at-i*c.blockBytes:])
	} else {
		clear(part)
	}
	c.sum.done = end // a write before it ends this hash
	c.mu.Unlock()
	_, _ = sum.Write(part) // never fails
	return nil
}

// hashBlocks hashes what is left. Nobody may write meanwhile.
func (c *Content) hashBlocks() (sum [sha256.Size]byte, known bool, err error) {
	c.working.Wait()
	c.mu.Lock()
	for i := range c.based {
		if c.local[i] == nil {
			c.mu.Unlock()
			return sum, false, nil
		}
	}
	scratch, err := c.store.opt.Pool.Get(c.blockBytes)
	c.sum.off = false // what is hashed from here on is what is there
	c.mu.Unlock()
	if err != nil {
		return sum, false, err
	}
	defer scratch.Release()
	for err == nil {
		err = c.hashStep(scratch, false)
	}
	if !errors.Is(err, errLater) {
		return sum, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sum.hash == nil {
		return sha256.Sum256(nil), true, nil
	}
	return [sha256.Size]byte(c.sum.hash.Sum(nil)), true, nil
}
