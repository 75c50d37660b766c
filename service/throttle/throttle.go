// Package throttle bounds how often each of many callers does something, how many
// things it does at a time, and how much memory they take.
package throttle

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxCallers bounds the memory of one throttle.
const maxCallers = 10_000

// Throttle counts by caller. It is safe for concurrent use.
type Throttle[Caller comparable] struct {
	perSecond rate.Limit
	atOnce    int

	mu      sync.Mutex
	callers map[Caller]*rate.Limiter
}

// New allows each caller so many times per second, and so many at once.
func New[Caller comparable](perSecond rate.Limit, atOnce int) *Throttle[Caller] {
	return &Throttle[Caller]{perSecond: perSecond, atOnce: atOnce, callers: make(map[Caller]*rate.Limiter)}
}

// Allow counts one time and reports whether it is within the bound.
func (t *Throttle[Caller]) Allow(c Caller) bool {
	return t.of(c).Allow()
}

// Charge counts n times more, for an allowed action that turned out to be large. The
// caller waits longer before its next time.
func (t *Throttle[Caller]) Charge(c Caller, n int) {
	for l := t.of(c); n > 0 && l.Burst() > 0; n -= l.Burst() {
		l.ReserveN(time.Now(), min(n, l.Burst()))
	}
}

func (t *Throttle[Caller]) of(c Caller) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.callers[c]
	if l == nil {
		t.makeRoom()
		l = rate.NewLimiter(t.perSecond, t.atOnce)
		t.callers[c] = l
	}
	return l
}

// Would reports whether [Throttle.Allow] would allow it, and counts nothing.
func (t *Throttle[Caller]) Would(c Caller) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.callers[c]
	return l == nil || l.Tokens() >= 1
}

// Network is the unit that counts as one client: an IPv4 address, or the 64 bits of an
// IPv6 address, the least that a subscriber has.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// makeRoom forgets callers that have their full allowance again, or all callers when
// none has.
func (t *Throttle[Caller]) makeRoom() {
	if len(t.callers) < maxCallers {
		return
	}
	for c, l := range t.callers {
		if l.Tokens() >= float64(l.Burst()) {
			delete(t.callers, c)
		}
	}
	if len(t.callers) >= maxCallers {
		clear(t.callers)
	}
}
