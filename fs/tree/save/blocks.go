package save

import (
	"context"
	"errors"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// Base opens the recorded version that a large save was made from. [Blocks.Close] closes it.
type Base interface {
	// Open opens the version. The caller calls done at the end.
	Open(ctx context.Context, from outbox.From) (b outbox.Blocks, done func(), err error)
	Close() error
}

// Blocks is a large save that waits, open for reading: its changed blocks are in the outbox, the others in the
// recorded version that it was made from. It is safe for concurrent use.
type Blocks struct {
	item *outbox.WaitingBlocks
	base Base
}

// Open opens a large save that waits. It closes base with the result, or on error. Errors: [ErrRecorded], [Damaged],
// [outbox.ErrLocked].
func (q *Queue) Open(e *sdk.Entry, base Base) (*Blocks, error) {
	item, err := q.OpenBlocks(outbox.IDOf(e.Ref))
	if err != nil {
		return nil, errors.Join(readError(err), base.Close())
	}
	return &Blocks{item, base}, nil
}

// Layout returns how the content is cut.
func (b *Blocks) Layout() format.Layout { return b.item.Layout() }

// Fee is nothing.
func (b *Blocks) Fee() sdk.Amount { return sdk.Amount{} }

// Footprint is the memory of the list of changed blocks, in bytes.
func (b *Blocks) Footprint() int64 { return int64(len(b.item.Changed())) * extentBytes }

// extentBytes is the size of a [format.Extent], in bytes.
const extentBytes = 16

// Read reads blocks from first on: those that were not changed need the service.
func (b *Blocks) Read(ctx context.Context, first int64, into []*mem.Buffer) error {
	changed := b.item.Changed()
	for n := 0; n < len(into); {
		if _, ok := changed.Index(first + int64(n)); ok {
			if err := b.readChanged(first+int64(n), into[n]); err != nil {
				return err
			}
			n++
			continue
		}
		end := n + 1
		for end < len(into) {
			if _, ok := changed.Index(first + int64(end)); ok {
				break
			}
			end++
		}
		base, done, err := b.base.Open(ctx, b.item.From())
		if err != nil {
			return err
		}
		err = base.Read(ctx, first+int64(n), into[n:end])
		done()
		if err != nil {
			return err
		}
		n = end
	}
	return nil
}

func (b *Blocks) readChanged(i int64, into *mem.Buffer) error {
	if err := into.Resize(b.Layout().Plain(i)); err != nil {
		return err
	}
	if _, err := b.item.Read(i, into.Bytes()); err != nil {
		return Damaged{err}
	}
	return nil
}

// Close ends the reading.
func (b *Blocks) Close() error { return errors.Join(b.base.Close(), b.item.Close()) }

// held is recorded content as the version that a save was made from.
type held struct{ *content.Recorded }

// Open implements [Base]. Content that waits is that version, if it was recorded since, or was made from it, too.
func (h held) Open(ctx context.Context, from outbox.From) (outbox.Blocks, func(), error) {
	opened, done, err := h.Use(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, waits := opened.(*Blocks)
	if !waits || b.item.From() != from {
		return opened, done, nil
	}
	base, baseDone, err := b.base.Open(ctx, from)
	if err != nil {
		done()
		return nil, nil, err
	}
	return base, func() { baseDone(); done() }, nil
}

// Close implements [Base].
func (h held) Close() error { h.Release(); return nil }

// BaseOf is the [Base] that content, which it takes over, is of; for nil the service is asked when that is needed.
func (s *Saver) BaseOf(recorded *content.Recorded) Base {
	if recorded == nil {
		return &claimed{claim: s.opt.Claim}
	}
	return held{recorded}
}

// Opened is a recorded version that is open.
type Opened interface {
	outbox.Blocks
	Close() error
}

// claimed is the [Base] of a save from before a restart: the service is asked for it, once.
type claimed struct {
	claim func(ctx context.Context, from outbox.From) (Opened, error)

	mu   sync.Mutex
	open Opened // nil until it is asked for
}

// Open implements [Base].
func (c *claimed) Open(ctx context.Context, from outbox.From) (outbox.Blocks, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		opened, err := c.claim(ctx, from)
		if err != nil {
			return nil, nil, err
		}
		c.open = opened
	}
	return c.open, func() {}, nil
}

// Close implements [Base].
func (c *claimed) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		return nil
	}
	open := c.open
	c.open = nil
	return open.Close()
}
