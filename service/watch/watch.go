// Package watch reports the events of a group to its members, as soon as the ledger has
// them. Callers wait without a transaction. While there are waiters, one poller per
// process looks at the end of the ledger, after each commit of the process, once its records have
// places, and now and then, and wakes those that new records concern: records of other processes
// are noticed a little later.
package watch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/sequencer"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/throttle"
)

const (
	// perAccount bounds the calls of one account that wait.
	perAccount = 16
	// scanRows is how many records one transaction reads, and maxScans how many transactions one request has: it takes
	// half a second.
	scanRows = 20_000
	maxScans = 50
	// maxEvents bounds one answer.
	maxEvents = 500
	// settleWait bounds how long a request waits for the places of records from before it.
	settleWait = time.Second
)

// Watch answers the operation watch. It is safe for concurrent use.
type Watch struct {
	store  *store.Store
	places *sequencer.Sequencer
	stop   chan struct{} // closed by Close
	done   sync.WaitGroup

	calls *throttle.Slots[string] // by account
	rows  int64                   // scanRows

	mu      sync.Mutex
	closed  bool
	waiters waiters
	endPoll context.CancelFunc // nil = no poller, because there are no waiters
	head    int64              // newest place the poller saw

	news     chan struct{} // new places, told by this process; of one, for all that come meanwhile
	interval time.Duration // how late a record of another process may be noticed
}

// New returns the watch over a store with its sequencer; Close ends it.
func New(s *store.Store, q *sequencer.Sequencer) *Watch {
	w := &Watch{store: s, places: q, stop: make(chan struct{}), calls: throttle.NewSlots[string](perAccount),
		rows:    scanRows,
		waiters: newWaiters(), news: make(chan struct{}, 1), interval: pollInterval}
	q.OnPlaced(w.notePlaced)
	return w
}

// Close makes all waiting calls answer at once.
func (w *Watch) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.stop)
	}
	w.mu.Unlock()
	w.done.Wait()
}

// Events returns the events that concern account after a place in the ledger, at once if there are
// any, else as soon as there are, at the latest when the time of the request is over. After maxScans it returns where
// it stopped, from where the caller goes on.
// After each read it calls still, and tells nothing of what it read when that fails.
func (w *Watch) Events(ctx context.Context, account string, req wire.WatchRequest,
	still func() error) (out wire.WatchResult, err error) {
	leave, ok := w.calls.Take(account)
	if !ok {
		return out, &fault.Error{Code: wire.CodeRateLimited,
			Text:       fmt.Sprintf("too many requests: the account watches %d times already", perAccount),
			RetryAfter: time.Second}
	}
	defer leave()
	if err := w.settle(ctx); err != nil {
		return out, err
	}
	patience := min(max(req.TimeoutMS, 0), wire.MaxWatchMillis)
	timeout := time.NewTimer(time.Duration(patience) * time.Millisecond)
	defer timeout.Stop()
	if req.AfterSeq == nil {
		out.Events = []wire.Event{}
		out.Seq, err = w.readHead(ctx)
		return out, err
	}
	out.Seq = *req.AfterSeq
	for {
		var me *waiter
		out.Events, out.Seq, me, err = w.read(ctx, account, out.Seq)
		if err == nil {
			err = still()
		}
		if err != nil || me == nil || patience == 0 {
			return out, err
		}
		if again, err := w.wait(ctx, me, timeout.C); err != nil || !again {
			return out, err
		}
	}
}

// settle waits until the records from before a request have their places, for a while: the others are told later.
func (w *Watch) settle(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	err := w.places.Settle(bounded)
	if bounded.Err() != nil {
		err = ctx.Err()
	}
	return err
}

func (w *Watch) readHead(ctx context.Context) (head int64, err error) {
	err = w.store.Look(ctx, func(tx *store.Tx) error {
		head, err = ledger.Size(ctx, tx)
		return err
	})
	return head, err
}

// read returns the next events after a place, and the place up to which it read; without events also a waiter, where it
// came to the end of the ledger. A place that the ledger has not reached, as after the restore of an older backup, is
// set back.
func (w *Watch) read(ctx context.Context, account string, after int64) (events []wire.Event, upTo int64,
	me *waiter, err error) {
	after = max(after, 0)
	for scans := 1; ; scans++ {
		var head int64
		err := w.store.Read(ctx, func(tx *store.Tx) error {
			if head, err = ledger.Size(ctx, tx); err != nil {
				return err
			}
			upTo = min(after, head)
			upTo += min(w.rows, head-upTo)
			if events, err = eventsOf(ctx, tx, account, after, upTo); err != nil || len(events) > 0 || upTo < head {
				return err
			}
			me, err = newWaiter(ctx, tx, account, head)
			return err
		})
		if err != nil {
			return nil, after, nil, err
		}
		if len(events) == maxEvents {
			upTo = events[maxEvents-1].Seq
		}
		if len(events) > 0 || upTo >= head || scans == maxScans {
			return events, upTo, me, nil
		}
		after = upTo
	}
}

func eventsOf(ctx context.Context, tx *store.Tx, account string, after, upTo int64) ([]wire.Event, error) {
	records, err := ledger.Events(ctx, tx, account, after, upTo, maxEvents)
	list := make([]wire.Event, 0, len(records))
	for _, r := range records {
		e := wire.Event{Seq: r.Place, Kind: r.Kind, GroupID: r.Group, Ref: r.Ref, Account: r.Account,
			Time: strconv.FormatInt(r.TimeNS, 10)}
		if r.Seq != r.Place {
			e.ChangedSeq = r.Seq
		}
		switch r.Kind {
		case chain.KindAdd, chain.KindRevoke:
			e.Account = r.Detail // the member
		case chain.KindRole, chain.KindOffer:
			e.Account, _, _ = strings.Cut(r.Detail, " ")
		}
		list = append(list, e)
	}
	return list, err
}
