package look

import (
	"context"
	"time"
)

// Asking is a question under way, shared by all callers that want its answer.
type Asking struct {
	Done  chan struct{} // closed once there is an answer
	began time.Time
	err   error
}

// Begin asks a question unless it is under way. at is the caller's, and used by Begin alone; after,
// which may be nil, runs once the waiting callers have their answer.
func (l *Look) Begin(at **Asking, question func(context.Context) error, after func(error)) *Asking {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *at != nil {
		return *at
	}
	a := &Asking{began: l.cfg.Now(), Done: make(chan struct{})}
	*at = a
	l.asked.Go(func() {
		l.cfg.Alone("background", func(ctx context.Context) {
			a.err = question(ctx)
			l.mu.Lock()
			*at = nil
			l.mu.Unlock()
			close(a.Done)
			if after != nil {
				after(a.err)
			}
		})
	})
	return a
}

// wait waits for an answer, but not longer than Patience. The question goes on.
func (l *Look) wait(ctx context.Context, a *Asking) error {
	enough := time.NewTimer(max(0, Patience-l.cfg.Now().Sub(a.began)))
	defer enough.Stop()
	select {
	case <-a.Done:
		return a.err
	case <-enough.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wait waits until no question is under way.
func (l *Look) Wait() { l.asked.Wait() }
