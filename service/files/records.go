package files

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// records returns every ledger record of a group for a member, with all that
// its hash covers. They tell who read what, so an open group does not show them
// to everybody.
func (f *Files) records(ctx context.Context, account string, req wire.TransactionsRequest) (list []wire.TransactionRow, err error) {
	limit := math.MaxInt32
	if req.Limit > 0 {
		limit = min(req.Limit, wire.MaxPageRows)
	}
	list = []wire.TransactionRow{}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if _, err := groups.RequireMember(ctx, tx, req.GroupID, account); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT seq, tx_id, kind, time_ns, account, ref, file_hash, detail, fee, request, prev_hash, hash
			FROM ledger WHERE group_id = ? AND seq > ? ORDER BY seq LIMIT ?`, req.GroupID, req.AfterSeq, limit)
		if err != nil {
			return fmt.Errorf("list records: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			row := wire.TransactionRow{GroupID: req.GroupID}
			var timeNS int64
			var prev, hash []byte
			err := rows.Scan(&row.Seq, &row.TransID, &row.Kind, &timeNS, &row.UserID, &row.IPFSHash, &row.FileHash, &row.Detail, &row.Fee, &row.Request, &prev, &hash)
			if err != nil {
				return fmt.Errorf("list records: %w", err)
			}
			stamp := strconv.FormatInt(timeNS, 10)
			row.Timestamp, row.ChangedSeq, row.PrevHash, row.Hash = &stamp, row.Seq, hex.EncodeToString(prev), hex.EncodeToString(hash)
			list = append(list, row)
		}
		return rows.Err()
	})
	return list, err
}
