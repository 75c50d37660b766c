package policy

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// Budget adds up the charges of a mount, those under way included (R6). It is safe for
// concurrent use.
type Budget struct {
	Limit  sdk.Amount // in all; zero = none
	Hourly sdk.Amount // in any hour; zero = none
	Now    func() time.Time
	// Price returns the price of an action where it is known; may be nil.
	Price func(action string) (sdk.Amount, bool)

	mu       sync.Mutex
	spent    sdk.Amount
	reserved sdk.Amount // of charges under way
	recent   []charge   // of the last hour, oldest first; only with an hourly limit
}

type charge struct {
	at  time.Time
	fee sdk.Amount
}

// Charge runs do within the budget (R6): price is set aside before, and the charge that do
// returns is booked.
func (b *Budget) Charge(price sdk.Amount, do func() (charged sdk.Amount, err error)) (err error) {
	if err := b.Reserve(b.Now(), price); err != nil {
		return err
	}
	var charged sdk.Amount
	defer func() { b.Settle(b.Now(), price, charged) }() // also when do panics
	charged, err = do()
	return err
}

// Spend makes one charge of an action. do returns the fee if the service stated it.
func (b *Budget) Spend(action string, do func() (fee sdk.Amount, err error)) error {
	return b.Charge(b.PriceOf(action, sdk.Amount{}), func() (sdk.Amount, error) {
		fee, err := do()
		if err != nil && !errors.Is(err, sdk.ErrWrongContent) { // wrong content came, and was paid for
			return sdk.Amount{}, err
		}
		return b.PriceOf(action, fee), err
	})
}

// PriceOf returns the price of an action where it is known, else fee.
func (b *Budget) PriceOf(action string, fee sdk.Amount) sdk.Amount {
	if fee.IsZero() && b.Price != nil {
		if known, ok := b.Price(action); ok {
			return known
		}
	}
	return fee
}

// Reserve sets price aside for a charge that is about to be made, or refuses it
// when it would exceed a limit. An unknown price is zero: it is refused once a
// limit is reached. Call Settle afterwards.
func (b *Budget) Reserve(now time.Time, price sdk.Amount) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !allows(b.Limit, plus(b.spent, b.reserved), price) {
		return OverBudget("this would cost " + price.Tokens() + " tokens, and the mount has spent or set aside " +
			plus(b.spent, b.reserved).Tokens() + " of its budget of " + b.Limit.Tokens())
	}
	if hour := b.lastHour(now); !allows(b.Hourly, plus(hour, b.reserved), price) {
		return OverBudget("this would cost " + price.Tokens() + " tokens, and the mount has spent or set aside " +
			plus(hour, b.reserved).Tokens() + " of its budget of " + b.Hourly.Tokens() + " for this hour")
	}
	b.reserved = plus(b.reserved, price)
	return nil
}

// OverBudget is a charge that a limit does not allow.
type OverBudget string

func (e OverBudget) Error() string { return string(e) }

// allows reports whether used and price together stay within limit.
func allows(limit, used, price sdk.Amount) bool {
	return limit.IsZero() || plus(used, price).Cmp(limit) <= 0 && (!price.IsZero() || used.Cmp(limit) < 0)
}

// Settle ends a reservation of price; fee is the final charge.
func (b *Budget) Settle(now time.Time, price, fee sdk.Amount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left, ok := b.reserved.Sub(price); ok {
		b.reserved = left
	}
	b.spent = plus(b.spent, fee)
	if !b.Hourly.IsZero() && !fee.IsZero() {
		b.recent = append(b.recent, charge{now, fee})
	}
}

// lastHour forgets older charges and adds up the rest. Needs mu.
func (b *Budget) lastHour(now time.Time) (sum sdk.Amount) {
	b.recent = slices.DeleteFunc(b.recent, func(c charge) bool { return now.Sub(c.at) >= time.Hour })
	for _, c := range b.recent {
		sum = plus(sum, c.fee)
	}
	return sum
}

// Spent returns the sum of all charges.
func (b *Budget) Spent() sdk.Amount {
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
