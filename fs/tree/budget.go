package tree

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// budget adds up what this mount was charged and what it is about to be (R6).
type budget struct {
	mu       sync.Mutex
	limit    sdk.Amount // zero = none
	hourly   sdk.Amount // zero = none
	spent    sdk.Amount
	reserved sdk.Amount // of charges under way
	recent   []charge   // of the last hour, oldest first; only with an hourly limit
}

type charge struct {
	at  time.Time
	fee sdk.Amount
}

// reserve sets price aside for a charge that is about to be made, or refuses it
// when it would exceed a limit. An unknown price is zero: it is refused once a
// limit is reached. Call settle afterwards.
func (b *budget) reserve(now time.Time, price sdk.Amount) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !allows(b.limit, plus(b.spent, b.reserved), price) {
		return overBudget("this would cost " + price.Tokens() + " tokens, and the mount has spent or set aside " +
			plus(b.spent, b.reserved).Tokens() + " of its budget of " + b.limit.Tokens())
	}
	if hour := b.lastHour(now); !allows(b.hourly, plus(hour, b.reserved), price) {
		return overBudget("this would cost " + price.Tokens() + " tokens, and the mount has spent or set aside " +
			plus(hour, b.reserved).Tokens() + " of its budget of " + b.hourly.Tokens() + " for this hour")
	}
	b.reserved = plus(b.reserved, price)
	return nil
}

func overBudget(text string) *Error {
	return &Error{Class: ClassBudget, Err: errText(text), Hint: "Mount again with a larger --budget or --budget-per-hour."}
}

// allows reports whether used and price together stay within limit.
func allows(limit, used, price sdk.Amount) bool {
	return limit.IsZero() || plus(used, price).Cmp(limit) <= 0 && (!price.IsZero() || used.Cmp(limit) < 0)
}

// settle ends a reservation of price; fee is what was charged in the end.
func (b *budget) settle(now time.Time, price, fee sdk.Amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left, ok := b.reserved.Sub(price); ok {
		b.reserved = left
	}
	b.spent = plus(b.spent, fee)
	if !b.hourly.IsZero() && !fee.IsZero() {
		b.recent = append(b.recent, charge{now, fee})
	}
}

// lastHour forgets older charges and adds up the rest. Needs mu.
func (b *budget) lastHour(now time.Time) (sum sdk.Amount) {
	b.recent = slices.DeleteFunc(b.recent, func(c charge) bool { return now.Sub(c.at) >= time.Hour })
	for _, c := range b.recent {
		sum = plus(sum, c.fee)
	}
	return sum
}

func (b *budget) total() sdk.Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// plus adds; a sum beyond what an Amount holds stays at the larger of the two.
func plus(a, b sdk.Amount) sdk.Amount {
	if sum, ok := a.Add(b); ok {
		return sum
	}
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// spend makes one charge of an action: it sets the price aside, runs do, which
// returns the fee if the service told it, and books what was charged.
func (t *Tree) spend(action string, do func() (fee sdk.Amount, err error)) error {
	price := t.price(action, sdk.Amount{})
	if err := t.spent.reserve(t.now(), price); err != nil {
		return err
	}
	fee, err := do()
	if errors.Is(err, sdk.ErrWrongContent) { // it came, and was paid for
		t.spent.settle(t.now(), price, t.price(action, fee))
		return err
	}
	if err != nil {
		t.spent.settle(t.now(), price, sdk.Amount{})
		return err
	}
	t.spent.settle(t.now(), price, t.price(action, fee))
	return nil
}
