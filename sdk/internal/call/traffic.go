package call

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/sdk/network"
)

// speedOver is how many whole seconds the speed is the mean of.
const speedOver = 10

// lineTrips is how many round trips [network.Traffic].Line is for: one is under way, one is the request for what
// follows, and one is for the beginning of a connection, which is slower than the line.
const lineTrips = 3

// Traffic returns what all calls move. What a service acknowledged is looked at every two seconds.
func (c *Caller) Traffic() network.Traffic {
	t := c.traffic.state(time.Now())
	if c.IsFar() {
		t.Line = c.traffic.arriving.in(lineTrips * time.Duration(c.distance.ns.Load()))
	}
	return t
}

// shortest is the shortest of some times.
type shortest struct{ ns atomic.Int64 } // 0 = none

func (s *shortest) note(d time.Duration) {
	for now := s.ns.Load(); now == 0 || int64(d) < now; now = s.ns.Load() {
		if s.ns.CompareAndSwap(now, max(int64(d), 1)) {
			return
		}
	}
}

// isAbove reports whether there is a time, and none is as short as d.
func (s *shortest) isAbove(d time.Duration) bool { return s.ns.Load() > max(int64(d), 0) }

const (
	// nearby is how long the shortest answer of a service takes to begin that is on the same machine, or next to it.
	nearby = time.Millisecond
	// far is from when on a service is far away.
	far = 20 * time.Millisecond
)

// IsFar reports whether the service is so far away that it takes longer to wait for it than to do some work
// that spares a round trip.
func (c *Caller) IsFar() bool { return c.distance.isAbove(c.FarAfter) }

// IsApart reports whether the service is farther away than the next machine: packing what it sends takes less time
// than it spares.
func (c *Caller) IsApart() bool { return c.distance.isAbove(c.ApartAfter) }

const (
	// lineAssumed is the speed of a line until one was seen, in bytes a second: 100 Mbit/s.
	lineAssumed = 12_500_000
	// A speed is measured over lineTime and lineLeast bytes at least. Arrivals that are more
	// than lineGap apart do not belong together: the line was idle, or the reader was.
	lineTime  = 100 * time.Millisecond
	lineLeast = 64 << 10
	lineGap   = 50 * time.Millisecond
	// lineLasts is how long the highest speed counts that was seen.
	lineLasts = time.Minute
)

// lineSpeed is the highest speed at which bytes arrived of late, in bytes a second.
type lineSpeed struct {
	mu    sync.Mutex
	begun time.Time // of a measurement
	last  time.Time // bytes arrived
	bytes int64     // since begun
	best  float64   // 0 = none was seen
	at    time.Time // best was seen
}

// add notes that bytes arrived.
func (s *lineSpeed) add(now time.Time, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gap := now.Sub(s.last)
	s.last = now
	if gap > lineGap { // some of these lay in the kernel for an unknown time
		s.begun, s.bytes = now, 0
		return
	}
	s.bytes += n
	took := now.Sub(s.begun)
	if took < lineTime || s.bytes < lineLeast {
		return
	}
	if speed := float64(s.bytes) / took.Seconds(); speed >= s.best || now.Sub(s.at) > lineLasts {
		s.best, s.at = speed, now
	}
	s.begun, s.bytes = now, 0
}

// in returns how many bytes arrive in a time.
func (s *lineSpeed) in(d time.Duration) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	speed := s.best
	if speed == 0 {
		speed = lineAssumed
	}
	return int64(speed * d.Seconds())
}

// traffic counts bytes, in all and of each of the last seconds.
type traffic struct {
	arriving lineSpeed // of what comes from the service

	mu       sync.Mutex
	moved    int64
	answered time.Time                                // the newest answer
	seconds  [speedOver + 1]struct{ at, bytes int64 } // at is a Unix time
}

func (t *traffic) add(now time.Time, n int64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved += n
	at := now.Unix()
	second := &t.seconds[at%int64(len(t.seconds))]
	if second.at != at {
		second.at, second.bytes = at, 0
	}
	second.bytes += n
}

func (t *traffic) answer(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = now
}

func (t *traffic) lastAnswer() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered
}

func (t *traffic) total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moved
}

// suspended is how much further the clock on the wall must be than the one that stops while the
// machine sleeps.
const suspended = 10 * time.Second

// awake notices that the machine slept. It is for one goroutine.
type awake struct {
	begun  bool
	offset time.Duration // of the clock on the wall from the other one
}

// slept reports whether the machine slept since the last call. running is the time that the
// process has run.
func (a *awake) slept(wall time.Time, running time.Duration) bool {
	offset := time.Duration(wall.UnixNano()) - running
	slept := a.begun && offset-a.offset > suspended
	a.begun, a.offset = true, offset
	return slept
}

// noteSleep ends what the machine slept over: the other ends may have forgotten us.
func (c *Caller) noteSleep() {
	c.mu.Lock()
	slept := c.awake.slept(time.Now(), time.Since(c.made))
	if slept {
		c.deaf = true
		for p := range c.holds {
			p.giveUp(errStill)
		}
	}
	c.mu.Unlock()
	if slept {
		c.closeIdle()
	}
}

// hold notes a call that the service holds, until done.
func (c *Caller) hold(p *pace) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds[p] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.holds, p)
	}
}

// Hears reports whether the service answered the last call that is [Call].Held, and the machine did not sleep since.
// When it slept, Hears ends those that are held.
func (c *Caller) Hears() bool {
	c.noteSleep()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.deaf
}

func (t *traffic) state(now time.Time) network.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := network.Traffic{Moved: t.moved}
	for _, second := range t.seconds {
		if age := now.Unix() - second.at; age > 0 && age <= speedOver {
			s.Speed += second.bytes
		}
	}
	s.Speed /= speedOver
	return s
}
