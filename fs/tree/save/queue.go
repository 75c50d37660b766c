package save

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Outbox keeps saves until they are recorded. [*outbox.Outbox] is one.
type Outbox interface {
	Put(ctx context.Context, s outbox.Save) (outbox.Item, error)
	Ready(id string)
	Content(id string, b *mem.Buffer) error
	OpenBlocks(id string) (*outbox.WaitingBlocks, error)
	Item(id string) (outbox.Item, bool)
	Items() []outbox.Item
	Recorded(id string) (sdk.Ref, bool)
	Settle(ctx context.Context, id string) error
	Before(ctx context.Context, g sdk.GroupID) error
	Remove(ctx context.Context, id string) error
	Rename(ctx context.Context, id, name string, base sdk.Ref) error
	Lost(g sdk.GroupID)
	Again()
	Status() outbox.Status
}

// The errors of what waits, beside those of [outbox].
var (
	// ErrRecorded: it waits no more.
	ErrRecorded = errors.New("it was recorded just now")
	// ErrWaits: it was not recorded, and waits on.
	ErrWaits = errors.New("it waits to be sent")
	// ErrSavedAgain: what was to be changed where it waits is on its way.
	ErrSavedAgain = errors.New("it was saved again, and that is being sent")
)

// Damaged is the error of what waits and cannot be read.
type Damaged struct{ error }

// Unwrap returns the cause.
func (d Damaged) Unwrap() error { return d.error }

// firstSeq is where the sequences of entries that wait begin: a save that waits is newer than all records.
const firstSeq sdk.Seq = 1 << 62

// Waits reports whether an entry, which may be nil, stands for a record that is not made yet.
func Waits(e *sdk.Entry) bool { return e != nil && e.Seq >= firstSeq }

// Entry stands for the record of an item until it is made. Its reference is [outbox.Item.Ref].
func Entry(i outbox.Item, account sdk.AccountID) *sdk.Entry {
	e := &sdk.Entry{Group: i.Group, Ref: i.Ref(), Hash: i.Hash, Uploader: account, Time: i.Time,
		Seq: firstSeq + sdk.Seq(i.Position), ChangedSeq: firstSeq + sdk.Seq(i.Position), Name: i.Name, Size: i.Size}
	if !i.Attributes.IsZero() {
		e.Attributes = &i.Attributes
	}
	if i.BlockBytes > 0 { // stands for what the record will have
		e.Content = sdk.ComputeHash([]byte(e.Ref))
	}
	return e
}

// Queue is what waits in the outbox, and what is set aside of the budget for it. It is safe for concurrent use.
type Queue struct {
	Outbox // nil = none: a save waits for its record, and [Queue.IsOn] is false
	budget *policy.Budget

	mu       sync.Mutex // held alone
	reserved map[sdk.Ref]sdk.Amount
}

// NewQueue returns the queue of an outbox, nil for none.
func NewQueue(o Outbox, budget *policy.Budget) *Queue {
	return &Queue{Outbox: o, budget: budget, reserved: make(map[sdk.Ref]sdk.Amount)}
}

// IsOn reports whether there is an outbox. Without one nothing waits.
func (q *Queue) IsOn() bool { return q.Outbox != nil }

// Takes reports whether a save of n bytes in one piece may go through the outbox.
func (q *Queue) Takes(n int64) bool { return q.IsOn() && n <= wire.WholeFileBytes }

