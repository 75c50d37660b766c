package sdk

import (
	"context"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// burst is how soon after another an upload to the same group makes it likely
	// that one more follows.
	burst = 2 * time.Second
	// aheadLife is how long a ticket prepared ahead is used; the service keeps it
	// longer, and it costs nothing there.
	aheadLife = time.Minute
)

// shelf keeps upload tickets that were prepared while the upload before was on its
// way: who saves one small file after another waits for one request each.
type shelf struct {
	mu    sync.Mutex
	next  map[GroupID]*aheadTicket // at most one a group
	began map[GroupID]time.Time    // of the newest upload
}

// aheadTicket is a ticket that is there once done is closed; nil = there is none.
type aheadTicket struct {
	done   chan struct{}
	ticket *ticket
}

// take returns the ticket that was prepared ahead for g, waiting for its answer, or
// nil when there is none. It belongs to the caller.
func (c *Client) takeTicket(ctx context.Context, g GroupID) *ticket {
	s := &c.shelf
	s.mu.Lock()
	ahead := s.next[g]
	delete(s.next, g)
	s.mu.Unlock()
	if ahead == nil {
		return nil
	}
	select {
	case <-ahead.done:
	case <-ctx.Done():
		return nil
	}
	if t := ahead.ticket; t != nil && time.Since(t.since) > aheadLife {
		t.key.Wipe()
		return nil
	}
	return ahead.ticket
}

// prepareAhead asks for the ticket of the upload to g that will follow, if this one
// follows another closely.
func (c *Client) prepareAhead(ctx context.Context, caps wire.Capabilities, g GroupID) {
	if !offered(caps, wire.CapLateName) {
		return
	}
	s := &c.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next, s.began = make(map[GroupID]*aheadTicket), make(map[GroupID]time.Time)
	}
	follows := time.Since(s.began[g]) < burst
	s.began[g] = time.Now()
	if !follows || s.next[g] != nil {
		return
	}
	ahead := &aheadTicket{done: make(chan struct{})}
	s.next[g] = ahead
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	go func() {
		defer cancel()
		defer close(ahead.done)
		// Without a name: finalize tells it. An error is for the upload itself to meet.
		ahead.ticket, _ = c.askTicket(ctx, caps, wire.PrepareUploadRequest{GroupID: string(g)})
	}()
}
