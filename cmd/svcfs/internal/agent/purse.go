package agent

import (
	"errors"
	"sync"

	"github.com/svcfs/svcfs/sdk"
)

// purse adds up what the agent spends. It is safe for concurrent use.
type purse struct {
	limit sdk.Amount // zero = nothing that costs

	mu   sync.Mutex
	used sdk.Amount // spent, and set aside for charges under way
}

// pay sets price aside, or refuses before anything is charged; do makes the charge and
// returns it, with an error what was charged before that. A charge that the service does not
// tell, or that failed so that it may have been made, counts as the price.
func (p *purse) pay(price sdk.Amount, do func() (fee sdk.Amount, err error)) error {
	if err := p.take(price); err != nil {
		return err
	}
	fee, err := do()
	if err != nil && !uncharged(err) || err == nil && fee.IsZero() {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	used, _ := p.used.Sub(price) // was added by take
	sum, ok := used.Add(fee)
	if !ok {
		sum = p.limit
	}
	p.used = sum
	return err
}

func (p *purse) take(price sdk.Amount) error {
	if price.IsZero() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sum, ok := p.used.Add(price)
	if !ok || sum.Cmp(p.limit) > 0 {
		return refuse("tell the user; only they can start svcfs mcp with a larger --budget",
			"this costs %s tokens, and %s of the budget of %s are spent: nothing was done", price.Tokens(),
			p.used.Tokens(), p.limit.Tokens())
	}
	p.used = sum
	return nil
}

// check is take without taking.
func (p *purse) check(price sdk.Amount) error {
	if err := p.take(price); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used, _ = p.used.Sub(price) // was added by take
	return nil
}

func (p *purse) state() (spent, left sdk.Amount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left, _ = p.limit.Sub(p.used) // not below zero; zero where a service charged more than it told
	return p.used, left
}

// uncharged reports an error that the service gives instead of a charge.
func uncharged(err error) bool {
	for _, kind := range []sdk.Kind{sdk.ErrNotFound, sdk.ErrNotAuthorized, sdk.ErrUnauthenticated,
		sdk.ErrInsufficient, sdk.ErrInvalid,
		sdk.ErrConflict, sdk.ErrUnsupported, sdk.ErrTooLarge, sdk.ErrDeleted, sdk.ErrRateLimited} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// quota counts bytes of content. It is safe for concurrent use.
type quota struct {
	limit int64
	flag  string // that sets it

	mu   sync.Mutex
	used int64
}

// take sets n bytes aside. A caller that needs fewer gives the others back.
func (q *quota) take(n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > q.limit-q.used {
		return refuse("ask for fewer bytes, or tell the user, who can start svcfs mcp with a larger "+q.flag,
			"%d bytes are asked for, and %d of %d are left in %s", n, q.limit-q.used, q.limit, q.flag)
	}
	q.used += n
	return nil
}

// check is take without taking.
func (q *quota) check(n int64) error {
	err := q.take(n)
	if err == nil {
		q.giveBack(n)
	}
	return err
}

func (q *quota) giveBack(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
}

func (q *quota) left() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limit - q.used
}
