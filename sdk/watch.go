package sdk

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Kinds of [Event]; services may add more.
const (
	EventRegistered = chain.KindRegister
	EventAdded      = chain.KindAdd
	EventJoined     = chain.KindJoin
	EventRevoked    = chain.KindRevoke
	EventUploaded   = chain.KindRecord
	EventDeleted    = chain.KindTombstone
	EventRenamed    = chain.KindRename
	EventRetention  = chain.KindRetention
	EventRole       = chain.KindRole
	EventPending    = chain.KindPending
	EventKept       = chain.KindKeep
)

// Event is something that happened in a group of the caller. It says that
// something changed, not what it is now: ask [Client.Entries] or
// [Client.Groups] for that.
type Event struct {
	Seq     Seq
	Kind    string // one of the Event constants, or one that is newer than this client
	Group   GroupID
	Ref     Ref       // of a file, else ""
	Account AccountID // the member who was added, revoked or joined or got a role, else who acted
	Time    time.Time
}

const (
	// watchPatience is how long one request waits for news.
	watchPatience = wire.MaxWatchMillis * time.Millisecond
	// watchGap is the shortest time between requests that bring news: what happens
	// meanwhile comes together.
	watchGap = 20 * time.Millisecond
	// watchPause is the shortest time between requests that bring nothing; it
	// doubles after faults, up to maxWatchPause.
	watchPause    = 500 * time.Millisecond
	maxWatchPause = 30 * time.Second
)

// Watch delivers what happens from a sequence on, 0 for now, in the groups of
// the caller. When it returns, nothing that happens later is missed: list after
// it, not before. Faults of the network are waited out. The channel is closed
// when ctx ends, or when the service refuses for good; poll then. Events must be
// received, or the watch stands still.
//
// Free; needs the API key. Errors: [KindUnsupported] where the service does not offer it, and
// whatever the first request fails with. Our extension.
func (c *Client) Watch(ctx context.Context, from Seq) (<-chan Event, error) {
	if err := c.need(ctx, wire.CapWatch, "watch"); err != nil {
		return nil, c.wrap("watch", "", "", err)
	}
	request := wire.WatchRequest{}
	if from > 0 {
		request.AfterSeq = (*int64)(&from)
	}
	var first news
	err := c.read(ctx, wire.OpWatch, request, &first)
	if err == nil {
		err = first.check(int64(from))
	}
	if err != nil {
		return nil, c.wrap("watch", "", "", err)
	}
	events := make(chan Event)
	go func() {
		defer close(events)
		c.watch(ctx, first, events)
	}()
	return events, nil
}

// watch delivers got and what follows.
func (c *Client) watch(ctx context.Context, got news, events chan<- Event) {
	backoff := watchPause
	for deliver(ctx, got.Events, events) {
		asked, pause := time.Now(), watchPause
		next, err := c.watchOnce(ctx, got.Seq)
		switch {
		case err == nil:
			got, backoff = next, watchPause
			if len(got.Events) > 0 {
				pause = watchGap
			} else if time.Since(asked) > watchPause {
				continue
			} // a service that does not wait is not asked all the time
		case isForGood(KindOf(c.wrap("watch", "", "", err))):
			return
		default:
			got.Events, backoff = nil, min(2*backoff, maxWatchPause)
			pause = backoff
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return
		}
	}
}

func (c *Client) watchOnce(ctx context.Context, after int64) (got news, err error) {
	request := wire.WatchRequest{AfterSeq: &after, TimeoutMS: watchPatience.Milliseconds()}
	if err = c.tool(ctx, wire.OpWatch, watchPatience+c.cfg.Timeout, request, &got); err != nil {
		return news{}, err
	}
	return got, got.check(after)
}

// news is a [wire.WatchResult] within a bound.
type news struct {
	Events eventList `json:"events"`
	Seq    int64     `json:"seq"`
}

// check refuses events that were told before, or not in the order of the ledger:
// such a watch would have no end. A sequence without events may go back, as after
// the restore of a backup.
func (n news) check(after int64) error {
	for _, e := range n.Events {
		if e.Seq <= after || e.Seq > n.Seq {
			return malformed(errors.New("its events do not advance"))
		}
		after = e.Seq
	}
	return nil
}

// isForGood reports kinds that a later request will meet again.
func isForGood(kind Kind) bool {
	switch kind {
	case KindUnavailable, KindTimeout, KindRateLimited, KindStorageFull, KindOther:
		return false
	default:
		return true
	}
}

func deliver(ctx context.Context, list []wire.Event, events chan<- Event) bool {
	for _, e := range list {
		event := Event{Seq: Seq(e.Seq), Kind: e.Kind, Group: GroupID(e.GroupID), Ref: Ref(e.Ref), Account: AccountID(e.Account), Time: parseTime(e.Time)}
		select {
		case events <- event:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
