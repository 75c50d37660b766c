// Package sequencer gives the records of the ledger their places, where the database does not do it by itself: one
// process at a time, under a lease with a fence. It also tells how far the places lag.
package sequencer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	leaseName = "sequencer"
	// leaseTime is how long nobody gives places after the process that did it was killed.
	leaseTime = 3 * time.Second
	// interval is how late a record of another process is noticed by the process that has the lease, and
	// idle by the others, one of which may have to take it over.
	interval = 100 * time.Millisecond
	idle     = 500 * time.Millisecond

	// Bounds of what may lack a place before writes are refused: the log could not keep its promises.
	mostUnplaced = 20_000
	longest      = 5 * time.Second

	// longestWrite is longer than a write may take from its sequence to its commit: half of it by the clock of its
	// process, and as long as it is silent by that of the server.
	longestWrite = time.Minute

	// settlePause is between two looks for places that another process gives.
	settlePause = 20 * time.Millisecond
)

// Sequencer is that of one process. It is safe for concurrent use.
type Sequencer struct {
	store  *store.Store
	log    *slog.Logger
	holder string
	now    func() time.Time

	news chan struct{} // a commit of this process; of one, for all that come meanwhile
	stop context.CancelFunc
	done sync.WaitGroup

	fence  int64     // 0 = another process has the lease, or nobody. Of the loop alone, as the next three
	until  time.Time // when the lease ends, or a little earlier, by the clock of this process
	other  bool      // another process had it when it was wanted last
	reason string    // of the last failure, which the log has

	mu     sync.Mutex
	commit []func()  // see OnCommit
	placed []func()  // see OnPlaced
	oldest int64     // the oldest record without a place at the last look, 0 = none
	since  time.Time // since when it is that
	many   bool      // more than mostUnplaced lack one
	floor  int64     // no record up to this sequence lacks one, nor will
	mark   int64     // the largest sequence that had one at the time marked
	marked time.Time
}

// New returns the sequencer of a process over a store; Close ends it. holder is the name of the process.
func New(s *store.Store, holder string, log *slog.Logger) *Sequencer {
	q := newSequencer(s, holder, log)
	s.OnCommit(q.committed)
	if s.Sequenced() {
		var ctx context.Context
		ctx, q.stop = context.WithCancel(context.Background())
		q.done.Go(func() { q.run(ctx) })
	}
	return q
}

func newSequencer(s *store.Store, holder string, log *slog.Logger) *Sequencer {
	return &Sequencer{store: s, log: log, holder: holder, now: time.Now, news: make(chan struct{}, 1), stop: func() {}}
}

// Close ends it, and gives the lease back.
func (q *Sequencer) Close() {
	q.stop()
	q.done.Wait()
}

// OnPlaced adds a function that is called after this process gave places, and where the database gives them, after
// each commit of this process. It must return at once.
func (q *Sequencer) OnPlaced(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.placed = append(q.placed, f)
}

// OnCommit adds a function that is called after each commit of this process. It must return at once.
func (q *Sequencer) OnCommit(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.commit = append(q.commit, f)
}

func (q *Sequencer) committed() {
	if q.store.Sequenced() {
		q.hurry()
	} else {
		q.tell(&q.placed)
	}
	q.tell(&q.commit)
}

// hurry has the loop look at once for records without a place.
func (q *Sequencer) hurry() {
	select {
	case q.news <- struct{}{}:
	default: // it is noted already
	}
}

func (q *Sequencer) tell(list *[]func()) {
	q.mu.Lock()
	all := slices.Clip(*list)
	q.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// Late refuses what makes a record, while too many lack their places or one does for too long.
func (q *Sequencer) Late() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.many && (q.oldest == 0 || q.now().Sub(q.since) <= longest) { // now: the last look may be the one that hangs
		return nil
	}
	return &fault.Error{Code: wire.CodeUnavailable, RetryAfter: time.Second,
		Text: "the ledger cannot take more records now, because the newest have no place in it yet: try again in a " +
			"moment"}
}

// note keeps how far the places lag.
func (q *Sequencer) note(u ledger.Unplaced) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if u.Oldest != q.oldest {
		q.oldest, q.since = u.Oldest, q.now()
	}
	q.many = u.Count > mostUnplaced
}

