package groups

import (
	"context"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// DeletedAccount is what [Groups.DeleteAccount] did.
type DeletedAccount struct {
	Account string      `json:"account_id"`
	Left    []string    `json:"left"`    // groups
	Balance wire.Amount `json:"balance"` // that ended with it
}

// DeleteAccount ends a disabled account for good. It leaves its groups, with a record in each; what it uploaded stays
// there. An account that owns a group is refused.
func (gs *Groups) DeleteAccount(ctx context.Context, name string) (out DeletedAccount, err error) {
	id, err := gs.accounts.FullID(name)
	if err != nil {
		return out, err
	}
	err = gs.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		out = DeletedAccount{Account: id, Left: []string{}}
		owned, err := readListing(ctx, tx, selectOwned+" ORDER BY m.group_id", id)
		if err != nil {
			return err
		}
		if len(owned.Names) > 0 {
			return fault.New(wire.CodeConflict, "account %s owns %d groups, such as %.80q: offer them to a member "+
				"with: svcd account hand-over NAME MEMBER, or let their owner delete them", id, len(owned.Names),
				owned.Names[0])
		}
		if out.Left, err = gs.leaveAll(ctx, tx, id); err != nil {
			return err
		}
		out.Balance, err = gs.accounts.Delete(ctx, tx, id)
		return err
	})
	return out, err
}

// leaveAll takes an account out of its groups, and returns them by id.
func (gs *Groups) leaveAll(ctx context.Context, tx *store.Tx, id string) ([]string, error) {
	left, err := store.Values[string](ctx, tx, "list groups of a member",
		"SELECT group_id FROM members JOIN groups ON groups.id = group_id WHERE account = ? AND ended_ns IS NULL "+
			"ORDER BY group_id", id)
	if err != nil {
		return nil, err
	}
	for _, group := range left {
		g, err := Get(ctx, tx, group)
		if err != nil {
			return nil, err
		}
		if err := removeMember(ctx, tx, g, id); err != nil {
			return nil, err
		}
		if _, err := gs.ledger.Append(ctx, tx, revocation(id, group, id)); err != nil {
			return nil, err
		}
		if err := gs.recordRotation(ctx, tx, g, id); err != nil {
			return nil, err
		}
	}
	return append([]string{}, left...), nil
}
