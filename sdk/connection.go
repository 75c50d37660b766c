package sdk

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
)

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
func (c *Client) Connection() Connection {
	switch since := c.calls.OutageSince(); {
	case since.IsZero():
		return Connected
	case time.Since(since) < c.cfg.Patience:
		return Reconnecting
	default:
		return Disconnected
	}
}

// WithPatience returns a context that ends calls with [ErrTimeout] once nothing has moved
// for d. A call that moves, such as a long list or a large file, may take longer than d. d
// never extends [Config].Timeout. The caller must call cancel.
func WithPatience(ctx context.Context, d time.Duration) (patient context.Context, cancel context.CancelFunc) {
	return call.WithPatience(ctx, d)
}

// Traffic is what all calls of a client move of content and of lists, in bytes.
type Traffic struct {
	Moved int64 // since the client was made: what arrived here, and what the service acknowledged
	Speed int64 // a second, of the last ten seconds
	// Line is what the line from the service brings in three round trips, so that a reader who has as much under
	// way waits for the line alone: a request that begins when the first bytes are here has its answer before the
	// last are. 0 = the service is nearer than 20 ms. Until a speed was seen it is that of 100 Mbit/s.
	Line int64
}

// Traffic returns what the calls of this client move, for progress and for deciding whether a
// wait is of use. What a service acknowledged is looked at every two seconds. Local, free.
func (c *Client) Traffic() Traffic { return Traffic(c.calls.Traffic()) }

// LeastLimit is the lowest [Limit], in bytes a second: what is slower counts as standing still.
const LeastLimit = call.LeastLimit

// Limit is how fast all calls of a client together may receive and send, in bytes a second; 0 = as fast as the line.
type Limit struct{ Down, Up int64 }

// SetLimit changes the limit, also for what is under way. Requests and answers count with their heads, before TLS;
// those without content do not wait, content makes up for them. What is small, up to 512 KiB, goes before parts of
// what is large. Errors: [ErrInvalid] for a limit below [LeastLimit], and nothing changes. Local, free.
func (c *Client) SetLimit(l Limit) error {
	if err := call.Limit(l).Check(); err != nil {
		return &Error{Op: "limit the speed", Kind: ErrInvalid, Err: err}
	}
	c.calls.SetLimit(call.Limit(l))
	return nil
}

// Limit returns the limit. Local, free.
func (c *Client) Limit() Limit { return Limit(c.calls.Limit()) }
