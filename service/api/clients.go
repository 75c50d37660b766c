package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/throttle"
)

const (
	// failuresPerClient is how many failed sign-ins an address has per minute.
	failuresPerClient = 100
	// looksPerClient is how many requests without an account a network has per
	// second, looksAtOnce how many it may have saved up: verifying a ledger of a
	// million records takes about 4,000. A long answer counts once more for each
	// lookBytes.
	looksPerClient = 200
	looksAtOnce    = 5_000
	lookBytes      = 4 << 10
	// openPerClient is how many requests without an account a network has at a time.
	openPerClient = 64
)

// clients counts, by network, failed sign-ins and requests without an account. This
// machine is a client like every other, because a request from a loopback address may
// come through a proxy.
type clients struct {
	trusted         []netip.Prefix
	failures, looks *throttle.Throttle[netip.Addr] // by network
	open            *throttle.Slots[netip.Addr]    // requests without an account under way, by network
	log             *slog.Logger
	proxySeen       sync.Once
}

func newClients(trusted []netip.Prefix, log *slog.Logger) *clients {
	return &clients{trusted: trusted, failures: throttle.New[netip.Addr](rate.Every(time.Minute/failuresPerClient),
		failuresPerClient),
		looks: throttle.New[netip.Addr](looksPerClient, looksAtOnce),
		open:  throttle.NewSlots[netip.Addr](openPerClient), log: log}
}

// address is [throttle.Address], with a warning in the log about a proxy that is not trusted.
func (c *clients) address(r *http.Request) netip.Addr {
	addr := throttle.Address(r, c.trusted)
	if addr.IsLoopback() && r.Header.Get("X-Forwarded-For") != "" &&
		!slices.ContainsFunc(c.trusted, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		c.proxySeen.Do(func() {
			c.log.Warn("a proxy on this machine is not trusted, so all of its clients share the limits of one "+
				"address: give --trusted-proxy "+
				netip.PrefixFrom(addr, addr.BitLen()).String(), "proxy", addr.String())
		})
	}
	return addr
}

// mayFail reports whether an address has had few enough failed sign-ins to learn of
// another one. A right sign-in is never refused for this, so a client cannot lock out
// others that share its address.
func (c *clients) mayFail(a netip.Addr) bool { return c.failures.Would(throttle.Network(a)) }

// failed counts a failed sign-in.
func (c *clients) failed(a netip.Addr) { c.failures.Allow(throttle.Network(a)) }

// enter counts a request that needs no account, until leave is called, or refuses it.
func (c *clients) enter(a netip.Addr) (leave func(), err error) {
	if !c.looks.Allow(throttle.Network(a)) {
		return nil, &fault.Error{Code: wire.CodeRateLimited,
			Text:       "too many requests from your address: wait a second and send the request again",
			RetryAfter: time.Second}
	}
	leave, ok := c.open.Take(throttle.Network(a))
	if !ok {
		return nil, &fault.Error{Code: wire.CodeRateLimited,
			Text: fmt.Sprintf("too many requests from your address: %d without an account are under way, "+
				"wait a second and send the request again", openPerClient), RetryAfter: time.Second}
	}
	return leave, nil
}

// answered counts the bytes of an answer to a request without an account.
func (c *clients) answered(a netip.Addr, n int64) {
	c.looks.Charge(throttle.Network(a), int(n/lookBytes))
}

// open admits requests of next, which needs no account, by address.
func (s *server) open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, err := s.clients.enter(traceOf(r.Context()).client)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
