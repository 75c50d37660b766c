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
	err := gs.set(ctx, account, req.GroupID, setting{"set the format of files", chain.KindFormat,
		"UPDATE groups SET format = ? WHERE id = ?"}, strconv.FormatInt(req.Format, 10), req.Format)
	return fmt.Sprintf("New files of group '%s' have at most format version %d", req.GroupID, req.Format), err
}

// setting is a setting of a group that has one column and one kind of record.
type setting struct {
	does   string // of whom may do it, and of an error
	kind   string
	update store.Query // with the value and the id of the group
}

// set changes a setting, which the record tells as text. Owner only.
func (gs *Groups) set(ctx context.Context, account, group string, s setting, text string, value any) error {
	return gs.asOwner(ctx, account, group, s.does, func(tx *store.Tx, g Group) error {
		if err := tx.Do(ctx, s.does, s.update, value, g.ID); err != nil {
			return err
		}
		_, err := gs.ledger.Charge(ctx, tx, s.kind, chain.Record{Kind: s.kind, Account: account, Group: g.ID,
			Detail: text})
		return err
	})
}
