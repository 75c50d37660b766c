package watch

import (
	"context"
	"math"
	"time"

	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// pollInterval is how late a record of another process may be noticed.
	pollInterval = 200 * time.Millisecond
	// pollPause is the time between two looks because of records of this process: an event wakes many,
	// and one look finds all that came meanwhile.
	pollPause = 50 * time.Millisecond
	// crowd is how many callers one look wakes before it is pollInterval to the next look.
	crowd = 100
	// maxGroups bounds the memory of one waiter: with more groups, every event
	// wakes it.
	maxGroups = 1000
)

// waiter is a call that waits for events after a place in the ledger. Its groups are those of the
// account at this place. A record that adds the account to another group names the
// account and wakes the waiter, which then looks and waits as a new waiter.
type waiter struct {
	account string
	after   int64
	groups  []string
	every   bool       // more than maxGroups, which are not in groups
	woken   chan error // gets one message: nil = look again, or the reason why looking fails
}

// newWaiter reads the groups of an account, in the transaction that read the events up
// to after.
func newWaiter(ctx context.Context, tx *store.Tx, account string, after int64) (*waiter, error) {
	me := &waiter{account: account, after: after, woken: make(chan error, 1)}
	var err error
	me.groups, err = store.Values[string](ctx, tx, "read groups of an account", "SELECT group_id FROM members JOIN "+
		"groups ON id = group_id WHERE account = ? AND ended_ns IS NULL LIMIT ?", account, maxGroups+1)
	if len(me.groups) > maxGroups {
		me.groups, me.every = nil, true
	}
	return me, err
}

// waiters finds waiters by a group and by an account. Waiters with many groups are found
// by every group.
type waiters struct {
	all, ofEvery         set
	ofGroup, withAccount map[string]set
}

type set map[*waiter]struct{}

func newWaiters() waiters {
	return waiters{all: set{}, ofEvery: set{}, ofGroup: map[string]set{}, withAccount: map[string]set{}}
}

func (ws *waiters) add(me *waiter) {
	ws.all[me] = struct{}{}
	addTo(ws.withAccount, me.account, me)
	if me.every {
		ws.ofEvery[me] = struct{}{}
	}
	for _, group := range me.groups {
		addTo(ws.ofGroup, group, me)
	}
}

// remove removes a waiter; it may be gone already.
func (ws *waiters) remove(me *waiter) {
	delete(ws.all, me)
	delete(ws.ofEvery, me)
	removeFrom(ws.withAccount, me.account, me)
	for _, group := range me.groups {
		removeFrom(ws.ofGroup, group, me)
	}
}

func addTo(index map[string]set, name string, me *waiter) {
	if index[name] == nil {
		index[name] = set{}
	}
	index[name][me] = struct{}{}
}

func removeFrom(index map[string]set, name string, me *waiter) {
	delete(index[name], me)
	if len(index[name]) == 0 {
		delete(index, name)
	}
}

// wait returns true when me should look again, false when the time is over or
// the watch is closed.
func (w *Watch) wait(ctx context.Context, me *waiter, timeout <-chan time.Time) (again bool, err error) {
	if !w.join(me) {
		return true, nil
	}
	defer w.part(me)
	select {
	case err := <-me.woken:
		return err == nil, err
	case <-timeout:
	case <-w.stop:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, nil
}

// join adds a waiter; the first one starts the poller. It refuses a waiter behind the
// poller, which would miss the records between them.
func (w *Watch) join(me *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.endPoll != nil && w.head > me.after {
		return false
	}
	w.waiters.add(me)
	if w.endPoll == nil && !w.closed {
		w.head = me.after
		var ctx context.Context
		ctx, w.endPoll = context.WithCancel(context.Background())
		w.done.Go(func() { w.poll(ctx) })
	}
	return true
}

func (w *Watch) part(me *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(me)
}

// remove removes a waiter; the last one ends the poller. It needs the lock.
func (w *Watch) remove(me *waiter) {
	w.waiters.remove(me)
	if len(w.waiters.all) == 0 && w.endPoll != nil {
		w.endPoll()
		w.endPoll = nil
	}
}

// wake wakes those of some waiters that have not seen a place yet. It needs the lock.
func (w *Watch) wake(some set, place int64, why error) {
	for me := range some {
		if me.after < place {
			w.remove(me)
			me.woken <- why
		}
	}
}

func (w *Watch) poll(ctx context.Context) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		woken, goesOn := w.pollOnce(ctx)
		if !goesOn {
			return
		}
		news := w.news
		if woken >= crowd {
			news = nil
		}
		pause(ctx, time.After(pollPause), nil)
		pause(ctx, tick.C, news)
	}
}

// pause waits until a moment has come, for news, or until ctx ends.
func pause(ctx context.Context, until <-chan time.Time, news <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-until:
	case <-news:
	}
}

// notePlaced has the poller look, if there is one.
func (w *Watch) notePlaced() {
	select {
	case w.news <- struct{}{}:
	default: // it is noted already
	}
}

// pollOnce wakes the waiters that new records concern, and returns how many. goesOn is false
// when this poller has no waiters any more.
func (w *Watch) pollOnce(ctx context.Context) (woken int, goesOn bool) {
	w.mu.Lock()
	since := w.head
	w.mu.Unlock()
	head, news, err := w.look(ctx, since)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil { // also when another poller has begun meanwhile
		return 0, false
	}
	if err != nil {
		w.wake(w.waiters.all, math.MaxInt64, err)
		return 0, false
	}
	w.head = head
	before := len(w.waiters.all)
	if head < since { // a backup was restored: every waiter has a stale position
		w.wake(w.waiters.all, math.MaxInt64, nil)
	}
	for _, n := range news {
		w.wake(w.waiters.ofEvery, n.Place, nil)
		w.wake(w.waiters.ofGroup[n.Group], n.Place, nil)
		w.wake(w.waiters.withAccount[n.Account], n.Place, nil)
	}
	return before - len(w.waiters.all), ctx.Err() == nil // nor when it woke the last
}

// look returns the newest place, and the accounts that the events after since
// concern.
func (w *Watch) look(ctx context.Context, since int64) (head int64, news []ledger.Concern, err error) {
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		if head, err = ledger.Size(ctx, tx); err != nil || head <= since {
			return err
		}
		news, err = ledger.Concerns(ctx, tx, since, head)
		return err
	})
	return head, news, err
}
