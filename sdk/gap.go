package sdk

import (
	"context"
	"crypto/tls"
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

// Connection is how it stands with the connections to the service.
type Connection uint8

// The states of [Client.Connection].
const (
	Connected    Connection = iota // the last request was answered, or there was none for a minute
	Reconnecting                   // connections are refused or break, for less than Config.Patience
	Disconnected                   // they have been for longer
)

// Connection reports how it stands with the connections to the service. It asks nothing: the
// requests of all calls count. A service that accepts connections and does not answer is
// Connected. Local, free.
func (c *Client) Connection() Connection { return c.gap.state(time.Now(), c.cfg.Patience) }

func (g *gap) state(now time.Time, patience time.Duration) Connection {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.began.IsZero() || now.Sub(g.last) > forgottenGap:
		return Connected
	case now.Sub(g.began) < patience:
		return Reconnecting
	default:
		return Disconnected
	}
}

type bridgedKey struct{}

// bridging returns a context for calls that wait for [Config].Patience.
func bridging(ctx context.Context) context.Context { return context.WithValue(ctx, bridgedKey{}, true) }

// notBridging ends what bridging began.
func notBridging(ctx context.Context) context.Context {
	return context.WithValue(ctx, bridgedKey{}, false)
}

func isBridging(ctx context.Context) bool {
	is, _ := ctx.Value(bridgedKey{}).(bool)
	return is
}

// bridge is the wait of one call.
type bridge struct {
	c     *Client
	start time.Time
	began time.Time // zero: nothing failed yet
}

func (c *Client) bridge() bridge { return bridge{c: c, start: time.Now()} }

// holds reports whether the call goes on trying after err: the connection was lost, and
// neither the service nor this call fails for too long. A service that answers and then
// breaks every connection ends no gap. spent means that the call has waited through a gap
// for all of the patience.
func (b *bridge) holds(ctx context.Context, err error) (holds, spent bool) {
	patience := b.c.cfg.Patience
	if patience <= 0 || !isBridging(ctx) || !isConnectionLost(err) || ctx.Err() != nil {
		return false, false
	}
	now := time.Now()
	if b.began.IsZero() {
		b.began = now
	}
	gap := b.c.gap.failed(now)
	if now.Sub(gap) >= patience {
		return false, gap.After(b.start)
	}
	return now.Sub(b.began) < patience, false
}

// repeatInGap runs send, and again while the connection is lost with errors that may
// reports as repeatable.
func (c *Client) repeatInGap(ctx context.Context, may func(error) bool, send func() error) error {
	b := c.bridge()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := send()
		if err == nil || !may(err) {
			return err
		}
		if holds, _ := b.holds(ctx, err); !holds {
			return err
		}
		if err := rest(ctx, jittered(pause), err); err != nil {
			return err
		}
	}
}

// isUnsent reports an error of a request that never left: no connection to the service could be made.
func isUnsent(err error) bool {
	var lost *net.OpError
	return errors.As(err, &lost) && lost.Op == "dial" || errors.As(err, new(*tls.CertificateVerificationError))
}
