package sdk

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// The kinds of an [Event]. A service may send others.
const (
	EventRegistered = chain.KindRegister
	EventAdded      = chain.KindAdd
	EventJoined     = chain.KindJoin
	EventRevoked    = chain.KindRevoke
	EventUploaded   = chain.KindRecord
	EventDeleted    = chain.KindTombstone
	EventRenamed    = chain.KindRename
	// EventFolderRenamed has no Ref: every file beneath a folder has a new name.
	EventFolderRenamed = chain.KindRenameFolder
	EventFolderMade    = chain.KindMakeFolder
	EventFolderRemoved = chain.KindRemoveFolder
	EventRetention     = chain.KindRetention
	EventRole          = chain.KindRole
	EventPending       = chain.KindPending
	EventKept          = chain.KindKeep
	EventRemoved       = chain.KindRemove  // into the trash
	EventRestored      = chain.KindRestore // out of it
	EventTrash         = chain.KindTrash   // its settings
	EventAttributes    = chain.KindAttributes
	EventVersions      = chain.KindVersions
	EventFormat        = chain.KindFormat
	EventAppends       = chain.KindAppends
	EventKeys          = chain.KindKeys
	EventOffered       = chain.KindOffer       // to another owner; Account is that member, "" = taken back
	EventAccepted      = chain.KindAccept      // Account is the owner from now on
	EventGroupDeleted  = chain.KindDeleteGroup // with all its files
)

// Event says that something changed in a group of the caller. For the present state ask
// [Group.List] or [Client.Groups].
type Event struct {
	Seq     Seq    // where a [Client.Watch] goes on: the place in the ledger of all groups
	Kind    string // an Event constant, or a kind newer than this client
	Group   GroupID
	Ref     Ref       // the file, "" for other events
	Account AccountID // the member whose membership or role changed, else the account that acted
	Time    time.Time
	// ChangedSeq is the sequence of the record, as [Entry] has it. In the ledger of all groups another
	// number may stand for it.
	ChangedSeq Seq
}

const (
	// watchPatience is how long the service holds one request while nothing happens.
	watchPatience = wire.MaxWatchMillis * time.Millisecond
	// watchGap is the pause after a request with events. Events in the pause come together. While each
	// request finds events, as beside a program that saves file after file, it doubles, up to
	// maxWatchGap: most of them are of this account.
	watchGap    = 20 * time.Millisecond
	maxWatchGap = 200 * time.Millisecond
	// watchPause is the pause after a request that the service did not hold, and after a fault. It doubles after
	// each further fault, up to maxWatchPause: what happens meanwhile is told that much later.
	watchPause    = 500 * time.Millisecond
	maxWatchPause = 4 * time.Second
)

// Watch returns the events in the groups of the caller after a sequence number; 0 means
// from now on. No event after the return of Watch is missed: list after Watch, not before.
// Watch outlasts faults of the network.
//
// The iterator requests events as the loop takes them. It ends with an error, which comes
// without an event: [ErrCanceled] when ctx ended, or a lasting refusal of the service; then
// poll instead. A loop that was left may range over the iterator again, which continues
// after the last event. Only one loop may use it at a time.
//
// Watch is free and needs the API key. Errors: [ErrUnsupported] at the hosted
// service, and those of the first request. Only svcd has it.
func (c *Client) Watch(ctx context.Context, from Seq) (iter.Seq2[Event, error], error) {
	request := wire.WatchRequest{}
	if from > 0 {
		request.AfterSeq = (*int64)(&from)
	}
	w := &watching{c: c, backoff: watchPause, gap: watchGap}
	err := c.read(ctx, wire.OpWatch, request, &w.got)
	if err == nil {
		err = w.got.check(int64(from))
	}
	if err != nil {
		return nil, c.wrap("watch", "", "", err)
	}
	return func(yield func(Event, error) bool) { w.tell(ctx, yield) }, nil
}

// watching is a watch in progress.
type watching struct {
	c       *Client
	got     news          // events that were not yielded yet
	backoff time.Duration // pause after the next fault
	pause   time.Duration // pause before the next request
	gap     time.Duration // pause after the next request with events
}

// tell yields the events at hand and those that follow.
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

// next requests events after a pause. An error ends the watch.
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
			if w.pause = w.gap; time.Since(asked) < w.gap {
				w.gap = min(2*w.gap, maxWatchGap)
			} else {
				w.gap = watchGap
			}
		} else if time.Since(asked) > watchPause {
			w.pause = 0
		} // else the service did not hold the request, and the pause stays
	case ctx.Err() != nil || isForGood(KindOf(failed)):
		return failed
	default:
		w.pause, w.backoff = w.backoff, min(2*w.backoff, maxWatchPause)
	}
	return nil
}

// Watching reports whether the service tells this client of changes now: it answered the last request of
// [Client.Watch], and the machine did not sleep since. A connection that died silently counts for four seconds, and
// where a proxy keeps it up, until the end of the request, which takes up to 45 seconds. Asking ends a request that the
// machine slept over. Local, free.
func (c *Client) Watching() bool { return c.calls.Hears() }

// watchOnce requests events once. After a fault it does not wait for any: the answer says that there are none.
func (c *Client) watchOnce(ctx context.Context, after int64) (got news, err error) {
	request := wire.WatchRequest{AfterSeq: &after}
	if c.Watching() {
		request.TimeoutMS = watchPatience.Milliseconds()
	}
	ask := c.tools.call(wire.OpWatch, request, &got)
	ask.Kind, ask.Wait, ask.Held = call.Once, watchPatience+c.cfg.Timeout, true
	if err = c.calls.Do(ctx, ask); err != nil {
		return news{}, err
	}
	return got, got.check(after)
}

// news is a [wire.WatchResult] with a bound.
type news struct {
	Events eventList `json:"events"`
	Seq    int64     `json:"seq"`
}

// check refuses events that came before, or that are not in the order of the ledger: such a
// watch would have no end. The sequence number of an answer without events may go back, for
// example after the restore of a backup.
func (n news) check(after int64) error {
	for _, e := range n.Events {
		if e.Seq <= after || e.Seq > n.Seq {
			return call.Malformed(errors.New("its events do not advance"))
		}
		after = e.Seq
	}
	return nil
}

// isForGood reports whether a later request would fail in the same way.
func isForGood(kind Kind) bool {
	switch kind {
	case ErrUnavailable, ErrTimeout, ErrRateLimited, ErrStorageFull, ErrOther:
		return false
	default:
		return true
	}
}

func eventOf(e wire.Event) Event {
	return Event{Seq: Seq(e.Seq), Kind: e.Kind, Group: GroupID(e.GroupID), Ref: Ref(e.Ref),
		Account: AccountID(e.Account), Time: parseTime(e.Time),
		ChangedSeq: Seq(cmp.Or(e.ChangedSeq, e.Seq))}
}
