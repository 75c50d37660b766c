package groups

import (
	"context"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Appends returns, for a member, what becomes of appends to a file that others saved meanwhile.
func (gs *Groups) Appends(ctx context.Context, account string,
	req wire.GroupRequest) (out wire.AppendsResult, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, req.GroupID, account)
		out.Appends = g.Appends
		return err
	})
	return out, err
}

// SetAppends sets what becomes of appends to a file that others saved meanwhile. The mounts obey it; the
// service compares versions as ever. Owner only.
func (gs *Groups) SetAppends(ctx context.Context, account string, req wire.AppendsRequest) (string, error) {
	if req.Appends != wire.AppendsApart && req.Appends != wire.AppendsMerge {
		return "", fault.New(wire.CodeValidation, "appends %q: want %s or %s", req.Appends, wire.AppendsApart,
			wire.AppendsMerge)
	}
	err := gs.set(ctx, account, req.GroupID, setting{"set what becomes of appends", chain.KindAppends,
		"UPDATE groups SET appends = ? WHERE id = ?"}, req.Appends, req.Appends)
	return fmt.Sprintf("Appends in group '%s' to what others saved meanwhile: %s", req.GroupID, req.Appends), err
}
