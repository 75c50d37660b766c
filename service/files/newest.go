package files

import (
	"context"
	"math"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Newest returns a page of the file records of a group, the newest first: at
// most limit with a sequence below before, which is 0 for the first page. It
// may be read by whom [Files.List] answers.
func (f *Files) Newest(ctx context.Context, account, group string, before int64, limit int) (list []wire.TransactionRow, err error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	return f.page(ctx, account, group, selectRows+" AND seq < ? ORDER BY seq DESC LIMIT ?", before, limit)
}
