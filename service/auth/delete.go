package auth

import (
	"context"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Delete ends a disabled account for good, inside a transaction: its key, the people who signed in to it and its
// balance, which Delete returns. The row stays, so that nobody gets the name again. The account must be in no group.
func (a *Accounts) Delete(ctx context.Context, tx *store.Tx, id string) (balance wire.Amount, err error) {
	disabled, err := IsDisabled(ctx, tx, id)
	if err != nil {
		return balance, err
	}
	if !disabled {
		return balance, fault.New(wire.CodeConflict, "account %s may be in use: disable it first with: "+
			"svcd account disable NAME", id)
	}
	if balance, err = ledger.Balance(ctx, tx, id); err != nil {
		return balance, err
	}
	if err := tx.Do(ctx, "delete identities", "DELETE FROM identities WHERE account = ?", id); err != nil {
		return balance, err
	}
	if err := tx.Do(ctx, "delete account",
		"UPDATE accounts SET deleted_ns = ?, credential = ?, balance = ? WHERE id = ?", a.ledger.Now().UnixNano(),
		[]byte{}, wire.Amount{}.String(), id); err != nil {
		return balance, err
	}
	_, err = a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindDeleteAccount, Account: id,
		Detail: balance.String()})
	return balance, err
}

// mustBeNew refuses the name of an account that exists, or that was deleted.
func mustBeNew(ctx context.Context, tx *store.Tx, id string) error {
	switch exists, err := Exists(ctx, tx, id); {
	case err != nil:
		return err
	case exists:
		return fault.New(wire.CodeConflict, "account %s exists already: replace its key with: svcd account rotate-key "+
			"NAME", id)
	}
	var deleted bool
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ?)",
		id).Scan(&deleted); err != nil {
		return fmt.Errorf("look for a deleted account: %w", err)
	}
	if deleted {
		return fault.New(wire.CodeConflict, "account %s was deleted, and nobody gets its name again: choose another",
			id)
	}
	return nil
}
