package call

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const testStall = stallTimes * DefaultTimeout

func paceCaller() *Caller {
	over := &http.Client{Transport: &http.Transport{}}
	return &Caller{cfg: Config{Timeout: DefaultTimeout}, http: over, held: over}
}

// lasts reports how long a request is waited for, of which do is what moves; limit = it was
// not given up.
func (c *Caller) lasts(do func(ctx context.Context, p *pace), limit time.Duration) (time.Duration, error) {
	ctx, p, stop := c.paced(context.Background(), AnswerTimes*c.cfg.Timeout)
	begin := time.Now()
	var done sync.WaitGroup
	done.Go(func() { do(ctx, p) })
	defer done.Wait()
	defer stop()
	select {
	case <-ctx.Done():
	case <-time.After(limit):
	}
	return time.Since(begin), context.Cause(ctx)
}

// every calls do until it returns false or ctx ends.
func every(ctx context.Context, pause time.Duration, do func() bool) {
	for ctx.Err() == nil && do() {
		time.Sleep(pause)
	}
}

// The table of errors in docs/reference/errors.md has the limits that hold.
func TestErrorsHaveTheLimitsOfThePace(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(raw), "\n| `Connection timed out` |")
	row, _, _ = strings.Cut(row, "\n")
	for _, want := range []string{fmt.Sprintf("given up after %.0f seconds", testStall.Seconds()),
		fmt.Sprintf("may take %.0f seconds", (AnswerTimes * DefaultTimeout).Seconds())} {
		if !strings.Contains(row, want) {
			t.Errorf("the row does not say %q: %s", want, row)
		}
	}
}

// E2: what moves is waited for, at 16 KiB a second for any time, and what stands still is
// given up after 30 seconds.
func TestE2PaceOfContent(t *testing.T) {
	const hour = time.Hour
	send := func(bytes int, pause time.Duration) func(context.Context, *pace) {
		return func(ctx context.Context, p *pace) {
			every(ctx, pause, func() bool { p.reading(bytes, false); return true })
		}
	}
	receive := func(bytes int, pause time.Duration) func(context.Context, *pace) {
		return func(ctx context.Context, p *pace) {
			p.enter(receiving)
			every(ctx, pause, func() bool { p.advance(bytes, false); return true })
		}
	}
	// kernel takes all of a body at once; the peer takes so many bytes a second of it, until
	// the rest is stuck.
	kernel := func(size, perSecond, stuck int64) func(context.Context, *pace) {
		return func(ctx context.Context, p *pace) {
			begin := time.Now()
			p.mu.Lock()
			p.unacked = func() int64 { return max(stuck, size-int64(time.Since(begin).Seconds())*perSecond) }
			p.mu.Unlock()
			p.reading(int(size), true)
		}
	}
	// lost is a request that nobody acknowledges.
	lost := func(_ context.Context, p *pace) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unacked = func() int64 { return 700 }
	}
	for name, tc := range map[string]struct {
		do         func(context.Context, *pace)
		from, upTo time.Duration // hour = never given up
		cause      error
	}{
		"sent at 16 KiB a second":     {send(slowestTransfer, time.Second), hour, hour, nil},
		"received at 16 KiB a second": {receive(slowestTransfer, time.Second), hour, hour, nil},
		"received in gusts":           {receive(20*slowestTransfer, 20*time.Second), hour, hour, nil},
		"a byte now and then":         {receive(1, time.Second), testStall, 2 * testStall, errStill},
		"a byte now and then, and the end of the body is seen late": {func(ctx context.Context, p *pace) {
			p.enter(receiving)
			p.reading(0, true)
			every(ctx, time.Second, func() bool { p.advance(1, false); return true })
		}, testStall, 2 * testStall, errStill},
		"slower than that":                        {receive(leastTogether/2, time.Second), testStall, 2 * testStall, errStill},
		"nothing sent":                            {func(_ context.Context, p *pace) { p.reading(1, false) }, testStall, testStall + 6*time.Second, errStill},
		"nothing received":                        {func(_ context.Context, p *pace) { p.enter(receiving) }, testStall, testStall + 6*time.Second, errStill},
		"no answer":                               {func(context.Context, *pace) {}, 60 * time.Second, 60 * time.Second, errTooSlow},
		"no answer to what was sent":              {kernel(1<<20, 1<<20, 0), 60 * time.Second, 70 * time.Second, errTooSlow},
		"a request that is lost":                  {lost, testStall, testStall + 6*time.Second, errStill},
		"the kernel has it, and the line is slow": {kernel(8<<20, slowestTransfer, 0), 8<<20/slowestTransfer*time.Second + 60*time.Second, 600 * time.Second, errTooSlow},
		"the kernel has it, and the line is dead": {kernel(8<<20, slowestTransfer, 1<<20), 448 * time.Second, 500 * time.Second, errStill},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, err := paceCaller().lasts(tc.do, hour)
				if took < tc.from || took > tc.upTo || !errors.Is(err, tc.cause) || tc.cause == errTooSlow && errors.Is(err, errStill) {
					t.Errorf("after %s: %v; want %s to %s and %v", took, err, tc.from, tc.upTo, tc.cause)
				}
			})
		})
	}
}

