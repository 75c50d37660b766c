package tree

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

const (
	// lookPatience is how long a look-up or a listing waits for the service; then
	// memory answers.
	lookPatience = time.Second
	// longestPause is the longest time between looks at the ledger that cost, while
	// somebody goes on looking.
	longestPause = time.Minute
	// longestProbe is the longest time between attempts to reach a service that is away.
	longestProbe = 8 * time.Second
	// priceAge is how long a price is believed.
	priceAge = time.Hour
)

// pacing tells when the next look at the ledger may be made where looking costs: at
// once after a long pause, then ever more rarely while nothing new comes. By Tree.mu.
type pacing struct {
	asked time.Time
	pause time.Duration // since asked, before the next
}

func (p *pacing) isDue(now time.Time) bool { return now.Sub(p.asked) >= p.pause }

func (p *pacing) note(now time.Time, news bool, least, most time.Duration) {
	if news || now.Sub(p.asked) >= 2*most {
		p.pause = least
	} else {
		p.pause = max(least, min(2*p.pause, most))
	}
	p.asked = now
}

// lookPrice is what one look costs, as far as it is known. By Tree.mu.
type lookPrice struct {
	amount sdk.Amount
	until  time.Time
}

// paid looks at the ledger once, at g or with nil at the list of groups, within the
// budget (R6).
func (t *Tree) paid(ctx context.Context, g *group, look func() error) error {
	price := t.readPrice(ctx, g)
	if price.IsZero() {
		return look()
	}
	if err := t.reserve(price); err != nil {
		return err
	}
	err := look()
	charged := price
	switch sdk.KindOf(err) {
	case sdk.KindTimeout, sdk.KindCanceled, sdk.KindCorrupt: // it was carried out, most likely
	default:
		if err != nil {
			charged = sdk.Amount{}
		}
	}
	if !charged.IsZero() {
		t.counts.looks.Add(1)
	}
	t.spent.Settle(t.now(), price, charged)
	return err
}

