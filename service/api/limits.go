package api

import (
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/throttle"
)

// newLimits allows each account so many requests per second, and twice as many
// at once; 0 or less means any number.
func newLimits(perSecond int) *throttle.Throttle[string] {
	if perSecond <= 0 {
		return throttle.New[string](rate.Inf, 0)
	}
	return throttle.New[string](rate.Limit(perSecond), 2*perSecond)
}

// admitAccount counts a request, or refuses it.
func (s *server) admitAccount(account string) error {
	if s.limits.Allow(account) {
		return nil
	}
	return &fault.Error{Code: wire.CodeRateLimited, Text: "too many requests: wait a second and repeat what was refused", RetryAfter: time.Second}
}

// admitPage counts a request of the account page.
func (s *server) admitPage(r *http.Request, account string) error {
	traceOf(r.Context()).account = account
	return s.admitAccount(account)
}

// caller authenticates a request and counts it.
func (s *server) caller(r *http.Request) (account string, err error) {
	if account, err = s.authenticate(r); err != nil {
		return "", err
	}
	traceOf(r.Context()).account = account
	return account, s.admitAccount(account)
}
