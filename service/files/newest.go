package files

import (
	"context"
	"fmt"
	"math"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
)

// Newest returns a page of the file records of a group, the newest first: at
// most limit with a sequence below before, which is 0 for the first page. It
// may be read by whom [Files.List] answers.
func (f *Files) Newest(ctx context.Context, account, group string, before int64, limit int) (list []wire.TransactionRow, err error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	list = []wire.TransactionRow{}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if err := mayList(ctx, tx, group, account); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, selectRows+" AND seq < ? ORDER BY seq DESC LIMIT ?", group, before, limit)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			row, err := scanRow(rows, group)
			if err != nil {
				return fmt.Errorf("list files: %w", err)
			}
			list = append(list, row)
		}
		return rows.Err()
	})
	return list, err
}