// Put takes a save in, and sets its price aside. Errors: [policy.OverBudget], and those of [outbox.Outbox.Put].
func (q *Queue) Put(ctx context.Context, s outbox.Save) (outbox.Item, error) {
	price := q.budget.PriceOf("upload", sdk.Amount{})
	if err := q.budget.Reserve(q.budget.Now(), price); err != nil {
		return outbox.Item{}, err
	}
	item, err := q.Outbox.Put(ctx, s)
	if err != nil {
		q.budget.Settle(q.budget.Now(), price, sdk.Amount{})
		return outbox.Item{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reserved[item.Ref()] = price
	return item, nil
}

// Told takes note of the price of an item whose step ends it, or parks it.
func (q *Queue) Told(i outbox.Item, r sdk.Receipt) {
	var fee sdk.Amount
	switch i.State {
	case outbox.Recorded.String():
		fee = q.budget.PriceOf("upload", r.Fee)
	case outbox.Discarded.String(), outbox.Parked.String():
	default:
		return
	}
	q.mu.Lock()
	price, ok := q.reserved[i.Ref()]
	delete(q.reserved, i.Ref())
	q.mu.Unlock()
	if ok || !fee.IsZero() {
		q.budget.Settle(q.budget.Now(), price, fee)
	}
}

// At returns what waits behind an entry.
func (q *Queue) At(e *sdk.Entry) (outbox.Item, bool) {
	if !Waits(e) || !q.IsOn() {
		return outbox.Item{}, false
	}
	return q.Item(outbox.IDOf(e.Ref))
}

// Locked is [outbox.ErrLocked] if the content of an entry waits, and its key was not fetched since the restart.
func (q *Queue) Locked(e *sdk.Entry) error {
	if i, ok := q.At(e); ok && i.Locked {
		return outbox.ErrLocked
	}
	return nil
}

// WasTried reports whether a version waits, and the service may have it.
func (q *Queue) WasTried(e sdk.Entry) bool {
	i, ok := q.At(&e)
	return ok && i.Tried
}

// Items lists what waits, in the order of the saves.
func (q *Queue) Items() []outbox.Item {
	if !q.IsOn() {
		return nil
	}
	return q.Outbox.Items()
}

// Status tells how it stands with the outbox; nil = there is none.
func (q *Queue) Status() *outbox.Status {
	if !q.IsOn() {
		return nil
	}
	s := q.Outbox.Status()
	return &s
}

// Again has what waits sent now: the service is back.
func (q *Queue) Again() {
	if q.IsOn() {
		q.Outbox.Again()
	}
}

// Lost parks what waits for a group that is no longer ours.
func (q *Queue) Lost(g sdk.GroupID) {
	if q.IsOn() {
		q.Outbox.Lost(g)
	}
}

// Before waits until what was saved before in a group is recorded: what cannot wait comes after it.
func (q *Queue) Before(ctx context.Context, g sdk.GroupID) error {
	if !q.IsOn() {
		return nil
	}
	return q.Outbox.Before(ctx, g)
}

// Settle waits until those of a list that wait are recorded. Error: [ErrWaits] for one that the service refused.
func (q *Queue) Settle(ctx context.Context, list []sdk.Entry) error {
	for _, e := range list {
		if !Waits(&e) {
			continue
		}
		if err := q.Outbox.Settle(ctx, outbox.IDOf(e.Ref)); err != nil {
			return err
		}
		if i, ok := q.At(&e); ok {
			return fmt.Errorf("%w: %s", ErrWaits, i.Reason)
		}
	}
	return nil
}

// SettleFirst keeps versions from being replaced while they wait, or while what is to take their name was sent and
// has no answer: such a rename can fail after they are gone. It waits for their records, and the plan of who asked is
// out of date then, which is [outbox.ErrTried].
func (q *Queue) SettleFirst(ctx context.Context, renamed, replaced []sdk.Entry) error {
	if err := q.Settle(ctx, replaced); err != nil {
		return err
	}
	for i := range replaced {
		if Waits(&replaced[i]) {
			return outbox.ErrTried
		}
	}
	for _, e := range renamed {
		if q.WasTried(e) {
			return outbox.ErrTried
		}
	}
	return nil
}

// Change does a change of what may wait. settle waits for the records first: with always also of what could be changed
// where it waits. So it is done once more when it was recorded, or sent, meanwhile. Error: [ErrSavedAgain].
func Change(settle func(always bool) error, change func() error) error {
	overtaken := func(err error) bool { return errors.Is(err, outbox.ErrTried) || errors.Is(err, outbox.ErrGone) }
	if err := settle(false); err != nil {
		return err
	}
	err := change()
	if !overtaken(err) {
		return err
	}
	waits := settle(true)
	if waits != nil && !errors.Is(waits, ErrWaits) { // what the service refused can be changed again
		return waits
	}
	if err = change(); overtaken(err) {
		return cmp.Or(waits, ErrSavedAgain)
	}
	return err
}

// RemoveFrom takes what waits from the versions of a name: it is never sent.
func (q *Queue) RemoveFrom(ctx context.Context, list []sdk.Entry) (rest []sdk.Entry, err error) {
	for _, e := range list {
		if !Waits(&e) {
			rest = append(rest, e)
			continue
		}
		if err := q.Remove(ctx, outbox.IDOf(e.Ref)); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// Read reads content that waits. Free.
func (q *Queue) Read(e *sdk.Entry, into *mem.Buffer) error {
	return readError(q.Content(outbox.IDOf(e.Ref), into))
}

// readError is the error of who reads what waits.
func readError(err error) error {
	switch {
	case err == nil, errors.Is(err, outbox.ErrLocked):
		return err
	case errors.Is(err, outbox.ErrGone):
		return ErrRecorded
	}
	return Damaged{err}
}
