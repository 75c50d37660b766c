package auth

import (
	"sync"
	"time"

	"github.com/svcfs/svcfs/service/vaultwire"
)

// settled is how long a clock must go on evenly after it was set, before it is believed.
const settled = time.Minute

// drift is a second in so many: no clock that works is slower or faster.
const drift = 1000

// clock compares the clock of the machine, which people and programs set, with a stopwatch, which nobody sets.
// A clock that was set back gives tokens that live too long, or that live again. It is safe for concurrent use.
type clock struct {
	now     func() time.Time     // the machine's clock
	elapsed func() time.Duration // the stopwatch, since the process began

	mu    sync.Mutex
	begun time.Time     // by the machine's clock, when the stopwatch began
	seen  time.Duration // on the stopwatch, when the clock was looked at last
	step  time.Duration // by which the clock was set, while it is not believed; 0 = it is right
	at    time.Duration // on the stopwatch, when step was seen first
}

func newClock(now func() time.Time) *clock {
	started := time.Now()
	return &clock{now: now, elapsed: func() time.Duration { return time.Since(started) }, begun: now().Round(0)}
}

// setBack returns by how much the clock was set back, 0 if it was not. A step of the clock, in either direction, is
// believed once the clock has gone on evenly for settled. Less than [vaultwire.TokenLeeway] is no step; a clock that is
// slow or fast by less than drift is followed.
func (c *clock) setBack() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	elapsed := c.elapsed()
	off := c.now().Round(0).Sub(c.begun.Add(elapsed))
	most := (elapsed - c.seen) / drift
	c.seen = elapsed
	if off.Abs() <= vaultwire.TokenLeeway {
		c.begun, c.step = c.begun.Add(min(max(off, -most), most)), 0
		return 0
	}
	if (off - c.step).Abs() > vaultwire.TokenLeeway {
		c.step, c.at = off, elapsed
	}
	if elapsed-c.at < settled {
		return max(-off, 0)
	}
	c.begun, c.step = c.begun.Add(off), 0
	return 0
}
