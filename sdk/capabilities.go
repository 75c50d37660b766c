package sdk

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
	"golang.org/x/sync/singleflight"
)

// capabilities are what a service said of itself.
type capabilities struct {
	c      *Client
	asking singleflight.Group // the request for them

	mu    sync.Mutex
	known *wire.Capabilities // nil until asked
	at    time.Time          // when
}

// withoutVault is how long the answer of a service whose vault was away is taken for the newest.
const withoutVault = 30 * time.Second

// seen returns them if they were asked, else nil.
func (k *capabilities) seen() *wire.Capabilities {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.known
	if known != nil && known.Dialect.IsOurs() && known.Vault == nil && time.Since(k.at) > withoutVault {
		return nil
	}
	return known
}

// Capabilities returns which dialect the service speaks, and its limits. A service without the
// path, or with something else there, speaks that of the hosted one. The first call asks the
// service, later calls are local; after an error the next call asks again. Free, no
// authentication. Errors: [ErrUnavailable], [ErrTimeout], [ErrRateLimited], and [ErrCorrupt] when
// the service no longer speaks the dialect that it spoke before.
func (c *Client) Capabilities(ctx context.Context) (wire.Capabilities, error) {
	if known := c.caps.seen(); known != nil {
		return *known, nil
	}
	var caps wire.Capabilities
	err := c.calls.Repeat(ctx, call.Free, func(ctx context.Context) (err error) {
		caps, err = c.caps.shared(ctx)
		return err
	})
	return caps, c.wrap("ask capabilities", "", "", err)
}

// shared asks once for all callers that wait. Each of them repeats it by itself.
func (k *capabilities) shared(ctx context.Context) (wire.Capabilities, error) {
	asked := k.asking.DoChan("", func() (any, error) {
		return k.ask(call.NotBridging(context.WithoutCancel(ctx)))
	})
	select {
	case r := <-asked:
		caps, _ := r.Val.(wire.Capabilities)
		return caps, r.Err
	case <-ctx.Done():
		return wire.Capabilities{}, call.Ended(ctx)
	}
}

// ask asks, and keeps the answer for later calls. An answer that makes no sense
// counts as that of the hosted service, unless the service must prove what it lists.
func (k *capabilities) ask(ctx context.Context) (wire.Capabilities, error) {
	var caps wire.Capabilities
	err := k.c.calls.Do(ctx, call.Call{Kind: call.Once, Method: http.MethodGet,
		URL: k.c.cfg.MCPURL + wire.PathCapabilities, Answer: call.Document(&caps)})
	if errors.Is(err, call.ErrPage) && !k.c.log.demandsProofs() { // a service without this path may have a page for all
		err = call.Malformed(errors.New(call.ErrPage.Error()))
	}
	var refused *call.Refusal
	isRefused := errors.As(err, &refused)
	switch kind := classify(err); {
	case kind == ErrUnavailable, kind == ErrTimeout, kind == ErrCanceled, kind == ErrRateLimited,
		isRefused && refused.IsTemporary():
		return wire.Capabilities{}, err
	}
	if err != nil {
		caps = wire.Capabilities{}
		lacksPath := isRefused && refused.Status == http.StatusNotFound
		if !lacksPath && k.c.log.demandsProofs() { // a fault
			return caps, err
		}
	}
	if err := k.c.log.checkDialect(caps.Dialect); err != nil {
		return wire.Capabilities{}, err
	}
	if !isRefused || refused.Status < http.StatusInternalServerError { // after a fault the next call asks again
		k.mu.Lock()
		k.known, k.at = &caps, time.Now()
		k.mu.Unlock()
	}
	return caps, nil
}

// Price returns the price of an action, see [Client.EstimateFee], if an earlier answer
// of the service holds it. Local, free.
func (c *Client) Price(action string) (Amount, bool) {
	known := c.caps.seen()
	if known == nil {
		return Amount{}, false
	}
	fee, err := wire.ParseAmount(known.Fees[action])
	return fee, err == nil
}
