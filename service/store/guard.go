package store

import (
	"context"
	"fmt"
	"sync/atomic"
)

// guard has the account of a request, and what each write of it checks first, in its transaction: whether the account
// may still change anything. It is safe for concurrent use.
type guard struct{ set atomic.Pointer[guarded] }

type guarded struct {
	account string
	asks    []Ask
	check   func(context.Context, *Tx) error
}

type guardKey struct{}

// WithGuard returns the context of a request whose account is not known yet: [SetGuard] sets what its writes check.
func WithGuard(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardKey{}, &guard{})
}

// SetGuard has each write of a request begin with check, which asks what asks are. The error of check ends the write.
// Its reads are counted as those of account. Outside of a request SetGuard does nothing.
func SetGuard(ctx context.Context, account string, asks []Ask, check func(context.Context, *Tx) error) {
	if g, ok := ctx.Value(guardKey{}).(*guard); ok {
		g.set.Store(&guarded{account, asks, check})
	}
}

// guardOf returns what was set for a request, nil without.
func guardOf(ctx context.Context) *guarded {
	g, _ := ctx.Value(guardKey{}).(*guard)
	if g == nil {
		return nil
	}
	return g.set.Load()
}

// mayRead waits until a request may read. It calls done afterwards. Reads wait for a connection, first come, first
// served: those of one account have three quarters of all at most, so that no other account waits for all of them.
func (s *Store) mayRead(ctx context.Context) (done func(), err error) {
	by := guardOf(ctx)
	if by == nil {
		return func() {}, nil
	}
	done, ok := s.readers.Wait(ctx, by.account)
	if !ok {
		return nil, fmt.Errorf("wait for a read of the account: %w", ctx.Err())
	}
	return done, nil
}

// behindGuard returns a write with what the guard of its request checks before it.
func behindGuard(ctx context.Context, chains Chains, f func(*Tx) error) (Chains, func(*Tx) error) {
	by := guardOf(ctx)
	if by == nil {
		return chains, f
	}
	asks := chains.asks
	chains = chains.Asking(func() []Ask {
		if asks == nil {
			return by.asks
		}
		return append(by.asks[:len(by.asks):len(by.asks)], asks()...)
	})
	return chains, func(tx *Tx) error {
		if err := by.check(ctx, tx); err != nil {
			return err
		}
		return f(tx)
	}
}
