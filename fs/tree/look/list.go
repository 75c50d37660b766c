package look

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/view"
)

// List is a list on the ledger that a mount shows: the groups, or the records of one. It is safe for concurrent use.
type List struct {
	l     *Look
	group sdk.GroupID // "" for the groups
	view  *view.View  // of the group; nothing is known of that of the groups
	list  func(context.Context) error
	gate  policy.Gate // one look at a time

	Open atomic.Int64 // handles of files of the group: while there are any, its members are looked at

	// By Look.mu.
	listedAt    time.Time     // of the last look that succeeded
	usedAt      time.Time     // a program wanted to see it
	pacing      policy.Pacing // of looks
	price       price         // of one
	asking      *asking       // the look that programs wait for
	failed      *Failed       // the last look, if it failed
	reportedDry bool          // that the budget allows no look
	following   *asking       // a look at what was announced
	announced   sdk.Seq       // the newest record that an event told of, and that following is not for; 0 = none
	repeats     policy.Pacing // of looks at what was announced, while they fail

	checking *asking       // whether the account is still a member
	memberAt time.Time     // the service last said so
	doubts   policy.Pacing // of looks because the ledger said otherwise

	storage storage
}

// NewList returns the list of the records of a group, until [Look.Remove]. list lists them with [List.Ask], shows
// them, and says [List.Listed]; nil = there are none on the ledger.
func (l *Look) NewList(g sdk.GroupID, v *view.View, list func(context.Context) error) *List {
	s := &List{l: l, group: g, view: v, list: list, gate: policy.NewGate(1)}
	if list != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lists[g] = s
	}
	return s
}

// Remove says that the account lost a group.
func (l *Look) Remove(s *List) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lists, s.group)
}

// Refresh looks at the ledger, unless another caller did so within maxAge.
func (s *List) Refresh(ctx context.Context, maxAge time.Duration) (err error) {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	s.l.mu.RLock()
	fresh := maxAge > 0 && s.age() < maxAge
	s.l.mu.RUnlock()
	if fresh {
		return nil
	}
	ctx, cancel := network.WithPatience(ctx, s.l.cfg.Patience)
	defer cancel()
	err = s.list(ctx)
	s.noteOutcome(err)
	return err
}

// Look asks the service for something of the group once, or has it listed, with the gate that looks pass one by one.
func (s *List) Look(ctx context.Context, ask func(context.Context) error) error {
	s.NoteUse()
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	ctx, cancel := network.WithPatience(ctx, s.l.cfg.Patience)
	defer cancel()
	err := ask(ctx)
	s.noteOutcome(err)
	s.l.noteAway(err) // else what waits would be sent now, for which the gate is needed: Tick sends it
	return err
}

// Ask asks the ledger once within the budget, and remembers when that was, and whether it brought news.
func (s *List) Ask(ctx context.Context, ask func() (news bool, err error)) error {
	var news bool
	err := s.Pay(ctx, func() (err error) {
		news, err = ask()
		return err
	})
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	now := s.l.cfg.Now()
	s.pacing.Note(now, news || s.listedAt.IsZero(), s.l.cfg.Interval, LongestPause)
	if err == nil {
		s.noteMember(now)
		s.reportedDry = false
	}
	return err
}

// Listed says that what was asked for last is shown.
func (s *List) Listed() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.listedAt = s.l.cfg.Now()
}

// IsListed reports whether it was listed ever.
func (s *List) IsListed() bool {
	s.l.mu.RLock()
	defer s.l.mu.RUnlock()
	return !s.listedAt.IsZero()
}

// age returns for how long something may have changed that this mount does not know. Needs Look.mu.
func (s *List) age() time.Duration {
	now := s.l.cfg.Now()
	return min(now.Sub(s.listedAt), now.Sub(s.view.Whole()))
}

// isFresh reports whether what is known is younger than maxAge, or, where looking costs, than
// the pause between looks. Needs Look.mu.
func (s *List) isFresh(maxAge time.Duration) bool {
	if s.price.amount.IsZero() || s.l.Watched() {
		return s.age() < maxAge
	}
	return !s.pacing.IsDue(s.l.cfg.Now())
}

// isWanted reports whether a program was answered from memory, and a look is due now. Needs Look.mu.
func (s *List) isWanted(now time.Time) bool {
	return s.usedAt.After(s.pacing.Asked) && s.pacing.IsDue(now)
}

// NoteUse remembers that a program wanted to see the list.
func (s *List) NoteUse() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.usedAt = s.l.cfg.Now()
	s.l.usedAt = s.usedAt
}

