package store

import (
	"context"
	"sync/atomic"
)

// guard is what each write of a request checks first, in its transaction: whether the account of the request may still
// change anything. It is safe for concurrent use.
type guard struct{ set atomic.Pointer[guarded] }

type guarded struct {
	asks  []Ask
	check func(context.Context, *Tx) error
}

type guardKey struct{}

// WithGuard returns the context of a request whose account is not known yet: [SetGuard] sets what its writes check.
func WithGuard(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardKey{}, &guard{})
}

// SetGuard has each write of a request begin with check, which asks what asks are. The error of check ends the write.
// Outside of a request SetGuard does nothing.
func SetGuard(ctx context.Context, asks []Ask, check func(context.Context, *Tx) error) {
	if g, ok := ctx.Value(guardKey{}).(*guard); ok {
		g.set.Store(&guarded{asks, check})
	}
}

// behindGuard returns a write with what the guard of its request checks before it.
func behindGuard(ctx context.Context, chains Chains, f func(*Tx) error) (Chains, func(*Tx) error) {
	g, _ := ctx.Value(guardKey{}).(*guard)
	if g == nil {
		return chains, f
	}
	by := g.set.Load()
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
