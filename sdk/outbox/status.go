package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// shown needs mu.
func (o *Outbox) shown(i *item) Item {
	s := Item{ID: i.clear.ID, Group: i.group, Name: i.name, Size: i.clear.Size, Time: i.clear.Time,
		State: i.state.String(), Reason: i.reason, Position: i.clear.Position, Was: i.was, Locked: true,
		Tried: i.wasTried()}
	if m := i.meta; m != nil {
		s.Attributes, s.Hash, s.Locked = m.Attributes, sdk.Digest(m.Hash), !i.journal.hasKey()
		s.BlockBytes, s.Changed, s.From, s.Temporary = m.Block, m.changed, m.From, m.Temporary
	}
	if i.state == Waiting && !o.next.IsZero() && o.away != nil {
		next := o.next
		s.Next = &next
	} else if i.held != nil && !i.notBefore.IsZero() {
		next := i.notBefore
		s.Next = &next
	}
	return s
}

func (o *Outbox) shownAll(list []*item) (items []Item) {
	for _, i := range list {
		items = append(items, o.shown(i))
	}
	return items
}

func (o *Outbox) tell(items []Item) {
	for _, i := range items {
		if o.cfg.Told != nil {
			o.cfg.Told(i, sdk.Receipt{})
		}
	}
}

// Items returns what waits, in the order of the saves.
func (o *Outbox) Items() []Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shownAll(o.order)
}

// Item returns an item.
func (o *Outbox) Item(id string) (Item, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.items[id]
	if i == nil {
		return Item{}, false
	}
	return o.shown(i), true
}

// Recorded returns the reference of an item that was recorded since the start.
func (o *Outbox) Recorded(id string) (sdk.Ref, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ref, ok := o.results[id]
	return ref, ok
}

// Kick has what waits tried now, also while the service was away.
func (o *Outbox) Kick() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Again has the service asked at once: it may be back.
func (o *Outbox) Again() {
	o.mu.Lock()
	o.next, o.pause = time.Time{}, 0
	for _, i := range o.order {
		if i.held != nil {
			i.pause, i.notBefore = 0, time.Time{}
		}
	}
	o.mu.Unlock()
	o.Kick()
}

// Status is how it stands with the outbox.
type Status struct {
	Items   int        `json:"items"`
	Parked  int        `json:"parked"`
	Bytes   int64      `json:"bytes"`          // on the disk
	Limit   int64      `json:"limit_bytes"`    // most of them
	Oldest  *time.Time `json:"oldest"`         // save that waits
	Rate    int64      `json:"rate_bytes"`     // recorded a second, in the last minute
	Next    *time.Time `json:"next,omitempty"` // attempt, while the service is away
	Reason  string     `json:"reason,omitempty"`
	Sending int        `json:"sending"`
}

// Status returns how it stands.
func (o *Outbox) Status() Status {
	used := o.store.bytes()
	limit, err := o.limit()
	if err != nil {
		limit = o.cfg.Bytes
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Status{Items: len(o.order), Bytes: used, Limit: limit, Sending: o.sending}
	for _, i := range o.order {
		if i.state == Parked {
			s.Parked++
		}
	}
	if len(o.order) > 0 {
		oldest := o.order[0].clear.Time
		s.Oldest = &oldest
	}
	if o.away != nil {
		s.Reason = words(o.away)
		if !o.next.IsZero() {
			next := o.next
			s.Next = &next
		}
	}
	s.Rate = o.rate(time.Now())
	return s
}

// rateSeconds is over how many seconds [Status].Rate is taken: a large item is recorded once in a while.
const rateSeconds = 60

// rate is that of Status, in bytes a second. Needs mu.
func (o *Outbox) rate(now time.Time) (rate int64) {
	seconds := min(int64(now.Sub(o.started).Seconds()), rateSeconds)
	if seconds < 1 {
		return 0
	}
	for _, s := range o.sent {
		if now.Unix()-s.at < rateSeconds {
			rate += s.bytes
		}
	}
	return rate / seconds
}

// arrived counts bytes that were recorded. Needs mu.
func (o *Outbox) arrived(now time.Time, n int64) {
	s := &o.sent[now.Unix()%rateSeconds]
	if s.at != now.Unix() {
		s.at, s.bytes = now.Unix(), 0
	}
	s.bytes += n
}

// words is an error on one line.
func words(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxWords {
		text = text[:maxWords] + "…"
	}
	return text
}

// heldIn returns why the first item of a group that is to be sent is not opened, or not recorded, yet, nil if it may be
// at once. Needs mu.
func (o *Outbox) heldIn(g sdk.GroupID) error {
	if i := o.firstUnopened(g); i != nil && i.held != nil {
		return i.held
	}
	for _, i := range o.lane(g).queue {
		if i.state != Parked {
			return i.held
		}
	}
	return nil
}

// wait waits until is reports true, with everything sent as soon as it can be. It ends early with
// ErrAway when the service does not answer, or held, which may be nil, has an error.
func (o *Outbox) wait(ctx context.Context, patient bool, held func() error, is func() bool) error {
	o.mu.Lock()
	o.flush++
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.flush--
		o.mu.Unlock()
	}()
	o.Kick()
	for {
		o.mu.Lock()
		done, away, changed := is(), o.away, o.changed
		if away == nil && held != nil {
			away = held()
		}
		o.mu.Unlock()
		if done {
			return nil
		}
		if away != nil && !patient {
			return fmt.Errorf("%w: %w", ErrAway, away)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Settle waits until an item is no longer on its way: recorded, parked or discarded. It gives up
// with [ErrAway].
func (o *Outbox) Settle(ctx context.Context, id string) error {
	held := func() error {
		if i := o.items[id]; i != nil {
			return o.heldIn(i.group)
		}
		return nil
	}
	return o.wait(ctx, false, held, func() bool { i := o.items[id]; return i == nil || i.state == Parked })
}

// Before waits until all of a group that was saved before is recorded, or parked: what is saved
// without the outbox comes after it. It gives up with [ErrAway].
func (o *Outbox) Before(ctx context.Context, g sdk.GroupID) error {
	o.mu.Lock()
	last := o.store.last()
	o.mu.Unlock()
	return o.wait(ctx, false, func() error { return o.heldIn(g) }, func() bool {
		return !slices.ContainsFunc(o.order, func(i *item) bool {
			return i.mayBeOf(g) && i.clear.Position <= last && i.state != Parked && i.ready
		})
	})
}

// Drain sends what it can until ctx ends, and returns what stays.
func (o *Outbox) Drain(ctx context.Context) []Item {
	o.Again()
	_ = o.wait(ctx, true, nil, func() bool {
		return !slices.ContainsFunc(o.order, func(i *item) bool { return i.state != Parked })
	})
	_, _ = o.endJournals(ctx, true) // else the next process does it
	return o.Items()
}
