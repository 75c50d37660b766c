package files

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Meta returns the facts of a file record that the ledger's public views show, or nil
// when there is no such record (wire protocol 4.2).
func (f *Files) Meta(ctx context.Context, txID string) (meta *wire.TransactionMeta, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		var backend string
		var timeNS int64
		var gone goneColumns
		ref, err := ledger.RefOf(ctx, tx, txID)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, "SELECT backend, time_ns, "+selectGone+
			" FROM files WHERE ref = ? AND tx_id = ?", ref, txID).
			Scan(append([]any{&backend, &timeNS}, gone.fields()...)...)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read record: %w", err)
		}
		meta = &wire.TransactionMeta{Backend: backend, Timestamp: strconv.FormatInt(timeNS, 10),
			Deleted: gone.deletion()}
		return nil
	})
	return meta, err
}

// selectGone are the columns of files that tell whether a file is deleted or in the
// trash.
const selectGone = "deleted_ns, deleted_by, deleted_why, trash_ns, trash_by, trash_until_ns"

type goneColumns struct {
	deletedNS, trashNS, trashUntil sql.NullInt64
	deletedBy, deletedWhy, trashBy sql.NullString
}

func (c *goneColumns) fields() []any {
	return []any{&c.deletedNS, &c.deletedBy, &c.deletedWhy, &c.trashNS, &c.trashBy, &c.trashUntil}
}

// deletion is the deletion or removal in a listing, nil for a living file.
func (c *goneColumns) deletion() *wire.Deleted {
	switch {
	case c.deletedNS.Valid:
		return &wire.Deleted{DeletedAt: strconv.FormatInt(c.deletedNS.Int64, 10), DeletedBy: c.deletedBy.String,
			Reason: c.deletedWhy.String}
	case c.trashNS.Valid:
		return &wire.Deleted{DeletedAt: strconv.FormatInt(c.trashNS.Int64, 10), DeletedBy: c.trashBy.String,
			Reason: wire.ReasonOwnerRequest, Trash: true, Until: untilText(c.trashUntil)}
	default:
		return nil
	}
}

// ClaimUnused reports whether an account may still use a claim id in a group.
func (f *Files) ClaimUnused(ctx context.Context, group, account, claimID string) (unused bool, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM claims JOIN files ON files.ref = claims.ref
			WHERE claims.account = ? AND claims.claim_id = ?
			AND files.group_id = ?)`, account, claimID, group).Scan(&unused)
	})
	return unused, err
}
