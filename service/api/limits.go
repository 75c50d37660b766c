package api

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

// maxLimiters is how many of them are counted before those that rest are
// forgotten.
const maxLimiters = 10_000

// limits bounds the requests of each account, and of each address that asks
// without one.
type limits struct {
	perSecond int // 0 = no bound

	mu  sync.Mutex
	who map[string]*rate.Limiter
}

// newLimits allows each so many requests per second, and twice as many
// at once.
func newLimits(perSecond int) *limits {
	return &limits{perSecond: max(perSecond, 0), who: map[string]*rate.Limiter{}}
}

// admit counts a request, or refuses it.
func (l *limits) admit(who string) error {
	if l.perSecond == 0 || l.of(who).Allow() {
		return nil
	}
	return &fault.Error{Code: wire.CodeRateLimited, Text: "too many requests: wait a second and repeat what was refused", RetryAfter: time.Second}
}

func (l *limits) of(who string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.who[who]
	if found != nil {
		return found
	}
	if len(l.who) >= maxLimiters {
		for id, other := range l.who {
			if other.Tokens() >= float64(other.Burst()) { // as good as new
				delete(l.who, id)
			}
		}
	}
	made := rate.NewLimiter(rate.Limit(l.perSecond), 2*l.perSecond)
	l.who[who] = made
	return made
}

// admitPage counts a request of the account page.
func (s *server) admitPage(r *http.Request, account string) error {
	traceOf(r.Context()).account = account
	return s.limits.admit(account)
}

// caller authenticates a request and counts it.
func (s *server) caller(r *http.Request) (account string, err error) {
	if account, err = s.authenticate(r); err != nil {
		return "", err
	}
	traceOf(r.Context()).account = account
	return account, s.limits.admit(account)
}

// admitClient counts a request that needs no account, by its address. The machine
// itself is not counted: it may be a proxy that nobody told to trust.
func (s *server) admitClient(r *http.Request) error {
	client := traceOf(r.Context()).client
	if !client.IsValid() || client.IsLoopback() {
		return nil
	}
	return s.limits.admit(network(client).String())
}
