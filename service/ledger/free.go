package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// countFree counts a change that costs nothing and stays in the ledger. Uploads,
// retrievals and deletions do not count: a deletion is bounded by its paid upload,
// because a file is deleted once. A return from the trash does not count either: it is
// bounded by the removal before it, and who used up the changes of an account must not
// keep the account from bringing files back.
func (l *Ledger) countFree(ctx context.Context, tx *store.Tx, account, action string) error {
	switch action {
	case ActionUpload, ActionRetrieve, chain.KindTombstone, chain.KindRestore:
		return nil
	default:
		return l.CountFree(ctx, tx, account)
	}
}

// CountFree counts a free change of an account, or refuses it when the account made too
// many on one day.
func (l *Ledger) CountFree(ctx context.Context, tx *store.Tx, account string) error {
	if l.freePerDay <= 0 {
		return nil
	}
	now := l.now().UTC()
	day := now.Unix() / int64(24*time.Hour/time.Second)
	var made int64
	err := tx.QueryRowContext(ctx, `INSERT INTO free_changes (account, day, made) VALUES (?, ?, 1) ON CONFLICT (account) DO UPDATE SET
		made = CASE WHEN free_changes.day >= excluded.day THEN free_changes.made + 1 ELSE 1 END,
		day = CASE WHEN free_changes.day >= excluded.day THEN free_changes.day ELSE excluded.day END
		RETURNING made`, account, day).Scan(&made)
	if err != nil {
		return fmt.Errorf("count free changes: %w", err)
	}
	if made > int64(l.freePerDay) {
		midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		return &fault.Error{Code: wire.CodeRateLimited, RetryAfter: midnight.Sub(now).Round(time.Second), Text: fmt.Sprintf("too many requests: the account made %d free changes "+
			"today, which is the limit: continue after midnight UTC, or ask the operator for a higher --free-changes", l.freePerDay)}
	}
	return nil
}
