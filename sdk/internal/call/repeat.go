package call

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Kind says when a call may be sent again. In an outage every call is that never left this machine, see
// [Bridging].
type Kind uint8

// The kinds.
const (
	// Free is a call that does no harm when it is repeated: it changes nothing, or it has an id under which it
	// counts once. It is repeated after temporary faults. A connection that stands still is given up for another
	// one once.
	Free Kind = iota
	// Soon is Free without long pauses that the service asks for: nobody waits for the call that long.
	Soon
	// View is Free for a node of the ledger: it answers 408 when it lags behind, and 500 for its own faults.
	View
	// Asked is Free, also for a call without an answer: the next try begins by asking what arrived.
	Asked
	// Change may have been paid when its answer is lost. It is repeated only if the service was too busy to look
	// at it.
	Change
	// Once is not repeated.
	Once
)

const (
	// maxTries is how often a call is sent at most while nothing of it arrives.
	maxTries = 4
	// firstPause is the pause before the second try. It doubles for each further try, with
	// jitter, up to longestPause.
	firstPause   = 100 * time.Millisecond
	longestPause = time.Second
	// maxPause bounds the pause that a service demands with Retry-After.
	maxPause = 5 * time.Second
)

// Repeat runs try, and again as the kind says.
func (c *Caller) Repeat(ctx context.Context, kind Kind, try func(context.Context) error) error {
	return c.Resume(ctx, kind, func() int64 { return 0 }, try)
}

// Resume is Repeat for a try that goes on where the last one ended. arrived says how far that is: what arrives
// makes a fault a new beginning, and a transfer that stood still is a fault like others.
func (c *Caller) Resume(ctx context.Context, kind Kind, arrived func() int64, try func(context.Context) error) error {
	t := c.tries(kind)
	for {
		before := arrived()
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return interrupted(ctx, err)
		}
		if arrived() > before && (errors.Is(err, errTooSlow) || isTemporary(err)) {
			t = c.tries(kind)
			continue
		}
		pause, again := t.next(ctx, err)
		if !again {
			return err
		}
		if err := rest(ctx, pause, err); err != nil {
			return err
		}
	}
}

// interrupted is the error of a call whose caller gave it up. A connection that was lost just before is not why it
// ended: the next try would have been made.
func interrupted(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) && IsLost(err) {
		return fmt.Errorf("%w: %w", Ended(ctx), err)
	}
	return err
}

// tries counts the tries of a call of which nothing arrived.
type tries struct {
	kind   Kind
	bridge bridge
	n      int
	pause  time.Duration // before the next one
	stood  bool          // one stood still
}

func (c *Caller) tries(kind Kind) tries {
	return tries{kind: kind, bridge: bridge{c: c, start: time.Now()}, pause: firstPause}
}

// next reports whether the call is repeated after err, and after which pause.
func (t *tries) next(ctx context.Context, err error) (pause time.Duration, again bool) {
	t.n++
	pause, may := t.may(err)
	holds, spent := t.bridge.holds(ctx, err)
	switch {
	case holds && (may || IsUnsent(err)):
	case !may || spent || t.n >= maxTries:
		return 0, false
	}
	if pause == 0 {
		pause = jittered(t.pause)
		t.pause = min(2*t.pause, longestPause)
	}
	return pause, true
}

// may reports whether the kind may be repeated after err, and the pause that the service asked for.
func (t *tries) may(err error) (pause time.Duration, may bool) {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.RetryAfter, t.kind.mayAfter(refused)
	}
	if t.kind >= Change { // it may have arrived
		return 0, false
	}
	if errors.Is(err, errStill) || t.kind == Asked && errors.Is(err, errTooSlow) {
		stood := t.stood
		t.stood = true
		return 0, !stood
	}
	return 0, IsLost(err)
}

// mayAfter reports whether a call that was refused may be repeated.
func (k Kind) mayAfter(r *Refusal) bool {
	switch {
	case k == Once, k == Soon && r.RetryAfter >= maxPause:
		return false
	case k == Change:
		return r.Status == http.StatusTooManyRequests
	case k == View && r.Status == http.StatusInternalServerError:
		return true
	}
	return r.IsTemporary()
}

// isTemporary reports whether a later try may succeed.
func isTemporary(err error) bool {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.IsTemporary()
	}
	return IsLost(err)
}

// IsTemporary reports whether the service may answer otherwise a little later.
func (r *Refusal) IsTemporary() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}

func jittered(pause time.Duration) time.Duration { return pause/2 + rand.N(pause) }

// rest waits before a call that failed with err is repeated.
func rest(ctx context.Context, wait time.Duration, err error) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w while waiting to repeat: %v", Ended(ctx), err)
	}
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxPause)
}
