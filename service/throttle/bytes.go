package throttle

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// shares is how many callers can use up a budget.
	shares = 8
	// leastShare is the least share of a caller in a small budget, in bytes, up to a
	// quarter of it.
	leastShare = 32 << 20
)

// Bytes is a budget of memory that many callers share. A caller has at most an eighth of
// it at a time, except for a single larger thing, so that a few that stall leave enough
// to the others. It is safe for concurrent use.
type Bytes struct {
	total int64
	all   *semaphore.Weighted
	own   *Slots[string] // bytes
}

// NewBytes makes a budget of so many bytes.
func NewBytes(total int64) *Bytes {
	return &Bytes{total: total, all: semaphore.NewWeighted(total),
		own: newSlots[string](max(total/shares, min(total/4, leastShare), 1))}
}

// Share is how many bytes a caller has at a time, at most.
func (b *Bytes) Share() int64 { return b.own.most }

// Wait takes n bytes as soon as they are free, first come, first served, and reports
// false when ctx ends before. The caller gives them back with release, once. A caller
// that wants much first waits for its own share, without delaying others. n is for a
// thing that has some already, or it would wait for itself.
func (b *Bytes) Wait(ctx context.Context, caller string, n, has int64) (release func(), ok bool) {
	n = max(min(max(n, 1), b.total-has), 0) // one thing larger than all there is counts as all there is
	giveBack, ok := b.own.wait(ctx, caller, max(min(n, b.Share()-has), 0))
	if !ok {
		return nil, false
	}
	if n > 0 && b.all.Acquire(ctx, n) != nil {
		giveBack()
		return nil, false
	}
	return func() {
		b.all.Release(n)
		giveBack()
	}, true
}
