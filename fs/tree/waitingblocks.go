package tree

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// waitingBlocks is a large file that waits, open for reading: its changed blocks are in the outbox, the others in the
// recorded version that it was made from.
type waitingBlocks struct {
	t     *Tree
	item  *outbox.WaitingBlocks
	under *committedContent // what it was made from, while this mount runs; nil = the service is asked

	mu   sync.Mutex
	base Blocks // nil until it is asked for
}

// openWaiting opens content in blocks that waits. under, which may be nil, is released with the result, or on error.
// The result is nil if the content was recorded meanwhile.
func (t *Tree) openWaiting(g *group, e *sdk.Entry, under *committedContent) (Blocks, *sdk.Entry, error) {
	item, err := t.cfg.Outbox.OpenBlocks(outbox.IDOf(e.Ref))
	if err == nil {
		return &waitingBlocks{t: t, item: item, under: under}, e, nil
	}
	if under != nil {
		under.release()
	}
	switch {
	case errors.Is(err, outbox.ErrLocked):
		return nil, e, lockedItem()
	case !errors.Is(err, outbox.ErrGone):
		return nil, e, damagedItem(err)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if now := t.recordedSince(g, e); !isWaiting(now) {
		return nil, now, nil
	}
	return nil, e, &Error{Class: ClassStale, Err: errors.New("it was recorded just now")}
}

// Layout returns how the content is cut.
func (w *waitingBlocks) Layout() format.Layout { return w.item.Layout() }

// Fee is nothing.
func (w *waitingBlocks) Fee() sdk.Amount { return sdk.Amount{} }

// Read reads blocks from first on: those that were not changed need the service.
func (w *waitingBlocks) Read(ctx context.Context, first int64, into []*mem.Buffer) error {
	changed := w.item.Changed()
	for n := 0; n < len(into); {
		if _, ok := changed.Index(first + int64(n)); ok {
			if err := w.readChanged(first+int64(n), into[n]); err != nil {
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
		base, done, err := w.openBase(ctx)
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

func (w *waitingBlocks) readChanged(i int64, into *mem.Buffer) error {
	if err := into.Resize(w.Layout().Plain(i)); err != nil {
		return err
	}
	if _, err := w.item.Read(i, into.Bytes()); err != nil {
		return damagedItem(err)
	}
	return nil
}

// Close ends the reading.
func (w *waitingBlocks) Close() error {
	w.mu.Lock()
	base := w.base
	w.base = nil
	w.mu.Unlock()
	if w.under != nil {
		w.under.release()
	}
	err := w.item.Close()
	if base != nil {
		err = errors.Join(err, base.Close())
	}
	return err
}

// openBase opens the recorded version.
func (w *waitingBlocks) openBase(ctx context.Context) (outbox.Blocks, func(), error) {
	if w.under != nil {
		return w.under.openAs(ctx, w.item.From())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.base == nil {
		base, err := w.t.claimVersion(ctx, w.item.From())
		if err != nil {
			return nil, nil, err
		}
		w.base = base
	}
	return w.base, func() {}, nil
}

// claimVersion opens a recorded version, which costs one claim.
func (t *Tree) claimVersion(ctx context.Context, from outbox.From) (blocks Blocks, err error) {
	t.mu.RLock()
	var e *sdk.Entry
	if g := t.groups[from.Group]; g != nil {
		e = g.view.Entry(from.Ref)
	}
	t.mu.RUnlock()
	if e == nil {
		return nil, &Error{Class: ClassNotExist,
			Err: fmt.Errorf("the version that the file was made from, %s, is gone", from.Ref)}
	}
	err = t.spend("retrieve", func() (sdk.Amount, error) {
		blocks, err = t.blocks.OpenBlocks(ctx, *e)
		if err != nil {
			return sdk.Amount{}, err
		}
		return blocks.Fee(), nil
	})
	if err == nil {
		t.counts.retrieves.Add(1)
	}
	return blocks, err
}

// openAs opens the content as the version that a save was made from: content that waits is that version, if it was
// recorded since, or was made from it, too.
func (c *committedContent) openAs(ctx context.Context, from outbox.From) (outbox.Blocks, func(), error) {
	blocks, done, err := c.use(ctx)
	if err != nil {
		return nil, nil, err
	}
	w, waits := blocks.(*waitingBlocks)
	if !waits || w.item.From() != from {
		return blocks, done, nil
	}
	base, baseDone, err := w.openBase(ctx)
	if err != nil {
		done()
		return nil, nil, err
	}
	return base, func() { baseDone(); done() }, nil
}

// damagedItem is the error of what waits and cannot be read.
func damagedItem(err error) *Error {
	return &Error{Class: ClassCorrupt, Err: err,
		Hint: "svcfs outbox list shows it; the disk of this machine damaged it."}
}
