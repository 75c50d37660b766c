package service

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	// healthWait is the longest a caller of /health waits.
	healthWait = 900 * time.Millisecond
	// healthAge is how long an answer is reused.
	healthAge = time.Second
)

const (
	partOK   = "ok"
	partDown = "down"
)

// health asks the parts for their state: each at most once at a time and once a second,
// however many callers there are, even when a part hangs.
type health struct {
	parts map[string]func(context.Context) error
	log   *slog.Logger

	mu    sync.Mutex
	state map[string]string
	at    time.Time
	round *round // under way
}

// round is one request to all parts.
type round struct {
	done  chan struct{}
	state map[string]string // of the parts that have answered, with the lock of health
}

// check returns the state of every part. It never waits longer than healthWait:
// a part that has not answered by then is down.
func (h *health) check(ctx context.Context) map[string]string {
	h.mu.Lock()
	if h.state != nil && time.Since(h.at) < healthAge {
		defer h.mu.Unlock()
		return h.state
	}
	if h.round == nil {
		h.round = &round{done: make(chan struct{}), state: make(map[string]string)}
		go h.ask(h.round)
	}
	current := h.round
	h.mu.Unlock()
	wait := time.NewTimer(healthWait)
	defer wait.Stop()
	select {
	case <-current.done:
	case <-wait.C:
	case <-ctx.Done():
	}
	return h.answered(current)
}

// answered is the state so far; a part that has not answered is down.
func (h *health) answered(r *round) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := maps.Clone(r.state)
	for name := range h.parts {
		if state[name] == "" {
			state[name] = partDown
		}
	}
	return state
}

func (h *health) ask(r *round) {
	// A little less than callers wait, so that they learn which part is late.
	ctx, cancel := context.WithTimeout(context.Background(), healthWait-100*time.Millisecond)
	defer cancel()
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer, len(h.parts))
	for name, ask := range h.parts {
		go func() { answers <- answer{name, ask(ctx)} }()
	}
	for range h.parts {
		a := <-answers
		state := partOK
		if a.err != nil {
			state = partDown
			h.log.Error("unhealthy", "part", a.name, "cause", a.err.Error())
		}
		h.mu.Lock()
		r.state[a.name] = state
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.at, h.round = r.state, time.Now(), nil
	close(r.done)
}
