package tree

import (
	"errors"

	"github.com/svcfs/svcfs/sdk"
)

// charge runs do within the budget (R6): price is set aside before, and the charge that do
// returns is booked.
func (t *Tree) charge(price sdk.Amount, do func() (charged sdk.Amount, err error)) error {
	if err := t.spent.Reserve(t.now(), price); err != nil {
		return &Error{Class: ClassBudget, Err: err, Hint: "Mount again with a larger --budget or --budget-per-hour."}
	}
	charged, err := do()
	t.spent.Settle(t.now(), price, charged)
	return err
}

// spend makes one charge of an action. do returns the fee if the service stated it.
func (t *Tree) spend(action string, do func() (fee sdk.Amount, err error)) error {
	return t.charge(t.price(action, sdk.Amount{}), func() (sdk.Amount, error) {
		fee, err := do()
		if err != nil && !errors.Is(err, sdk.ErrWrongContent) { // wrong content came, and was paid for
			return sdk.Amount{}, err
		}
		return t.price(action, fee), err
	})
}

// price returns the price of an action where it is known, else fee.
func (t *Tree) price(action string, fee sdk.Amount) sdk.Amount {
	if fee.IsZero() && t.cfg.Price != nil {
		if known, ok := t.cfg.Price(action); ok {
			return known
		}
	}
	return fee
}
