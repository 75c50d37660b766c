package groups

import (
	"context"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Keys returns, for a member, how keys of files are given.
func (gs *Groups) Keys(ctx context.Context, account string, req wire.GroupRequest) (out wire.KeysResult, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, req.GroupID, account)
		out.Keys = g.Keys
		return err
	})
	return out, err
}

// SetKeys sets how keys of files are given. Sealed alone, the vault gives a key of a file that is saved from then on in
// a sealed session alone, also after keys are given as before. Owner only.
func (gs *Groups) SetKeys(ctx context.Context, account string, req wire.KeysRequest) (string, error) {
	if req.Keys != wire.KeysAny && req.Keys != wire.KeysSealed {
		return "", fault.New(wire.CodeValidation, "keys %q: want %s or %s", req.Keys, wire.KeysAny, wire.KeysSealed)
	}
	err := gs.set(ctx, account, req.GroupID, setting{"set how keys are given", chain.KindKeys,
		"UPDATE groups SET keys = ? WHERE id = ?"}, req.Keys, req.Keys)
	return fmt.Sprintf("Keys of files of group '%s' are given: %s", req.GroupID, req.Keys), err
}

// RequireSealed refuses a program that is not sent keys sealed, for a group whose keys are given so alone.
func (g *Group) RequireSealed(isSealed bool) error {
	if g.Keys != wire.KeysSealed || isSealed {
		return nil
	}
	return fault.New(wire.CodeSealedOnly, "not authorized: the owner of group %q has keys of files given sealed "+
		"alone: use svcfs for its files", g.ID)
}
