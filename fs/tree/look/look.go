package look

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

const (
	// Patience is how long a look-up or a listing waits for the service; then
	// memory answers.
	Patience = time.Second
	// LongestPause is the longest time between looks at the ledger that cost, while
	// programs go on asking for names.
	LongestPause = time.Minute
	// LongestProbe is the longest time between attempts to reach a service that is away.
	LongestProbe = 8 * time.Second
	// idleAfter is how long a group is polled after a program last used it.
	idleAfter = 5 * time.Minute
)

// Service is what looks ask of the service beside lists.
type Service interface {
	Account() sdk.AccountID
	// IsAuthorized asks the ledger whether an account belongs to a group. Free.
	IsAuthorized(ctx context.Context, g sdk.GroupID, account sdk.AccountID) (bool, error)
}

// Config is what looks are given by the tree. Its functions are called without a lock of this package.
type Config struct {
	Service  Service
	Interval time.Duration // between looks
	Patience time.Duration // for a listing to begin or to move on
	Log      *slog.Logger
	Now      func() time.Time
	// Price returns the price of one look at the records of a group, or with "" at the list of groups; nil = looks are
	// free.
	Price func(ctx context.Context, g sdk.GroupID) (sdk.Amount, error)
	// Storage returns the bytes that are stored and may be stored, of a group or with "" of the account; nil = nobody
	// knows.
	Storage func(ctx context.Context, g sdk.GroupID) (sdk.Storage, error)
	// Watch delivers events. It may fail; nil = Look.Watch is not called.
	Watch func(ctx context.Context, from sdk.Seq) (iter.Seq2[sdk.Event, error], error)
	// Watching reports whether events of a watch that goes on arrive now, see [sdk.Client.Watching]; nil = always.
	Watching func() bool
	Budget   *policy.Budget
	// Judge says what the error of a look means; nil = nothing, as when it was interrupted.
	Judge   func(err error) *Failed
	Note    func(err error)                             // tells users of it
	Alone   func(op string, work func(context.Context)) // does work that nobody waits for, and survives its mistakes
	Unsent  func() bool                                 // something waits for the service to come back
	Send    func(wasAway bool)                          // sends it
	Setting func(g sdk.GroupID)                         // of a group changed
	Pending func(e sdk.Event)                           // files of a group wait to be destroyed, or do not any more
	Settle  func(ctx context.Context)                   // waits until everybody was told what looks brought
}

// Look decides when a mount asks the ledger. It is safe for concurrent use.
type Look struct {
	Groups *List // of the account

	cfg     Config
	life    context.Context
	paid    atomic.Int64 // looks that were paid for
	watched atomic.Bool  // the service announces changes
	reached atomic.Bool  // the service answered the last look at the ledger

	polledAt time.Time // Tick looked at a ledger that is watched; Tick's alone
	told     bool      // the watch was not lost; Tick's alone

	mu          sync.RWMutex          // guards the fields below, and those of lists that are marked so
	lists       map[sdk.GroupID]*List // "" is Groups
	refreshedAt time.Time             // the last complete look at the ledger began
	usedAt      time.Time             // a program looked at anything
	probing     policy.Pacing         // of a service that is away
	asked       int                   // questions under way
	answered    sync.Cond             // one of them ended
}

// New returns looks that end with ctx, of which none was made yet: the caller begins with one at Groups. listGroups is
// to Groups what the function of [Look.NewList] is to the records of a group.
func New(ctx context.Context, cfg Config, listGroups func(context.Context) error) *Look {
	l := &Look{cfg: cfg, life: ctx, lists: make(map[sdk.GroupID]*List)}
	l.answered.L = &l.mu
	l.reached.Store(true)
	l.Groups = l.NewList("", view.New(), listGroups)
	return l
}

// Watched reports whether the service announces changes.
func (l *Look) Watched() bool { return l.watched.Load() }

// isTold reports whether it does so now: a watch that goes on may have lost its connection.
func (l *Look) isTold() bool { return l.Watched() && (l.cfg.Watching == nil || l.cfg.Watching()) }

// Reached reports whether the service answered the last look.
func (l *Look) Reached() bool { return l.reached.Load() }

// Paid returns how many looks were paid for.
func (l *Look) Paid() int64 { return l.paid.Load() }

// RefreshedAt returns when the last complete look at the ledger began.
func (l *Look) RefreshedAt() time.Time {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.refreshedAt
}

// Poll runs Tick every interval until the mount ends.
func (l *Look) Poll() {
	every := time.NewTicker(l.cfg.Interval)
	defer every.Stop()
	for {
		select {
		case <-l.life.Done():
			return
		case <-every.C:
			l.cfg.Alone("refresh", l.Tick)
		}
	}
}

// settleLimit bounds how long a look at the ledger waits until everybody was told.
const settleLimit = time.Second

// Refresh looks at the ledger now: groups, and the records of groups in use.
func (l *Look) Refresh(ctx context.Context) error { return errors.Join(l.refresh(ctx)...) }

