package groups

import (
	"cmp"
	"context"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Trash returns, for a member, how long removed files can be brought back, which members
// remove files, and how many files are in the trash.
func (gs *Groups) Trash(ctx context.Context, account string, req wire.GroupRequest) (out wire.TrashResult, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		out.Days, out.Who = g.TrashDays, g.TrashWho
		err = tx.QueryRowContext(ctx, `SELECT count(*), CAST(COALESCE(sum(blob_size), 0) AS BIGINT),
			count(*) - count(trash_until_ns) FROM files
			WHERE group_id = ? AND trash_ns IS NOT NULL`, req.GroupID).Scan(&out.Files, &out.Bytes, &out.Held)
		if err != nil {
			return fmt.Errorf("read trash: %w", err)
		}
		var parts int64
		if err := tx.QueryRowContext(ctx, SelectTrashedParts, req.GroupID).Scan(&parts); err != nil {
			return fmt.Errorf("read trash: %w", err)
		}
		out.Bytes += parts
		return nil
	})
	return out, err
}

// SelectTrashedParts is the size of the parts that only files in the trash of a group use.
const SelectTrashedParts = `SELECT CAST(COALESCE(sum(blob_size), 0) AS BIGINT) FROM parts WHERE id IN
	(SELECT u.part FROM files JOIN part_uses u ON u.ref = files.ref WHERE files.group_id = ?
	AND files.trash_ns IS NOT NULL)
	AND NOT EXISTS (SELECT 1 FROM part_uses o JOIN files f ON f.ref = o.ref WHERE o.part = parts.id
	AND f.trash_ns IS NULL)`

// SetTrash sets how many days removed files can be brought back, and which members
// remove files. Files in the trash keep the time that they were given. Owner only.
func (gs *Groups) SetTrash(ctx context.Context, account string, req wire.SetTrashRequest) (text string, err error) {
	if req.Days != nil && (*req.Days < 1 || *req.Days > wire.MaxTrashDays) {
		return "", fault.New(wire.CodeValidation, "days must be 1 to %d", wire.MaxTrashDays)
	}
	if req.Who != "" && req.Who != wire.TrashUploader && req.Who != wire.TrashWriters {
		return "", fault.New(wire.CodeValidation, "who %.60q: want %s or %s", req.Who, wire.TrashUploader,
			wire.TrashWriters)
	}
	err = gs.asOwner(ctx, account, req.GroupID, "set the trash", func(tx *store.Tx, g Group) error {
		days, who := g.TrashDays, cmp.Or(req.Who, g.TrashWho)
		if req.Days != nil {
			days = *req.Days
		}
		text = fmt.Sprintf("Removed files of group '%s' can be brought back for %d days; %s", g.ID, days, whoText(who))
		if err := tx.Do(ctx, "set trash", "UPDATE groups SET trash_days = ?, trash_who = ? WHERE id = ?", days, who,
			g.ID); err != nil {
			return err
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindTrash, chain.Record{Kind: chain.KindTrash, Account: account,
			Group: g.ID, Detail: fmt.Sprintf("%d %s", days, who)})
		return err
	})
	return text, err
}

func whoText(who string) string {
	if who == wire.TrashWriters {
		return "every writer removes files and brings them back, and those of others stay in the trash until " +
			"the owner destroys them"
	}
	return "the uploader and the owner remove files"
}
