package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/throttle"
)

const (
	// maxRequestBytes bounds a JSON request of an account without file content:
	// two names of the longest, escaped, and more.
	maxRequestBytes = 64 << 10
	// maxRPCBytes and maxSignInBytes bound requests that need no account.
	maxRPCBytes    = 16 << 10
	maxSignInBytes = 4 << 10
	// maxDepth bounds the nesting of a request.
	maxDepth = 32
	// underWayPerAccount bounds the requests of an account that are being answered.
	underWayPerAccount = 256
	// openAnswerTimes bounds an answer to a client that is not signed in: the client
	// must take the whole answer within so many client time-outs.
	openAnswerTimes = 4
	// memoryWait is how long a request waits for memory.
	memoryWait = 2 * time.Second
)

// newLimits allows each account so many requests per second, and twice as many
// at once; 0 or less means any number.
func newLimits(perSecond int) *throttle.Throttle[string] {
	if perSecond <= 0 {
		return throttle.New[string](rate.Inf, 0)
	}
	return throttle.New[string](rate.Limit(perSecond), 2*perSecond)
}

// admitAccount counts a request of an account that is signed in until it is
// answered, or refuses it.
func (s *server) admitAccount(r *http.Request, account string) error {
	t := traceOf(r.Context())
	t.account = account
	if !s.limits.Allow(account) {
		return &fault.Error{Code: wire.CodeRateLimited,
			Text: "too many requests: wait a second and send the request again", RetryAfter: time.Second}
	}
	release, ok := s.underWay.Take(account)
	if !ok {
		return &fault.Error{Code: wire.CodeRateLimited,
			Text: fmt.Sprintf("too many requests: %d of the account are under way: wait for their answers",
				underWayPerAccount),
			RetryAfter: time.Second}
	}
	t.atEnd(release)
	t.atEnd(s.SignedIn(r.Context()))
	return nil
}

// memory is the budget of the process for bodies and answers, in bytes: one half for
// files inside JSON, an eighth for clients that are not signed in, and the rest for
// other requests of accounts, of which bodies that may take long have one half at
// most. No kind is refused because of another.
type memory struct {
	inline, bodies *throttle.Bytes
	open, accounts budget
}

// budget is the memory of one kind of clients, of which requests that may take long have
// three quarters at most.
type budget struct{ all, long *throttle.Bytes }

func newMemory(total int64) memory {
	accounts := total - total/2 - total/8
	return memory{inline: throttle.NewBytes(total / 2), bodies: throttle.NewBytes(accounts / 2),
		open: newBudget(total / 8), accounts: newBudget(accounts)}
}

func newBudget(total int64) budget {
	return budget{all: throttle.NewBytes(total), long: throttle.NewBytes(total * 3 / 4)}
}

// holdForBody is holdMemory for a request of an account whose body is content. A body that is
// longer than a small request may take its time, and leaves memory to those that may not.
func (s *server) holdForBody(r *http.Request, n int64) error {
	if r.ContentLength >= 0 && r.ContentLength <= maxRequestBytes {
		return s.holdMemory(r, n)
	}
	t := traceOf(r.Context())
	if err := hold(r.Context(), s.memory.bodies, t.account, n, t.held, memoryWait); err != nil {
		return err
	}
	if err := s.holdLong(r, n); err != nil {
		return err
	}
	t.until(time.Time{})
	return nil
}

// holdMemory takes memory from the budget of the process until the request is answered,
// or refuses the request. A client that is not signed in is counted by address.
func (s *server) holdMemory(r *http.Request, n int64) error {
	t := traceOf(r.Context())
	memory, owner := s.memoryOf(t)
	has := t.held
	t.held += max(n, 1)
	return hold(r.Context(), memory.all, owner, n, has, memoryWait)
}

// holdLong is holdMemory for a request that may take its time, such as one whose client takes a list slowly. It leaves
// memory to those that may not.
func (s *server) holdLong(r *http.Request, n int64) error {
	t := traceOf(r.Context())
	memory, owner := s.memoryOf(t)
	if err := hold(r.Context(), memory.long, owner, n, t.held, memoryWait); err != nil {
		return err
	}
	return s.holdMemory(r, n)
}

func (s *server) memoryOf(t *trace) (memory budget, owner string) {
	if t.account == "" {
		return s.memory.open, throttle.Network(t.client).String()
	}
	return s.memory.accounts, t.account
}

// holdForFile is holdMemory for a request of an account that may hold memory already: with it
// the request takes no more than the share of an account, or it would wait for itself.
func (s *server) holdForFile(ctx context.Context, n int64) error {
	t := traceOf(ctx)
	if n = min(n, s.memory.accounts.all.Share()-t.held); n <= 0 {
		return nil
	}
	has := t.held
	t.held += n
	return hold(ctx, s.memory.accounts.all, t.account, n, has, memoryWait)
}

// hold waits for n bytes more for a request that has some. What was taken ahead for it is there without waiting, as
// others that wait already would be served first.
func hold(ctx context.Context, memory *throttle.Bytes, owner string, n, has int64, patience time.Duration) error {
	if has+max(n, 1) <= traceOf(ctx).ahead {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	release, ok := memory.Wait(wait, owner, n, has)
	if !ok {
		return &fault.Error{Code: wire.CodeUnavailable,
			Text:       "the service has too many large requests under way: try again in a moment",
			RetryAfter: 2 * time.Second}
	}
	traceOf(ctx).atEnd(release)
	return nil
}

// workPerCore bounds, per core, the requests that keep a core busy for long: the
// checksum of a large file, the root over its blocks, the length of a long view. Others wait for their turn, so
// that a small request such as /health gets a core at once.
const workPerCore = 4

// turn waits until a request may keep a core busy. The request calls done afterwards,
// and before it waits for a client.
func (s *server) turn(ctx context.Context) (done func(), err error) {
	if err := s.work.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.work.Release(1) }, nil
}