// Settle waits until every record from before the call has its place, or until ctx ends.
func (q *Sequencer) Settle(ctx context.Context) error {
	if !q.store.Sequenced() {
		return nil
	}
	for upTo := int64(0); ; {
		u, err := q.look(ctx)
		if err != nil {
			return err
		}
		if upTo == 0 {
			upTo = u.Newest
		}
		if u.Oldest == 0 || u.Oldest > upTo {
			return nil
		}
		q.hurry() // or this process has not noticed it
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look looks behind the floor, and now and then at all records, which raises the floor: every write with an earlier
// sequence than one that had a place longestWrite ago is over.
func (q *Sequencer) look(ctx context.Context) (u ledger.Unplaced, err error) {
	q.mu.Lock()
	after, mark, all := q.floor, q.mark, q.now().Sub(q.marked) >= longestWrite
	if all {
		after, q.marked = 0, q.now() // others need not do it, too
	}
	q.mu.Unlock()
	err = q.store.Look(ctx, func(tx *store.Tx) error {
		u, err = ledger.LookUnplaced(ctx, tx, after, mostUnplaced)
		return err
	})
	if err != nil {
		return u, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if all {
		if q.floor = mark; u.Oldest > 0 {
			q.floor = min(mark, u.Oldest-1)
		}
		q.mark, q.marked = u.Placed, q.now()
	}
	if u.Placed < q.floor { // a server took over that lacks the newest records
		q.floor, q.mark, q.marked = 0, 0, time.Time{}
	}
	return u, nil
}

func (q *Sequencer) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := q.turn(ctx)
		if ctx.Err() == nil {
			q.report(err)
		}
		news, pause := q.next(err)
		select {
		case <-ctx.Done():
		case <-news:
		case <-time.After(pause):
		}
	}
	if q.fence != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = q.lease(ctx, 0) // or it ends by itself
	}
}

// next returns what makes the next turn begin, after the error of the last one. Who lacks the lease does not ask for it
// at each commit of its own: the one that has it, which looks by itself, would wait for that.
func (q *Sequencer) next(err error) (news <-chan struct{}, pause time.Duration) {
	news, pause = q.news, idle
	if q.fence != 0 {
		pause = interval
	}
	if err != nil || q.other {
		news = nil
	}
	return news, pause
}

// report logs a failure once, and its end.
func (q *Sequencer) report(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if reason != q.reason && reason != "" {
		q.log.Error("records get no places in the ledger", "cause", reason)
	}
	q.reason = reason
}

// turn looks for records without a place, and gives places if this process has the lease, or can take it.
func (q *Sequencer) turn(ctx context.Context) error {
	u, err := q.look(ctx)
	if err != nil {
		return err
	}
	q.note(u)
	if u.Count == 0 {
		return nil
	}
	if q.fence == 0 || q.now().After(q.until.Add(-leaseTime/2)) {
		if err := q.lease(ctx, leaseTime); err != nil || q.fence == 0 {
			return err
		}
	}
	if err := q.place(ctx); err != nil {
		if errors.Is(err, ledger.ErrFenced) {
			q.fence, err = 0, nil
		}
		return err
	}
	if u, err = q.look(ctx); err == nil {
		q.note(u)
	}
	return err
}

func (q *Sequencer) lease(ctx context.Context, lasts time.Duration) error {
	fence, until := int64(0), q.now().Add(lasts)
	err := q.store.Beside(ctx, func(tx *store.Tx) (err error) {
		fence, err = store.Lease(ctx, tx, leaseName, q.holder, lasts)
		return err
	})
	if err != nil {
		fence = 0 // nobody knows
	}
	q.fence, q.until, q.other = fence, until, fence == 0
	return err
}

// place gives places until no record lacks one.
func (q *Sequencer) place(ctx context.Context) error {
	q.mu.Lock()
	after := q.floor
	q.mu.Unlock()
	for n := int64(ledger.PlacedTogether); n == ledger.PlacedTogether; {
		err := q.store.Beside(ctx, func(tx *store.Tx) (err error) {
			n, err = ledger.Place(ctx, tx, q.fence, after)
			return err
		})
		if err != nil {
			return err
		}
		q.tell(&q.placed)
	}
	return nil
}
