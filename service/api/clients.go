package api

import (
	"net/http"
	"net/netip"
	"strings"
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
	// million records takes about 4,000.
	looksPerClient = 200
	looksAtOnce    = 5_000
)

// clients knows where requests come from, who fails to sign in too often, and who
// looks too often at what needs no account.
type clients struct {
	trusted         []netip.Prefix
	failures, looks *throttle.Throttle[netip.Addr] // by network
}

func newClients(trusted []netip.Prefix) *clients {
	return &clients{trusted: trusted, failures: throttle.New[netip.Addr](rate.Every(time.Minute/failuresPerClient), failuresPerClient),
		looks: throttle.New[netip.Addr](looksPerClient, looksAtOnce)}
}

// address returns the client's address: that of the connection or, as long as
// that is a trusted proxy's, the next one it names in X-Forwarded-For, from the
// right. What an untrusted one claims is not looked at.
func (c *clients) address(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && c.isTrusted(addr); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = next.Unmap().WithZone("")
	}
	return addr
}

func (c *clients) isTrusted(a netip.Addr) bool {
	for _, network := range c.trusted {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// network is what counts as one client: an IPv4 address, or the 64 bits of an IPv6
// address that a subscriber has at least.
func network(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// mayTry reports whether an address has had few enough failures.
func (c *clients) mayTry(a netip.Addr) bool { return c.failures.Would(network(a)) }

// failed counts a failure. The machine itself is not counted.
func (c *clients) failed(a netip.Addr) {
	if a.IsValid() && !a.IsLoopback() {
		c.failures.Allow(network(a))
	}
}

// mayLook counts a request that needs no account, or refuses it. The machine itself
// is not counted.
func (c *clients) mayLook(a netip.Addr) error {
	if !a.IsValid() || a.IsLoopback() || c.looks.Allow(network(a)) {
		return nil
	}
	return &fault.Error{Code: wire.CodeRateLimited, Text: "too many requests from your address: wait a second and repeat what was refused", RetryAfter: time.Second}
}

// open counts the requests of next, which needs no account, by address.
func (s *server) open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.clients.mayLook(traceOf(r.Context()).client); err != nil {
			s.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
