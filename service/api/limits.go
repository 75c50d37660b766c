package api

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

// maxLimiters is how many accounts are counted before those that rest are
// forgotten.
const maxLimiters = 10_000

// limits bounds the requests of each account.
type limits struct {
	perSecond int // 0 = no bound

	mu       sync.Mutex
	accounts map[string]*rate.Limiter
}

// newLimits allows each account so many requests per second, and twice as many
// at once.
func newLimits(perSecond int) *limits {
	return &limits{perSecond: max(perSecond, 0), accounts: map[string]*rate.Limiter{}}
}

// admit counts a request, or refuses it.
func (l *limits) admit(account string) error {
	if l.perSecond == 0 || l.of(account).Allow() {
		return nil
	}
	return &fault.Error{Code: wire.CodeRateLimited, Text: "too many requests: wait a second and repeat what was refused", RetryAfter: time.Second}
}

func (l *limits) of(account string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.accounts[account]
	if found != nil {
		return found
	}
	if len(l.accounts) >= maxLimiters {
		for id, other := range l.accounts {
			if other.Tokens() >= float64(other.Burst()) { // as good as new
				delete(l.accounts, id)
			}
		}
	}
	made := rate.NewLimiter(rate.Limit(l.perSecond), 2*l.perSecond)
	l.accounts[account] = made
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
