package call

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/network"
)

// These are all the limits on how long the network may stand still. What calls this package
// for content has none of its own: only here is known whether bytes move.
const (
	// DefaultTimeout is the usual Config.Timeout.
	DefaultTimeout = 15 * time.Second
	// slowestTransfer is the speed from which on content passes, in bytes per second, of all
	// transfers of a caller together.
	slowestTransfer = network.LeastLimit
	// leastTogether and leastEach end a transfer that moves slower within one [stallTimes]:
	// a service that sends a byte now and then must not hold a program for ever. They leave
	// room for a line that comes and goes, and for many transfers that share it. Bytes per
	// second.
	leastTogether = slowestTransfer / 2
	leastEach     = slowestTransfer / 256
	// stallTimes times Config.Timeout, 30 s by default, is how long a connection may move no
	// byte of content before it is given up and the request is repeated.
	stallTimes = 2
	// AnswerTimes times Config.Timeout, 60 s by default, is how long an answer may take to a
	// request that the service has whole, and that changes something: it may wait for the
	// ledger, and an answer that nobody waits for may have been paid.
	AnswerTimes = 4
	// A connection that has moved nothing for deadShare of a stall, 5 s by default, although the
	// kernel has bytes for it, is dead if another one was answered meanwhile: the address of this
	// machine changed, or a router forgot the connection.
	deadShare = 6
	// looksAtStall is how often within a stall a pace looks at what the peer acknowledged.
	looksAtStall = 15
)

// errTooSlow is the cause that ends a request that stalls. errStill is that of one whose
// connection does: another connection may be better, for example after a change of the
// address. A service that has the request and does not answer is asked once.
var (
	errTooSlow = network.ErrStill
	errStill   = fmt.Errorf("nothing moves on the connection: %w", errTooSlow)
)

// phase is what a request does. It only goes on, but for a body that is sent again.
type phase uint8

const (
	waiting   phase = iota // for the answer, or for a body to be asked for
	sending                // the body
	receiving              // the answer
)

// pace ends a request that stalls. A request whose content moves may take as long as it needs.
type pace struct {
	cancel context.CancelCauseFunc
	wait   time.Duration // for the answer
	stall  time.Duration // for bytes of content
	outer  func()        // see [network.OnMove]; may be nil
	idle   func()        // closes idle connections: they may be as dead
	all    *traffic      // of all transfers of the caller

	mu      sync.Mutex
	timer   *time.Timer
	phase   phase
	moved   int64     // bytes of content, given to the kernel or received
	last    time.Time // something moved
	unacked func() int64
	left    int64     // bytes that the peer has not, at the last look
	alive   time.Time // when that last changed
	acked   int64     // bytes of the body that the peer has, at the last look
	sent    int64     // bytes of the body that the kernel has

	window time.Time // of the speed
	before [2]int64  // moved, and that of all, when it began
}

// paced returns a context that ends once the answer has not begun within wait, or nothing of
// the content has moved for a stall. Whoever calls it must call stop.
func (c *Caller) paced(ctx context.Context, wait time.Duration) (paced context.Context, p *pace, stop func()) {
	outer := network.Moves(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	now := time.Now()
	p = &pace{cancel: cancel, wait: wait, stall: stallTimes * c.cfg.Timeout, outer: outer, all: &c.traffic,
		idle: c.closeIdle, last: now, alive: now, window: now}
	p.before[1] = p.all.total()
	p.mu.Lock()
	p.timer = time.AfterFunc(min(p.wait, p.tick()), p.look)
	p.mu.Unlock()
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: p.onto}), p,
		func() { p.timer.Stop(); cancel(nil) }
}

func (p *pace) tick() time.Duration { return p.stall / looksAtStall }

// onto notes the connection that the request is sent on.
func (p *pace) onto(got httptrace.GotConnInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unacked, p.phase = unackedOf(got.Conn), waiting
	p.acked, p.sent, p.left, p.alive = 0, 0, 0, time.Now()
}

