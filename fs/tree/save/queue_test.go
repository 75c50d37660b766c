package save

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// box is an outbox of one item.
type box struct {
	Outbox
	item    outbox.Item
	err     error // of every request
	removed []string
}

func (b *box) Put(context.Context, outbox.Save) (outbox.Item, error) { return b.item, b.err }
func (b *box) Item(id string) (outbox.Item, bool)                    { return b.item, id == b.item.ID }
func (b *box) Settle(context.Context, string) error                  { return b.err }
func (b *box) Content(string, *mem.Buffer) error                     { return b.err }
func (b *box) OpenBlocks(string) (*outbox.WaitingBlocks, error)      { return nil, b.err }

func (b *box) Remove(_ context.Context, id string) error {
	b.removed = append(b.removed, id)
	return b.err
}

func one(state outbox.State) outbox.Item {
	return outbox.Item{ID: "1", Group: "g", Name: "a", Position: 1, State: state.String()}
}

// priced is a budget that allows one upload at a time.
func priced(t *testing.T) *policy.Budget {
	price, err := wire.ParseAmount("1")
	if err != nil {
		t.Fatal(err)
	}
	return &policy.Budget{Limit: price, Now: time.Now, Price: func(string) (sdk.Amount, bool) { return price, true }}
}

// The price of a save is set aside until the item ends, and is spent when it is recorded alone.
func TestPriceOfWhatWaits(t *testing.T) {
	for _, tc := range []struct {
		told  outbox.State
		free  bool // another save may wait now
		spent bool
	}{
		{outbox.Waiting, false, false}, {outbox.Sending, false, false}, {outbox.Conflict, false, false},
		{outbox.Parked, true, false}, {outbox.Discarded, true, false}, {outbox.Recorded, false, true},
	} {
		budget := priced(t)
		q := NewQueue(&box{item: one(outbox.Waiting)}, budget)
		if _, err := q.Put(t.Context(), outbox.Save{}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Put(t.Context(), outbox.Save{}); !errors.As(err, new(policy.OverBudget)) {
			t.Errorf("beyond the budget: %v", err)
		}
		q.Told(one(tc.told), sdk.Receipt{})
		if budget.Spent().IsZero() == tc.spent {
			t.Errorf("%v: %v is spent", tc.told, budget.Spent())
		}
		if _, err := q.Put(t.Context(), outbox.Save{}); (err == nil) != tc.free {
			t.Errorf("after %v: %v", tc.told, err)
		}
	}
}

// What the outbox does not take costs nothing.
func TestPriceOfWhatIsNotTaken(t *testing.T) {
	b := &box{err: outbox.ErrFull}
	q := NewQueue(b, priced(t))
	for range 2 {
		if _, err := q.Put(t.Context(), outbox.Save{}); !errors.Is(err, outbox.ErrFull) {
			t.Errorf("error %v", err)
		}
	}
}

func TestWithoutAnOutboxNothingWaits(t *testing.T) {
	q := NewQueue(nil, priced(t))
	q.Again()
	q.Lost("g")
	if q.IsOn() || q.Takes(1) || q.Items() != nil || q.Status() != nil || q.Before(t.Context(), "g") != nil {
		t.Error("something waits")
	}
	if _, ok := q.At(&sdk.Entry{Ref: "r", Seq: 5}); ok {
		t.Error("a record waits")
	}
}

func TestEntryOfAnItem(t *testing.T) {
	older, newer := one(outbox.Waiting), one(outbox.Waiting)
	newer.Position, newer.BlockBytes = 2, 4096
	a, b := Entry(older, "alice"), Entry(newer, "alice")
	if !Waits(a) || Waits(nil) || Waits(&sdk.Entry{Seq: 1 << 40}) || a.Seq >= b.Seq || a.Ref != older.Ref() {
		t.Errorf("%+v, %+v", a, b)
	}
	if a.Content != (sdk.Digest{}) || b.Content == (sdk.Digest{}) {
		t.Error("which one is in blocks cannot be told")
	}
}

// A change of what waits is done where it waits, or once more after its record.
func TestChangeOfWhatWaits(t *testing.T) {
	refused := errors.New("refused")
	for _, tc := range []struct {
		name     string
		answers  []error // of the change
		settles  int
		want     error
		settling error
	}{
		{"where it waits", []error{nil}, 1, nil, nil},
		{"refused", []error{refused}, 1, refused, nil},
		{"recorded meanwhile", []error{outbox.ErrGone, nil}, 2, nil, nil},
		{"sent meanwhile", []error{outbox.ErrTried, refused}, 2, refused, nil},
		{"saved again and again", []error{outbox.ErrTried, outbox.ErrGone}, 2, ErrSavedAgain, nil},
		{"the service is away", nil, 1, outbox.ErrAway, outbox.ErrAway},
	} {
		settles := 0
		err := Change(func(always bool) error {
			if settles++; always != (settles == 2) {
				t.Errorf("%s: settles %v", tc.name, always)
			}
			return tc.settling
		}, func() error {
			now := tc.answers[0]
			tc.answers = tc.answers[1:]
			return now
		})
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || settles != tc.settles || len(tc.answers) > 0 {
			t.Errorf("%s: %v after %d", tc.name, err, settles)
		}
	}
}

func TestVersionsThatWait(t *testing.T) {
	b := &box{item: one(outbox.Waiting)}
	q := NewQueue(b, priced(t))
	record, waits := sdk.Entry{Ref: "r", Seq: 5}, *Entry(b.item, "alice")
	list := []sdk.Entry{record, waits}

	if err := q.Settle(t.Context(), list); !errors.Is(err, ErrWaits) {
		t.Errorf("it waits on: %v", err)
	}
	if err := q.SettleFirst(t.Context(), list, list[:1]); err != nil {
		t.Errorf("nothing that is replaced waits: %v", err)
	}
	b.item.Tried = true
	if err := q.SettleFirst(t.Context(), list, nil); !errors.Is(err, outbox.ErrTried) {
		t.Errorf("it was sent: %v", err)
	}
	if rest, err := q.RemoveFrom(t.Context(), list); err != nil || len(rest) != 1 || len(b.removed) != 1 {
		t.Errorf("left %+v, removed %v, %v", rest, b.removed, err)
	}
	b.item.Locked = true
	if err := q.Locked(&waits); !errors.Is(err, outbox.ErrLocked) {
		t.Errorf("its key is not there: %v", err)
	}
	b.item = outbox.Item{}
	if err := q.Settle(t.Context(), list); err != nil {
		t.Errorf("it was recorded: %v", err)
	}
	if err := q.SettleFirst(t.Context(), nil, list); !errors.Is(err, outbox.ErrTried) {
		t.Errorf("the plan is out of date: %v", err)
	}
	if err := q.Locked(&waits); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

// closing counts what is closed.
type closing struct {
	Base
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestReadingWhatWaits(t *testing.T) {
	e := Entry(one(outbox.Waiting), "alice")
	broken := errors.New("broken")
	for told, want := range map[error]error{
		outbox.ErrGone: ErrRecorded, outbox.ErrLocked: outbox.ErrLocked, broken: broken,
	} {
		q := NewQueue(&box{err: told}, priced(t))
		base := new(closing)
		_, err := q.Open(e, base)
		for _, err := range []error{err, q.Read(e, nil)} {
			if !errors.Is(err, want) || errors.As(err, new(Damaged)) != (want == broken) {
				t.Errorf("%v: %v", told, err)
			}
		}
		if base.closed != 1 {
			t.Errorf("the base was closed %d times", base.closed)
		}
	}
}
