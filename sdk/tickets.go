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
	over  bool                     // the client was closed: nothing more is prepared
}

// aheadTicket is a ticket that is there once done is closed; nil = there is none.
type aheadTicket struct {
	giveUp context.CancelFunc
	done   chan struct{}
	ticket *ticket
}

// discard ends the request, if it is still under way, and wipes what it brought.
func (a *aheadTicket) discard() {
	a.giveUp()
	<-a.done
	if a.ticket != nil {
		a.ticket.key.Wipe()
	}
}

// closeShelf discards every ticket that nobody took.
func (c *Client) closeShelf() {
	s := &c.shelf
	s.mu.Lock()
	left := s.next
	s.next, s.over = nil, true
	s.mu.Unlock()
	for _, ahead := range left {
		ahead.discard()
	}
}

// takeTicket returns the ticket that was prepared ahead for g, waiting for its answer, or
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
		ahead.discard()
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
	if s.over {
		return
	}
	if s.next == nil {
		s.next, s.began = make(map[GroupID]*aheadTicket), make(map[GroupID]time.Time)
	}
	follows := time.Since(s.began[g]) < burst
	s.began[g] = time.Now()
	if !follows || s.next[g] != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	ahead := &aheadTicket{giveUp: cancel, done: make(chan struct{})}
	s.next[g] = ahead
	go func() {
		defer cancel()
		defer close(ahead.done)
		// Without a name: finalize tells it. An error is for the upload itself to meet.
		ahead.ticket, _ = c.askTicket(ctx, caps, wire.PrepareUploadRequest{GroupID: string(g)})
	}()
}
