package sdk

import (
	"time"

	"github.com/svcfs/svcfs/sdk/network"
)

// Connection reports how it stands with the connections to the service. It asks nothing: the
// requests of all calls count. A service that accepts connections and does not answer is
// connected. Local, free.
func (c *Client) Connection() network.Connection {
	switch since := c.calls.OutageSince(); {
	case since.IsZero():
		return network.Connected
	case time.Since(since) < c.cfg.Patience:
		return network.Reconnecting
	default:
		return network.Disconnected
	}
}

// Traffic returns what the calls of this client move, for progress and for deciding whether a
// wait is of use. What a service acknowledged is looked at every two seconds. Local, free.
func (c *Client) Traffic() network.Traffic { return c.calls.Traffic() }

// SetLimit changes the limit, also for what is under way. Requests and answers count with their heads, before TLS;
// those without content do not wait, content makes up for them. What is small, up to 512 KiB, goes before parts of
// what is large. Errors: [ErrInvalid] for a limit below [network.LeastLimit], and nothing changes. Local, free.
func (c *Client) SetLimit(l network.Limit) error {
	if err := l.Check(); err != nil {
		return &Error{Op: "limit the speed", Kind: ErrInvalid, Err: err}
	}
	c.calls.SetLimit(l)
	return nil
}

// Limit returns the limit. Local, free.
func (c *Client) Limit() network.Limit { return c.calls.Limit() }