// readPrice asks what a look costs, unless that is known.
func (t *Tree) readPrice(ctx context.Context, g *group) sdk.Amount {
	if t.cfg.ReadPrice == nil {
		return sdk.Amount{}
	}
	price, id := &t.lookPrice, sdk.GroupID("")
	if g != nil {
		price, id = &g.price, g.id
	}
	t.mu.RLock()
	known := *price
	t.mu.RUnlock()
	now := t.now()
	if now.Before(known.until) {
		return known.amount
	}
	asked, cancel := sdk.WithPatience(ctx, lookPatience) // the look itself may still be answered
	defer cancel()
	amount, err := t.cfg.ReadPrice(asked, id)
	known.until = now.Add(longestPause)
	if err == nil {
		known = lookPrice{amount, now.Add(priceAge)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	*price = known
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
		price = d.t.lookPrice.amount
	case dirGroup:
		price = d.group.price.amount
	}
	return price, !price.IsZero()
}

// isFresh reports whether a listing made at that moment is younger than maxAge, or,
// where looking costs, than the pause between looks. Needs Tree.mu.
func (t *Tree) isFresh(listed time.Time, p *pacing, price *lookPrice, maxAge time.Duration) bool {
	if price.amount.IsZero() || t.watched.Load() {
		return t.now().Sub(listed) < maxAge
	}
	return !p.isDue(t.now())
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

// lookAt begins to list g.
func (t *Tree) lookAt(g *group, maxAge time.Duration) *asking {
	return t.begin(&g.asking, func(ctx context.Context) error { return t.refreshGroup(ctx, g, maxAge) }, t.noteLooked)
}

// lookAtGroups begins to list the groups.
func (t *Tree) lookAtGroups() *asking { return t.begin(&t.asking, t.refreshGroups, t.noteLooked) }

// noteLooked remembers what a look says about the service.
func (t *Tree) noteLooked(err error) {
	if err == nil || isAway(err) {
		t.noteReached(err)
	}
}

func isAway(err error) bool {
	var failed *Error
	return asError(err, &failed) && (failed.Class == ClassUnreachable || failed.Class == ClassTimeout)
}

// isLoaded reports whether g was listed.
func (g *group) isLoaded() bool {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	return g.loaded
}

// fromMemory lets what is known answer while the service is away, or the budget is
// used up: what was listed stays listed, and new files can be begun. Closing them
// tells. A budget that ended is told once.
func (t *Tree) fromMemory(path string, told *bool, err error) error {
	var failed *Error
	if !asError(err, &failed) {
		return err
	}
	switch failed.Class {
	case ClassUnreachable, ClassTimeout:
		return nil
	case ClassBudget:
		t.mu.Lock()
		first := !*told
		*told = true
		t.mu.Unlock()
		if first {
			_ = t.fail("list", path, &Error{Class: ClassBudget, Err: failed.Err, Hint: failed.Hint})
		}
		return nil
	default:
		return err
	}
}

// tick is what the mount does by itself every refresh interval.
func (t *Tree) tick(ctx context.Context) {
	now := t.now()
	if t.watched.Load() {
		if !t.reached.Load() || now.Sub(t.polledAt) >= watchedInterval {
			t.polledAt = now
			t.noteReached(t.refresh(ctx))
		}
		return
	}
	for _, g := range t.groupsWith(func(g *group) bool { return g.opens.Load() > 0 }) {
		t.checkMember(g)
	}
	if !t.reached.Load() || t.hasUnsent() {
		t.probe(now)
		return
	}
	// Somebody looked, and was answered from memory.
	for _, g := range t.groupsWith(func(g *group) bool { return g.loaded && g.usedAt.After(g.pacing.asked) && g.pacing.isDue(now) }) {
		t.lookAt(g, 0)
	}
	t.mu.RLock()
	look := t.usedAt.After(t.pacing.asked) && t.pacing.isDue(now)
	t.mu.RUnlock()
	if look {
		t.lookAtGroups()
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

// probe looks whether a service that was away is back, if somebody looked since or
// something waits to be sent, and then sends that.
func (t *Tree) probe(now time.Time) {
	waits := t.hasUnsent()
	t.mu.Lock()
	due := (waits || t.lookedAt.After(t.probing.asked)) && t.probing.isDue(now)
	if due {
		t.probing.note(now, false, t.cfg.RefreshInterval, longestProbe)
	}
	t.mu.Unlock()
	if !due {
		return
	}
	t.begin(&t.asking, t.refreshGroups, func(err error) {
		if wasAway := !t.reached.Load(); err == nil && !wasAway {
			t.retryPending(t.life)
		}
		t.noteLooked(err)
	})
}

// checkMember asks the ledger whether the account still belongs to g, which costs
// nothing, and believes a no once the list of groups says so too (M5).
func (t *Tree) checkMember(g *group) *asking {
	return t.begin(&g.checking, func(ctx context.Context) error {
		asked, cancel := t.metadata(ctx)
		defer cancel()
		member, err := t.remote.IsAuthorized(asked, g.id, t.remote.Account())
		if err != nil && sdk.KindOf(err) != sdk.KindNotFound {
			return wrapRemote("check membership", g.dir.Path(), err)
		}
		now := t.now()
		t.mu.Lock()
		doubt := !member && g.doubts.isDue(now)
		if member {
			g.memberAt = now
		}
		if doubt {
			g.doubts.note(now, false, t.cfg.RefreshInterval, longestPause)
		}
		t.mu.Unlock()
		if !doubt {
			return nil
		}
		return t.refreshGroups(ctx)
	}, nil)
}

// stillMember checks, before content in memory is handed out, that the account was not
// revoked, where the service does not report that by itself (M5).
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
		return &Error{Class: ClassRevoked, Err: errText("this account was revoked from the group"), Hint: "Ask the owner of the group to add you again."}
	}
	return nil
}
