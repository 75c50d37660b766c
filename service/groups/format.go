package groups

import (
	"context"
	"fmt"
	"strconv"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Format returns, for a member, the newest format version that uploads to a group may have.
func (gs *Groups) Format(ctx context.Context, account string,
	req wire.GroupRequest) (out wire.FormatResult, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, req.GroupID, account)
		out.Format = g.Format
		return err
	})
	return out, err
}

// SetFormat sets the newest format version that uploads to a group may have. Files that are
// there stay as they are; an upload in blocks that was begun can be finished only while the
// group takes it. Owner only.
func (gs *Groups) SetFormat(ctx context.Context, account string, req wire.FormatRequest) (string, error) {
	if req.Format != format.Version && req.Format != format.VersionBlocks {
		return "", fault.New(wire.CodeValidation, "format %d: want %d or %d", req.Format, format.Version,
			format.VersionBlocks)
	}
	err := gs.asOwner(ctx, account, req.GroupID, "set the format of files", func(tx *store.Tx, g Group) error {
		if err := tx.Do(ctx, "set format", "UPDATE groups SET format = ? WHERE id = ?", req.Format, g.ID); err != nil {
			return err
		}
		_, err := gs.ledger.Charge(ctx, tx, chain.KindFormat, chain.Record{Kind: chain.KindFormat, Account: account,
			Group: g.ID, Detail: strconv.FormatInt(req.Format, 10)})
		return err
	})
	return fmt.Sprintf("New files of group '%s' have at most format version %d", req.GroupID, req.Format), err
}
