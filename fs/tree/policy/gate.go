package policy

import "context"

// Gate lets one, or as many as it was made for, through at a time; waiting ends with the context.
type Gate chan struct{}

// NewGate returns a gate that lets n through at a time.
func NewGate(n int) Gate { return make(Gate, n) }

// Enter waits for a turn. The error is the cause that ended ctx; else the caller calls Leave.
func (g Gate) Enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave lets the next one through.
func (g Gate) Leave() { <-g }

// Pass waits until nobody is inside.
func (g Gate) Pass(ctx context.Context) error {
	if err := g.Enter(ctx); err != nil {
		return err
	}
	g.Leave()
	return nil
}