// A connection that nobody acknowledges is given up early once another one is answered: the
// address of the machine changed. One that moves is not, however slowly.
func TestE2PaceOfDeadConnections(t *testing.T) {
	for name, tc := range map[string]struct {
		left       func(begin time.Time) int64
		from, upTo time.Duration
	}{
		"dead": {func(time.Time) int64 { return 700 }, testStall / deadShare, testStall / 2},
		"slow": {func(begin time.Time) int64 { return 1e6 - int64(time.Since(begin).Seconds())*100 }, 60 * time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := paceCaller()
				took, err := c.lasts(func(ctx context.Context, p *pace) {
					begin := time.Now()
					p.mu.Lock()
					p.unacked = func() int64 { return tc.left(begin) }
					p.mu.Unlock()
					every(ctx, time.Second, func() bool { c.traffic.answer(time.Now()); return true }) // to others
				}, time.Hour)
				if took < tc.from || took > tc.upTo || !errors.Is(err, errStill) {
					t.Errorf("after %s: %v; want %s to %s", took, err, tc.from, tc.upTo)
				}
			})
		})
	}
}

// Connections from before the machine slept are not used: the clock that stops meanwhile is
// behind the one on the wall.
func TestSleepIsNoticed(t *testing.T) {
	t.Parallel()
	var a awake
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for i, tc := range []struct {
		wall, running time.Duration
		want          bool
	}{{0, 0, false}, {time.Hour, time.Hour, false}, {2 * time.Hour, time.Hour + time.Minute, true}, {2*time.Hour + time.Minute, time.Hour + 2*time.Minute, false},
		{time.Hour, time.Hour + 3*time.Minute, false}, {time.Hour + time.Minute, time.Hour + 4*time.Minute, false}} {
		if got := a.slept(at.Add(tc.wall), tc.running); got != tc.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// E2: many transfers share a slow line. None of them is given up because it gets little of it.
func TestE2PaceOfManyTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := paceCaller()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				_, err := c.lasts(func(ctx context.Context, p *pace) {
					p.enter(receiving)
					every(ctx, 4*time.Second, func() bool { p.advance(4*slowestTransfer/16, false); return true })
				}, time.Hour)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// A line is what arrives in three round trips at its highest speed of late: pauses, and what lay in the kernel
// meanwhile, do not count.
func TestTrafficOfALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := paceCaller()
		want := func(line int64) {
			t.Helper()
			if got := c.Traffic().Line / lineTrips; (got-line)*20 > line || (line-got)*20 > line {
				t.Errorf("the line holds %d bytes, want about %d", got, line)
			}
		}
		arrive := func(pause time.Duration, n, times int) {
			for range times {
				time.Sleep(pause)
				c.traffic.arriving.add(time.Now(), int64(n))
			}
		}
		c.FarAfter = far
		c.distance.note(time.Second)
		want(lineAssumed)
		c.distance.note(200 * time.Millisecond)
		arrive(10*time.Millisecond, 1000, 30) // a list says nothing
		want(lineAssumed / 5)
		arrive(time.Millisecond, 10_000, 500)
		want(2_000_000)
		time.Sleep(time.Second)
		arrive(0, 3_000_000, 1)
		arrive(time.Millisecond, 5_000, 500)
		want(2_000_000)
		time.Sleep(lineLasts)
		arrive(time.Millisecond, 5_000, 500)
		want(1_000_000)
		c.distance.note(time.Millisecond)
		want(0)
	})
}

// The speed is that of the last seconds, whenever it is asked for.
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := paceCaller()
		want := func(moved, speed int64) {
			t.Helper()
			if got := c.Traffic(); got.Moved != moved || (got.Speed-speed)*10 > speed || (speed-got.Speed)*10 > speed {
				t.Errorf("%+v, want %d and about %d", got, moved, speed)
			}
		}
		want(0, 0)
		_, _ = c.lasts(func(ctx context.Context, p *pace) {
			p.enter(receiving)
			every(ctx, time.Second, func() bool { p.advance(1<<20, false); return true })
		}, time.Minute-time.Millisecond)
		want(60<<20, 1<<20)
		time.Sleep(5 * time.Second)
		want(60<<20, 1<<19)
		time.Sleep(time.Hour)
		want(60<<20, 0)
		_, _ = c.lasts(func(_ context.Context, p *pace) { // too short for a look at the kernel
			p.unacked = func() int64 { return 0 }
			p.reading(1000, true)
			p.enter(receiving)
		}, time.Second)
		want(60<<20+1000, 100)
	})
}
