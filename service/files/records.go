package files

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// records returns a piece of the ledger records of a group for a member, with all
// that their hashes cover, and whether there may be more. Who read what is told to
// the owner of the group; others are told what they read themselves.
func (f *Files) records(ctx context.Context, account, group string, after int64, limit int) (list []wire.TransactionRow, more bool, err error) {
	list = []wire.TransactionRow{}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		g, err := groups.RequireMember(ctx, tx, group, account)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT seq, tx_id, kind, time_ns, account, ref, file_hash, detail, fee, request, prev_hash, hash
			FROM ledger WHERE group_id = ? AND seq > ? AND (kind <> ? OR account = ? OR ?) ORDER BY seq LIMIT ?`,
			group, after, ledger.KindClaim, account, g.Owner == account, limit)
		if err != nil {
			return fmt.Errorf("list records: %w", err)
		}
		defer rows.Close()
		for size := 0; rows.Next() && size < pieceBytes; {
			row := wire.TransactionRow{GroupID: group}
			var timeNS int64
			var prev, hash []byte
			err := rows.Scan(&row.Seq, &row.TransID, &row.Kind, &timeNS, &row.UserID, &row.IPFSHash, &row.FileHash, &row.Detail, &row.Fee, &row.Request, &prev, &hash)
			if err != nil {
				return fmt.Errorf("list records: %w", err)
			}
			stamp := strconv.FormatInt(timeNS, 10)
			row.Timestamp, row.ChangedSeq, row.PrevHash, row.Hash = &stamp, row.Seq, hex.EncodeToString(prev), hex.EncodeToString(hash)
			list = append(list, row)
			size += rowBytes + len(row.Detail)
			more = len(list) == limit || size >= pieceBytes
		}
		return rows.Err()
	})
	return list, more, err
}