// Use brings the list up to date, so that it was listed within maxAge, or is as new as the
// budget and the service allow; negative means listed ever.
func (s *List) Use(ctx context.Context, maxAge time.Duration) error {
	s.NoteUse()
	s.l.mu.RLock()
	listed, fresh := !s.listedAt.IsZero(), s.isFresh(maxAge)
	s.l.mu.RUnlock()
	switch {
	case !listed:
		return s.Refresh(ctx, max(maxAge, 0))
	case maxAge < 0 || fresh || !s.l.Reached(): // Tick looks whether it is back
		return nil
	default:
		return s.fromMemory(s.l.wait(ctx, s.begin(maxAge)))
	}
}

// Begin begins to list what changed.
func (s *List) Begin() { s.begin(0) }

func (s *List) begin(maxAge time.Duration) *asking {
	return s.l.begin(&s.asking, func(ctx context.Context) error { return s.Refresh(ctx, maxAge) },
		func(err error) { s.l.noteLooked(err) })
}

// priceAge is how long a price is believed.
const priceAge = time.Hour

// price is the price of one look, as far as it is known.
type price struct {
	amount sdk.Amount
	until  time.Time
}

// Pay looks at the ledger once within the budget (R6).
func (s *List) Pay(ctx context.Context, look func() error) error {
	price := s.askPrice(ctx)
	if price.IsZero() {
		return look()
	}
	return s.l.cfg.Budget.Charge(price, func() (sdk.Amount, error) {
		err := look()
		switch sdk.KindOf(err) {
		case sdk.ErrTimeout, sdk.ErrCanceled, sdk.ErrCorrupt: // it was carried out, most likely
		default:
			if err != nil {
				return sdk.Amount{}, err
			}
		}
		s.l.paid.Add(1)
		return price, err
	})
}

// askPrice asks for the price of a look, unless it is known.
func (s *List) askPrice(ctx context.Context) sdk.Amount {
	if s.l.cfg.Price == nil {
		return sdk.Amount{}
	}
	s.l.mu.RLock()
	known := s.price
	s.l.mu.RUnlock()
	now := s.l.cfg.Now()
	if now.Before(known.until) {
		return known.amount
	}
	asked, cancel := network.WithPatience(ctx, Patience) // the look itself may still be answered
	defer cancel()
	amount, err := s.l.cfg.Price(asked, s.group)
	known.until = now.Add(LongestPause)
	if err == nil {
		known = price{amount, now.Add(priceAge)}
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.price = known
	return known.amount
}

// Price returns the price of one look, zero where it is not known or free.
func (s *List) Price() sdk.Amount {
	s.l.mu.RLock()
	defer s.l.mu.RUnlock()
	return s.price.amount
}

// NoteMember remembers that the service took the account for a member of the group.
func (s *List) NoteMember() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.noteMember(s.l.cfg.Now())
}

// noteMember keeps the time without the clock that stops while the machine sleeps. Needs Look.mu.
func (s *List) noteMember(now time.Time) { s.memberAt = now.Round(0) }

// CheckMember has the list of groups say whether the account still belongs to the group, unless the service announces
// changes now (M5). It waits for the service, but not for long, and fails only with ctx.
func (s *List) CheckMember(ctx context.Context) error {
	s.l.mu.RLock()
	age := s.l.cfg.Now().Sub(s.memberAt)
	s.l.mu.RUnlock()
	if age >= 0 && age < s.l.cfg.Interval || s.l.isTold() || !s.l.Reached() {
		return nil
	}
	_ = s.l.wait(ctx, s.checkMember()) // without an answer nothing is known
	return ctx.Err()
}

// checkMember asks the ledger whether the account still belongs to the group, which costs
// nothing. It believes a no only when the list of groups agrees (M5).
func (s *List) checkMember() *asking {
	l := s.l
	return l.begin(&s.checking, func(ctx context.Context) error {
		asked, cancel := network.WithPatience(ctx, l.cfg.Patience)
		defer cancel()
		member, err := l.cfg.Service.IsAuthorized(asked, s.group, l.cfg.Service.Account())
		if err != nil && sdk.KindOf(err) != sdk.ErrNotFound {
			return err
		}
		now := l.cfg.Now()
		l.mu.Lock()
		doubt := !member && s.doubts.IsDue(now)
		if member {
			s.noteMember(now)
		}
		if doubt {
			s.doubts.Note(now, false, l.cfg.Interval, LongestPause)
		}
		l.mu.Unlock()
		if !doubt {
			return nil
		}
		return l.Groups.Refresh(ctx, 0)
	}, nil)
}