// refresh is Refresh with the outcome of each look.
func (l *Look) refresh(ctx context.Context) (outcomes []error) {
	began := l.cfg.Now()
	outcomes = append(outcomes, l.Groups.Refresh(ctx, 0))
	if outcomes[0] != nil {
		return outcomes
	}
	inUse := func(s *List) bool {
		return s != l.Groups && !s.listedAt.IsZero() && began.Sub(s.usedAt) < idleAfter
	}
	for _, s := range l.listsWith(inUse) {
		outcomes = append(outcomes, s.Refresh(ctx, 0))
	}
	if errors.Join(outcomes...) == nil {
		settling, cancel := context.WithTimeout(ctx, settleLimit)
		defer cancel()
		l.cfg.Settle(settling)
		l.mu.Lock()
		l.refreshedAt = began
		l.mu.Unlock()
	}
	return outcomes
}

// listsWith calls match with Look.mu held.
func (l *Look) listsWith(match func(*List) bool) (list []*List) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.lists {
		if match(s) {
			list = append(list, s)
		}
	}
	return list
}

// Tick runs every interval.
func (l *Look) Tick(ctx context.Context) {
	now, unsent, told := l.cfg.Now(), l.cfg.Unsent(), l.isTold()
	lost := l.told && !told
	l.told = told
	if !told {
		for _, s := range l.listsWith(func(s *List) bool { return s.Open.Load() > 0 }) {
			s.checkMember()
		}
	}
	if l.Watched() {
		if unsent {
			l.probe(now)
		}
		if !unsent && !l.Reached() || lost || now.Sub(l.polledAt) >= WatchedInterval {
			l.polledAt = now
			l.noteLooked(l.refresh(ctx)...)
		} else if l.Reached() {
			for _, s := range l.listsWith(func(s *List) bool { return s.announced > 0 && s.repeats.IsDue(now) }) {
				s.beginAnnounced()
			}
		}
		return
	}
	if unsent || !l.Reached() {
		l.probe(now)
		return
	}
	for _, s := range l.listsWith(func(s *List) bool { return !s.listedAt.IsZero() && s.isWanted(now) }) {
		s.begin(0)
	}
}

// probe checks whether a service that was away is back, if a program looked since or
// content waits to be sent. When the service is back, probe sends that content.
func (l *Look) probe(now time.Time) {
	waits := l.cfg.Unsent()
	l.mu.Lock()
	due := (waits || l.usedAt.After(l.probing.Asked)) && l.probing.IsDue(now)
	if due {
		l.probing.Note(now, false, l.cfg.Interval, LongestProbe)
	}
	l.mu.Unlock()
	if !due {
		return
	}
	ask := func(ctx context.Context) error { return l.Groups.Refresh(ctx, 0) }
	l.begin(&l.Groups.asking, ask, func(err error) {
		if err == nil && l.Reached() {
			l.cfg.Send(false)
		}
		l.noteLooked(err)
	})
}

// noteLooked remembers whether the service answered looks: it did not if one of them says so, and a refusal is an
// answer. Where the budget allowed no look, nobody was asked.
func (l *Look) noteLooked(outcomes ...error) {
	answered := false
	for _, err := range outcomes {
		switch failed := l.judge(err); {
		case failed != nil && failed.Away:
			l.NoteReached(err)
			return
		case err == nil, failed != nil && !failed.Dry:
			answered = true
		}
	}
	if answered {
		l.NoteReached(nil)
	}
}

// noteAway is noteLooked for who must not wait until what waited is sent: an answer is not noted.
func (l *Look) noteAway(err error) {
	if failed := l.judge(err); failed != nil && failed.Away {
		l.NoteReached(err)
	}
}

// NoteReached remembers whether the service answers. When the service is back, NoteReached
// sends the content that waited.
func (l *Look) NoteReached(err error) {
	if was := l.reached.Swap(err == nil); was == (err == nil) || l.life.Err() != nil {
		return
	}
	l.cfg.Log.Info("service reachable", "reachable", err == nil)
	if err == nil {
		l.cfg.Send(true)
	}
}

// asking is a question under way, shared by all callers that want its answer.
type asking struct {
	done  chan struct{} // closed once there is an answer
	began time.Time
	err   error
}

// begin asks a question unless it is under way. at belongs to Look.mu; after,
// which may be nil, runs once the waiting callers have their answer.
func (l *Look) begin(at **asking, question func(context.Context) error, after func(error)) *asking {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *at != nil {
		return *at
	}
	a := &asking{began: l.cfg.Now(), done: make(chan struct{})}
	*at = a
	l.asked++
	go func() {
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.asked--
			l.answered.Broadcast()
		}()
		l.cfg.Alone("background", func(ctx context.Context) {
			l.answer(at, func() { a.err = question(ctx) })
			if after != nil {
				after(a.err)
			}
		})
	}()
	return a
}

// answer ends a question that is under way, also when asking panics.
func (l *Look) answer(at **asking, ask func()) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close((*at).done)
		*at = nil
	}()
	ask()
}

// wait waits for an answer, but not longer than Patience. The question goes on.
func (l *Look) wait(ctx context.Context, a *asking) error {
	enough := time.NewTimer(max(0, Patience-l.cfg.Now().Sub(a.began)))
	defer enough.Stop()
	select {
	case <-a.done:
		return a.err
	case <-enough.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wait waits until no question is under way. Others may be asked meanwhile.
func (l *Look) Wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.asked > 0 {
		l.answered.Wait()
	}
}
