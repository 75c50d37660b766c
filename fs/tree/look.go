package tree

import (
	"context"
	"errors"
	"time"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/view"
)

const (
	// lookPatience is how long a look-up or a listing waits for the service; then
	// memory answers.
	lookPatience = time.Second
	// longestPause is the longest time between looks at the ledger that cost, while
	// programs go on asking for names.
	longestPause = time.Minute
	// longestProbe is the longest time between attempts to reach a service that is away.
	longestProbe = 8 * time.Second
	// priceAge is how long a price is believed.
	priceAge = time.Hour
)

// source is a list on the ledger that a mount shows: the groups, or the records of one.
// By Tree.mu, except for the first four fields, which never change.
type source struct {
	group   sdk.GroupID                                // "" for the groups
	path    string                                     // of the directory that shows it
	refresh func(context.Context, time.Duration) error // lists it, unless that was done a moment ago
	view    *view.View                                 // of the group; nothing is known of that of the groups

	listedAt    time.Time     // of the last look that succeeded
	usedAt      time.Time     // a program wanted to see it
	pacing      policy.Pacing // of looks
	price       lookPrice     // of one
	asking      *asking       // the look that programs wait for
	failed      *FailedLook   // the last look, if it failed
	reportedDry bool          // that the budget allows no look
}

// isWanted reports whether a program was answered from memory, and a look is due now.
func (s *source) isWanted(now time.Time) bool {
	return s.usedAt.After(s.pacing.Asked) && s.pacing.IsDue(now)
}

// lookPrice is the price of one look, as far as it is known. By Tree.mu.
type lookPrice struct {
	amount sdk.Amount
	until  time.Time
}

// paid looks at the ledger once within the budget (R6).
func (t *Tree) paid(ctx context.Context, s *source, look func() error) error {
	price := t.readPrice(ctx, s)
	if price.IsZero() {
		return look()
	}
	return t.spent.Charge(price, func() (sdk.Amount, error) {
		err := look()
		switch sdk.KindOf(err) {
		case sdk.ErrTimeout, sdk.ErrCanceled, sdk.ErrCorrupt: // it was carried out, most likely
		default:
			if err != nil {
				return sdk.Amount{}, err
			}
		}
		t.counts.looks.Add(1)
		return price, err
	})
}

