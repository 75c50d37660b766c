package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// heldBase is committed content as the version that a large save was made from.
type heldBase struct{ *content.Recorded }

// Open implements [save.Base].
func (b heldBase) Open(ctx context.Context, from outbox.From) (outbox.Blocks, func(), error) {
	opened, done, err := b.Use(ctx)
	if err != nil {
		return nil, nil, err
	}
	return save.As(ctx, opened, done, from)
}

// Close implements [save.Base].
func (b heldBase) Close() error { b.Release(); return nil }

// openWaiting opens content in blocks that waits. under, which may be nil, is released with the result, or on error.
// The result is nil if the content was recorded meanwhile.
func (g *group) openWaiting(e *sdk.Entry, under *content.Recorded) (Blocks, *sdk.Entry, error) {
	t := g.dir.t
	var base save.Base = &save.Claimed{Claim: t.claimVersion}
	if under != nil {
		base = heldBase{under}
	}
	opened, err := t.queue.Open(e, base)
	if err == nil {
		return opened, e, nil
	}
	if errors.Is(err, save.ErrRecorded) {
		t.mu.RLock()
		defer t.mu.RUnlock()
		if now := g.recordedSince(e); !isWaiting(now) {
			return nil, now, nil
		}
	}
	return nil, e, err
}

// claimVersion opens a recorded version, which costs one claim.
func (t *Tree) claimVersion(ctx context.Context, from outbox.From) (opened save.Opened, err error) {
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
	err = t.spent.Spend("retrieve", func() (sdk.Amount, error) {
		blocks, err := t.blocks.OpenBlocks(ctx, *e)
		if err != nil {
			return sdk.Amount{}, err
		}
		opened = blocks
		return blocks.Fee(), nil
	})
	if err == nil {
		t.counts.retrieves.Add(1)
	}
	return opened, err
}
