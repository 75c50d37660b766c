package sdk

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// slowestTransfer is the slowest transfer that is waited for, in bytes per
	// second.
	slowestTransfer = 16 << 10
	// transferPatience times Config.Timeout is how long a transfer may take to
	// move on, or to be answered once all is sent.
	transferPatience = 4
)

// errTooSlow ends a transfer that stands still.
var errTooSlow = fmt.Errorf("the transfer stands still: %w", context.DeadlineExceeded)

// pace watches a transfer: it may take as long as it needs, but it has to move.
type pace struct {
	timer    *time.Timer
	patience time.Duration
	outer    func() // of [WithPatience]; may be nil

	mu    sync.Mutex
	moved int64 // bytes since the timer was set
}

// paced returns a context that ends when nothing moves for patience. The caller must
// call stop.
func paced(ctx context.Context, patience time.Duration) (context.Context, *pace, func()) {
	outer, _ := ctx.Value(patienceKey{}).(func())
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pace{patience: patience, outer: outer}
	p.timer = time.AfterFunc(p.patience, func() { cancel(errTooSlow) })
	return ctx, p, func() { p.timer.Stop(); cancel(nil) }
}

// advance reports n bytes moved, or with ended the end of a phase.
func (p *pace) advance(n int, ended bool) {
	if p == nil {
		return
	}
	if p.outer != nil {
		p.outer()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += int64(n)
	if ended || p.moved >= int64(p.patience.Seconds()*slowestTransfer) {
		p.moved = 0
		p.timer.Reset(p.patience)
	}
}

type patienceKey struct{}

// WithPatience returns a context for calls that are given up, as [ErrTimeout], once
// nothing has moved for d. A call that moves may take longer than d: a long list, or
// a large file. It only shortens what [Config].Timeout allows. Call cancel in the end.
func WithPatience(ctx context.Context, d time.Duration) (patient context.Context, cancel context.CancelFunc) {
	outer, _ := ctx.Value(patienceKey{}).(func())
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { end(errTooSlow) })
	patient = context.WithValue(ctx, patienceKey{}, func() {
		timer.Reset(d)
		if outer != nil {
			outer()
		}
	})
	return patient, func() { timer.Stop(); end(nil) }
}

// pacedReader reads the body of an answer.
type pacedReader struct {
	ctx  context.Context
	r    io.Reader
	pace *pace
	read *meter
}

func (r *pacedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.pace.advance(n, false)
	r.read.add(n)
	if err != nil && err != io.EOF {
		err = whyEnded(r.ctx, err)
	}
	return n, err
}

// reporter is told how far a transfer is, see [Progress]; nil is told nothing.
type reporter func(done, total int64)

// progressFloor is the smallest body that is reported, in bytes.
const progressFloor = 64 << 10

// meter counts one body; nil counts nothing.
type meter struct {
	done, total int64
	report      reporter
}

func newMeter(report reporter, total int64) *meter {
	if report == nil || total >= 0 && total < progressFloor {
		return nil
	}
	return &meter{total: total, report: report}
}

func (m *meter) add(n int) {
	if m == nil || n == 0 {
		return
	}
	m.done += int64(n)
	m.report(m.done, m.total)
}

// whyEnded prefers the reason for ending a request over its consequence.
func whyEnded(ctx context.Context, err error) error {
	if context.Cause(ctx) == ctx.Err() { // also when it has not ended
		return err
	}
	return ended(ctx)
}

// ended is the error of a context that has ended. A cause that the caller gave is text
// in it and no more: it may be the error of another call, whose kind is not of this one.
func ended(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if cause == errTooSlow || cause == err {
		return cause
	}
	return fmt.Errorf("%w: %v", err, cause)
}