// readPrice asks for the price of a look, unless it is known.
func (t *Tree) readPrice(ctx context.Context, s *source) sdk.Amount {
	if t.cfg.ReadPrice == nil {
		return sdk.Amount{}
	}
	t.mu.RLock()
	known := s.price
	t.mu.RUnlock()
	now := t.now()
	if now.Before(known.until) {
		return known.amount
	}
	asked, cancel := network.WithPatience(ctx, lookPatience) // the look itself may still be answered
	defer cancel()
	amount, err := t.cfg.ReadPrice(asked, s.group)
	known.until = now.Add(longestPause)
	if err == nil {
		known = lookPrice{amount, now.Add(priceAge)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.price = known
	return known.amount
}

// LookPrice returns the price of one look at the ledger for this directory, where it is
// known and not free.
func (d *Dir) LookPrice() (sdk.Amount, bool) {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	var price sdk.Amount
	switch d.kind {
	case dirRoot:
		price = d.t.list.price.amount
	case dirGroup:
		price = d.group.price.amount
	}
	return price, !price.IsZero()
}

// age returns for how long something may have changed that this mount does not know. Needs Tree.mu.
func (s *source) age(now time.Time) time.Duration {
	return min(now.Sub(s.listedAt), now.Sub(s.view.Whole()))
}

// isFresh reports whether what is known is younger than maxAge, or, where looking costs, than
// the pause between looks. Needs Tree.mu.
func (t *Tree) isFresh(s *source, maxAge time.Duration) bool {
	if s.price.amount.IsZero() || t.watched.Load() {
		return s.age(t.now()) < maxAge
	}
	return !s.pacing.IsDue(t.now())
}

// noteUse remembers that a program wanted to see s. Needs Tree.mu.
func (t *Tree) noteUse(s *source) {
	s.usedAt = t.now()
	t.lookedAt = s.usedAt
}

// look brings s up to date, so that it was listed within maxAge, or is as new as the
// budget and the service allow.
func (t *Tree) look(ctx context.Context, s *source, maxAge time.Duration) error {
	t.mu.Lock()
	t.noteUse(s)
	fresh := t.isFresh(s, maxAge)
	t.mu.Unlock()
	if fresh || !t.reached.Load() { // tick looks whether it is back
		return nil
	}
	return t.fromMemory(s, t.wait(ctx, t.lookAt(s, maxAge)))
}

// asking is a question under way, shared by all callers that want its answer.
type asking struct {
	began time.Time
	done  chan struct{} // closed once err is set
	err   error
}

// begin asks a question unless it is under way. at belongs to Tree.mu; after,
// which may be nil, runs once the waiting callers have their answer.
func (t *Tree) begin(at **asking, question func(context.Context) error, after func(error)) *asking {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *at != nil {
		return *at
	}
	a := &asking{began: t.now(), done: make(chan struct{})}
	*at = a
	t.inBackground(func(ctx context.Context) {
		a.err = question(ctx)
		t.mu.Lock()
		*at = nil
		t.mu.Unlock()
		close(a.done)
		if after != nil {
			after(a.err)
		}
	})
	return a
}

// wait waits for an answer, but not longer than lookPatience. The question goes on.
func (t *Tree) wait(ctx context.Context, a *asking) error {
	enough := time.NewTimer(max(0, lookPatience-t.now().Sub(a.began)))
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

// lookAt begins to list s.
func (t *Tree) lookAt(s *source, maxAge time.Duration) *asking {
	return t.begin(&s.asking, func(ctx context.Context) error { return s.refresh(ctx, maxAge) }, t.noteLooked)
}

// noteLooked remembers whether the service answered a look.
func (t *Tree) noteLooked(err error) {
	if err == nil || isAway(err) {
		t.noteReached(err)
	}
}

// isAway reports whether the service did not answer. nil is an answer.
func isAway(err error) bool {
	return err != nil && wrapRemote("", "", err).Class.isAway()
}

// isAway reports whether the class stands for a service that did not answer.
func (c Class) isAway() bool { return c == ClassUnreachable || c == ClassTimeout }

// isLoaded reports whether g was listed.
func (g *group) isLoaded() bool {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	return g.loaded
}

// fromMemory lets memory answer while the service is away, or once the budget is used up:
// listed names stay, and programs can begin new files. A close then fails. The end of the
// budget is reported once.
func (t *Tree) fromMemory(s *source, err error) error {
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case failed.Class.isAway():
		return nil
	case failed.Class == ClassBudget:
		t.mu.Lock()
		first := !s.reportedDry
		s.reportedDry = true
		t.mu.Unlock()
		if first {
			_ = t.fail("list", s.path, &Error{Class: ClassBudget, Err: failed.Err, Hint: failed.Hint})
		}
		return nil
	default:
		return err
	}
}

// tick runs every refresh interval.
func (t *Tree) tick(ctx context.Context) {
	now, unsent := t.now(), t.hasUnsent()
	if t.watched.Load() {
		if unsent {
			t.probe(now)
		}
		if !unsent && !t.reached.Load() || now.Sub(t.polledAt) >= watchedInterval {
			t.polledAt = now
			t.noteReached(t.refresh(ctx))
		}
		return
	}
	for _, g := range t.groupsWith(func(g *group) bool { return g.opens.Load() > 0 }) {
		t.checkMember(g)
	}
	if unsent || !t.reached.Load() {
		t.probe(now)
		return
	}
	for _, g := range t.groupsWith(func(g *group) bool { return g.loaded && g.isWanted(now) }) {
		t.lookAt(&g.source, 0)
	}
	t.mu.RLock()
	look := t.list.isWanted(now)
	t.mu.RUnlock()
	if look {
		t.lookAt(&t.list, 0)
	}
}

func (t *Tree) groupsWith(match func(*group) bool) (list []*group) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, g := range t.groups {
		if match(g) {
			list = append(list, g)
		}
	}
	return list
}

// probe checks whether a service that was away is back, if a program looked since or
// content waits to be sent. When the service is back, probe sends that content.
func (t *Tree) probe(now time.Time) {
	waits := t.hasUnsent()
	t.mu.Lock()
	due := (waits || t.lookedAt.After(t.probing.Asked)) && t.probing.IsDue(now)
	if due {
		t.probing.Note(now, false, t.cfg.RefreshInterval, longestProbe)
	}
	t.mu.Unlock()
	if !due {
		return
	}
	t.begin(&t.list.asking, t.refreshGroups, func(err error) {
		if wasAway := !t.reached.Load(); err == nil && !wasAway {
			t.retryPending(t.life)
		}
		t.noteLooked(err)
	})
}

// checkMember asks the ledger whether the account still belongs to g, which costs
// nothing. It believes a no only when the list of groups agrees (M5).
func (t *Tree) checkMember(g *group) *asking {
	return t.begin(&g.checking, func(ctx context.Context) error {
		asked, cancel := t.metadata(ctx)
		defer cancel()
		member, err := t.remote.IsAuthorized(asked, g.id, t.remote.Account())
		if err != nil && sdk.KindOf(err) != sdk.ErrNotFound {
			return wrapRemote("check membership", g.dir.Path(), err)
		}
		now := t.now()
		t.mu.Lock()
		doubt := !member && g.doubts.IsDue(now)
		if member {
			g.memberAt = now
		}
		if doubt {
			g.doubts.Note(now, false, t.cfg.RefreshInterval, longestPause)
		}
		t.mu.Unlock()
		if !doubt {
			return nil
		}
		return t.refreshGroups(ctx)
	}, nil)
}

// stillMember checks that the account was not revoked, before content in memory is handed
// out, where the service does not announce changes (M5).
func (t *Tree) stillMember(ctx context.Context, g *group) error {
	t.mu.RLock()
	fresh := t.now().Sub(g.memberAt) < t.cfg.RefreshInterval
	t.mu.RUnlock()
	if fresh || t.watched.Load() || !t.reached.Load() {
		return nil
	}
	_ = t.wait(ctx, t.checkMember(g)) // without an answer nothing is known
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if t.isGone(g) {
		return outOfGroup()
	}
	return nil
}