// advance reports that n bytes of content moved. ended marks the end of a phase.
func (p *pace) advance(n int, ended bool) {
	if p == nil {
		return
	}
	if p.outer != nil {
		p.outer()
	}
	now := time.Now()
	p.all.add(now, int64(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += int64(n)
	if n > 0 || ended {
		p.last = now
	}
}

// reading reports n bytes of the body that the transport took, and whether that was all.
func (p *pace) reading(n int, last bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	answered := p.phase == receiving // the peer needs no more of the body
	p.mu.Unlock()
	if answered {
		return
	}
	p.enter(sending)
	p.mu.Lock()
	p.sent += int64(n)
	counts := p.unacked == nil // else what the peer acknowledges counts
	p.mu.Unlock()
	if counts {
		p.advance(n, false)
	}
	if last {
		p.enter(waiting)
	}
}

// enter begins a phase.
func (p *pace) enter(next phase) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase == next {
		return
	}
	p.phase, p.last = next, time.Now()
	if left := p.sent - p.acked; next == receiving && p.unacked != nil && left > 0 { // it has what it answers to
		p.all.add(p.last, left)
		p.moved += left
		p.acked = p.sent
	}
	p.begin(p.last)
}

// begin begins a window of the speed. The caller holds mu.
func (p *pace) begin(now time.Time) {
	p.window, p.before = now, [2]int64{p.moved, p.all.total()}
}

// look ends the request if it stalls, and else looks again.
func (p *pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var left int64 // nobody has it but the kernel
	if p.unacked != nil && p.phase != receiving {
		left = p.unacked()
		if acked := p.sent - min(left, p.sent); acked > p.acked { // also while the body waits for room in the kernel
			p.all.add(now, acked-p.acked)
			p.moved += acked - p.acked
			p.acked, p.last = acked, now
		}
	}
	if left != p.left {
		p.left, p.alive = left, now
	}
	limit, moving := p.wait, p.phase != waiting || left > 0 && p.sent > 0
	if moving {
		limit = p.stall
	}
	quiet, next := now.Sub(p.last), p.tick()
	switch {
	case left > 0 && p.isDead(now):
		p.giveUp(errStill)
		return
	case quiet >= limit, moving && p.tooSlow(now):
		cause := errTooSlow
		if moving || left > 0 {
			cause = errStill
		}
		p.giveUp(cause)
		return
	case !moving && left == 0:
		p.begin(now)
		next = limit - quiet
	default:
		next = min(next, limit-quiet)
	}
	p.timer.Reset(max(next, time.Millisecond))
}

func (p *pace) giveUp(cause error) {
	p.cancel(cause)
	go p.idle()
}

// isDead judges a connection that the kernel has bytes for. The caller holds mu.
func (p *pace) isDead(now time.Time) bool {
	stuck := now.Sub(p.alive)
	return stuck >= p.stall || stuck >= p.stall/deadShare && p.all.lastAnswer().Sub(p.alive) >= p.tick()
}

// tooSlow judges the speed once in a stall. The caller holds mu.
func (p *pace) tooSlow(now time.Time) bool {
	took := now.Sub(p.window)
	if took < p.stall {
		return false
	}
	each, together := float64(p.moved-p.before[0]), float64(p.all.total()-p.before[1])
	p.begin(now)
	return each < took.Seconds()*leastEach || together < took.Seconds()*leastTogether
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
	if r.pace != nil {
		r.pace.all.arriving.add(time.Now(), int64(n))
	}
	r.read.add(n)
	if err != nil && err != io.EOF {
		err = whyEnded(r.ctx, err)
	}
	return n, err
}

// progressFloor is the smallest body that is reported, in bytes.
const progressFloor = 64 << 10

// meter counts the bytes of one body. A nil meter counts nothing.
type meter struct {
	done, total int64
	report      func(done, total int64)
}

func newMeter(report func(done, total int64), total int64) *meter {
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
	return Ended(ctx)
}

// Ended returns the error of an ended context. A cause that the user gave is only text in
// it: that cause may be an error of another call, with another kind.
func Ended(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if cause == err || cause == context.DeadlineExceeded || errors.Is(cause, errTooSlow) {
		return cause
	}
	return fmt.Errorf("%w: %v", err, cause)
}
