package call

import (
	"context"
	"sync"
	"time"
)

// forgottenOutage is after which time without any try an outage is taken for over.
const forgottenOutage = time.Minute

// outage is the time since connections to the service began to be refused, or to break.
type outage struct {
	mu          sync.Mutex
	began, last time.Time // zero: there is none
}

// failed notes a connection that failed, and returns when the outage began.
func (o *outage) failed(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() || now.Sub(o.last) > forgottenOutage {
		o.began = now
	}
	o.last = now
	return o.began
}

// over notes an answer.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began, o.last = time.Time{}, time.Time{}
}

// since returns when the outage began; zero = there is none.
func (o *outage) since(now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.last) > forgottenOutage {
		return time.Time{}
	}
	return o.began
}

// OutageSince returns when connections to the service began to be refused, or to break; zero = the last request
// was answered, or there was none for a minute. All calls count. A service that takes connections and does not
// answer is no outage.
func (c *Caller) OutageSince() time.Time { return c.outage.since(time.Now()) }

type bridgedKey struct{}

// Bridging returns a context for calls that wait through an outage, for [Config].Patience.
func Bridging(ctx context.Context) context.Context { return context.WithValue(ctx, bridgedKey{}, true) }

// NotBridging ends what Bridging began.
func NotBridging(ctx context.Context) context.Context {
	return context.WithValue(ctx, bridgedKey{}, false)
}

func isBridging(ctx context.Context) bool {
	is, _ := ctx.Value(bridgedKey{}).(bool)
	return is
}

// bridge is the wait of one call through an outage.
type bridge struct {
	c     *Caller
	start time.Time
	began time.Time // zero: nothing failed yet
}

// holds reports whether the call goes on trying after err: the connection was lost, and
// neither the service nor this call fails for too long. A service that answers and then
// breaks every connection ends no outage. spent means that the call has waited through an outage
// for all of the patience.
func (b *bridge) holds(ctx context.Context, err error) (holds, spent bool) {
	patience := b.c.cfg.Patience
	if patience <= 0 || !isBridging(ctx) || !IsLost(err) || ctx.Err() != nil {
		return false, false
	}
	now := time.Now()
	if b.began.IsZero() {
		b.began = now
	}
	began := b.c.outage.failed(now)
	if now.Sub(began) >= patience {
		return false, began.After(b.start)
	}
	return now.Sub(b.began) < patience, false
}
