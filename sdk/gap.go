package sdk

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// longestPause bounds the pause between two tries to reach the service.
const longestPause = time.Second

// forgottenGap is after which time without any try a gap is taken for over.
const forgottenGap = time.Minute

// gap is the time since connections to the service began to be refused, or to break.
type gap struct {
	mu          sync.Mutex
	began, last time.Time // zero: there is none
}

// failed notes a connection that failed, and returns when the gap began.
func (g *gap) failed(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began.IsZero() || now.Sub(g.last) > forgottenGap {
		g.began = now
	}
	g.last = now
	return g.began
}

// over notes an answer.
func (g *gap) over() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began, g.last = time.Time{}, time.Time{}
}

type bridgedKey struct{}

// bridging returns a context for calls that wait for [Config].Patience.
func bridging(ctx context.Context) context.Context { return context.WithValue(ctx, bridgedKey{}, true) }

// notBridging ends what bridging began.
func notBridging(ctx context.Context) context.Context {
	return context.WithValue(ctx, bridgedKey{}, false)
}

// bridge is the wait of one call.
type bridge struct {
	c     *Client
	began time.Time // zero: nothing failed yet
}

// holds reports whether the call goes on trying after err: the connection was lost, and
// neither the service nor this call fails for too long. A service that answers and then
// breaks every connection ends no gap.
func (b *bridge) holds(ctx context.Context, err error) bool {
	waits, _ := ctx.Value(bridgedKey{}).(bool)
	if !waits || !isConnectionLost(err) || ctx.Err() != nil {
		return false
	}
	now := time.Now()
	if b.began.IsZero() {
		b.began = now
	}
	return now.Sub(b.c.gap.failed(now)) < b.c.cfg.Patience && now.Sub(b.began) < b.c.cfg.Patience
}

// repeatInGap runs send, and again while the connection is lost with errors that may
// reports as repeatable.
func (c *Client) repeatInGap(ctx context.Context, may func(error) bool, send func() error) error {
	b := bridge{c: c}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := send()
		if err == nil || !may(err) || !b.holds(ctx, err) {
			return err
		}
		if err := rest(ctx, jittered(pause), err); err != nil {
			return err
		}
	}
}

// isUnsent reports an error of a request that never left: no connection could be made.
func isUnsent(err error) bool {
	var lost *net.OpError
	return errors.As(err, &lost) && lost.Op == "dial"
}
