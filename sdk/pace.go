package sdk

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// slowestTransfer is the speed below which a transfer counts as stalled, in bytes per
	// second.
	slowestTransfer = 16 << 10
	// transferPatience times Config.Timeout is how long a transfer may stall, and how long
	// its answer may take.
	transferPatience = 4
)

// errTooSlow is the cause that ends a stalled transfer.
var errTooSlow = fmt.Errorf("the transfer stands still: %w", context.DeadlineExceeded)

// pace ends a transfer that stalls. A transfer that moves may take as long as it needs.
type pace struct {
	timer    *time.Timer
	patience time.Duration
	outer    func() // resets the timer of [WithPatience]; may be nil

	mu    sync.Mutex
	moved int64 // bytes since the last reset of the timer
}

// paced returns a context that ends once nothing has moved for patience. The caller must
// call stop.
func paced(ctx context.Context, patience time.Duration) (context.Context, *pace, func()) {
	outer, _ := ctx.Value(patienceKey{}).(func())
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pace{patience: patience, outer: outer}
	p.timer = time.AfterFunc(p.patience, func() { cancel(errTooSlow) })
	return ctx, p, func() { p.timer.Stop(); cancel(nil) }
}

// advance reports that n bytes moved. ended marks the end of a phase, which resets the
// timer in any case.
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

// WithPatience returns a context that ends calls with [ErrTimeout] once nothing has moved
// for d. A call that moves, such as a long list or a large file, may take longer than d. d
// never extends [Config].Timeout. The caller must call cancel.
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

// pacedReader reads the body of an answer and reports each read to a pace and a meter.
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

// reporter is the function of [Progress]; may be nil.
type reporter func(done, total int64)

// progressFloor is the smallest body that is reported, in bytes.
const progressFloor = 64 << 10

// meter counts the bytes of one body. A nil meter counts nothing.
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

// whyEnded returns why ctx ended, or err if ctx has not ended.
func whyEnded(ctx context.Context, err error) error {
	if context.Cause(ctx) == ctx.Err() { // before the end, or without a cause of its own
		return err
	}
	return ended(ctx)
}

// ended returns the error of an ended context. A cause that the caller gave is only text in
// it: that cause may be an error of another call, with another kind.
func ended(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if cause == errTooSlow || cause == err {
		return cause
	}
	return fmt.Errorf("%w: %v", err, cause)
}
