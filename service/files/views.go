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

// Meta returns what the ledger's public views tell of a file record, or nil
// when there is none (wire protocol 4.2).
func (f *Files) Meta(ctx context.Context, txID string) (meta *wire.TransactionMeta, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		var backend string
		var timeNS int64
		var deletedNS sql.NullInt64
		var by, why sql.NullString
		ref, err := ledger.RefOf(ctx, tx, txID)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, "SELECT backend, time_ns, deleted_ns, deleted_by, deleted_why FROM files WHERE ref = ? AND tx_id = ?", ref, txID).
			Scan(&backend, &timeNS, &deletedNS, &by, &why)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read record: %w", err)
		}
		meta = &wire.TransactionMeta{Backend: backend, Timestamp: strconv.FormatInt(timeNS, 10), Deleted: deletion(deletedNS, by, why)}
		return nil
	})
	return meta, err
}

func deletion(atNS sql.NullInt64, by, why sql.NullString) *wire.Deleted {
	if !atNS.Valid {
		return nil
	}
	return &wire.Deleted{DeletedAt: strconv.FormatInt(atNS.Int64, 10), DeletedBy: by.String, Reason: why.String}
}

// ClaimUnused reports whether an account may still use a claim id in a group.
func (f *Files) ClaimUnused(ctx context.Context, group, account, claimID string) (unused bool, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM claims JOIN files ON files.ref = claims.ref
			WHERE claims.account = ? AND claims.claim_id = ? AND files.group_id = ?)`, account, claimID, group).Scan(&unused)
	})
	return unused, err
}
