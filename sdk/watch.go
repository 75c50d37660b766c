package sdk

import (
	"context"
	"errors"
	"iter"
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
	EventRemoved    = chain.KindRemove  // into the trash
	EventRestored   = chain.KindRestore // out of it
	EventTrash      = chain.KindTrash   // its settings
)

// Event is something that happened in a group of the caller. It says that
// something changed, not what it is now: ask [Group.List] or
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

// Watch tells what happens from a sequence on, 0 for now, in the groups of the
// caller. When it returns, nothing that happens later is missed: list after it, not
// before. Faults of the network are waited out. The events end with an error that
// says why, which stands alone: [ErrCanceled] when ctx ended, or what the service
// refused for good; poll then. Events are asked for as the loop takes them; a loop that
// was left can be begun again and goes on behind its last event, one at a time.
//
// Free; needs the API key. Errors: [ErrUnsupported] where the service does not offer it, and
// whatever the first request fails with. Our extension.
func (c *Client) Watch(ctx context.Context, from Seq) (iter.Seq2[Event, error], error) {
	if err := c.need(ctx, wire.CapWatch, "watch"); err != nil {
		return nil, c.wrap("watch", "", "", err)
	}
	request := wire.WatchRequest{}
	if from > 0 {
		request.AfterSeq = (*int64)(&from)
	}
	w := &watching{c: c, backoff: watchPause}
	err := c.read(ctx, wire.OpWatch, request, &w.got)
	if err == nil {
		err = w.got.check(int64(from))
	}
	if err != nil {
		return nil, c.wrap("watch", "", "", err)
	}
	return func(yield func(Event, error) bool) { w.tell(ctx, yield) }, nil
}

// watching is a watch under way.
type watching struct {
	c       *Client
	got     news          // what was not told yet
	backoff time.Duration // of the next fault
	pause   time.Duration // before the next request
}

// tell yields what there is and what follows.
func (w *watching) tell(ctx context.Context, yield func(Event, error) bool) {
	for {
		for len(w.got.Events) > 0 {
			e := w.got.Events[0]
			w.got.Events = w.got.Events[1:]
			if !yield(eventOf(e), nil) {
				return
			}
		}
		if err := w.next(ctx); err != nil {
			yield(Event{}, err)
			return
		}
	}
}

// next asks for news after a pause. An error ends the watch.
func (w *watching) next(ctx context.Context) error {
	if w.pause > 0 {
		select {
		case <-time.After(w.pause/2 + rand.N(w.pause)):
		case <-ctx.Done():
			return w.c.wrap("watch", "", "", ctx.Err())
		}
	}
	asked := time.Now()
	next, err := w.c.watchOnce(ctx, w.got.Seq)
	failed := w.c.wrap("watch", "", "", err)
	switch {
	case err == nil:
		w.got, w.backoff, w.pause = next, watchPause, watchPause
		if len(next.Events) > 0 {
			w.pause = watchGap
		} else if time.Since(asked) > watchPause {
			w.pause = 0
		} // a service that does not wait is not asked all the time
	case ctx.Err() != nil || isForGood(KindOf(failed)):
		return failed
	default:
		w.backoff = min(2*w.backoff, maxWatchPause)
		w.pause = w.backoff
	}
	return nil
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
	case ErrUnavailable, ErrTimeout, ErrRateLimited, ErrStorageFull, ErrOther:
		return false
	default:
		return true
	}
}

func eventOf(e wire.Event) Event {
	return Event{Seq: Seq(e.Seq), Kind: e.Kind, Group: GroupID(e.GroupID), Ref: Ref(e.Ref), Account: AccountID(e.Account), Time: parseTime(e.Time)}
}
