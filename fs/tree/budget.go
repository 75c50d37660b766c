package tree

import (
	"errors"

	"github.com/svcfs/svcfs/sdk"
)

// reserve sets price aside within the budget (R6), until it is settled.
func (t *Tree) reserve(price sdk.Amount) error {
	if err := t.spent.Reserve(t.now(), price); err != nil {
		return &Error{Class: ClassBudget, Err: err, Hint: "Mount again with a larger --budget or --budget-per-hour."}
	}
	return nil
}

// spend makes one charge of an action: it sets the price aside, runs do, which
// returns the fee if the service told it, and books what was charged.
func (t *Tree) spend(action string, do func() (fee sdk.Amount, err error)) error {
	price := t.price(action, sdk.Amount{})
	if err := t.reserve(price); err != nil {
		return err
	}
	fee, err := do()
	if errors.Is(err, sdk.ErrWrongContent) { // it came, and was paid for
		t.spent.Settle(t.now(), price, t.price(action, fee))
		return err
	}
	if err != nil {
		t.spent.Settle(t.now(), price, sdk.Amount{})
		return err
	}
	t.spent.Settle(t.now(), price, t.price(action, fee))
	return nil
}
