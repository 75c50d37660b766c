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

// FreeBytes is how many bytes of attributes in a record count as a free change more: every
// record about a file repeats its attributes.
const FreeBytes = 1 << 10

// countFree counts a change that costs nothing and stays in the ledger. Uploads,
// retrievals and deletions do not count: a deletion is bounded by its paid upload,
// because a file is deleted once. A return from the trash does not count either: it is
// bounded by the removal before it, and who used up the changes of an account must not
// keep the account from bringing files back.
func (l *Ledger) countFree(ctx context.Context, tx *store.Tx, account, action string, n int64) error {
	switch action {
	case ActionUpload, ActionRetrieve, chain.KindTombstone, chain.KindRestore:
		return nil
	default:
		return l.countFreeTimes(ctx, tx, account, n)
	}
}

// CountFree counts a free change of an account, or refuses it when the account made too
// many on one day.
func (l *Ledger) CountFree(ctx context.Context, tx *store.Tx, account string) error {
	return l.countFreeTimes(ctx, tx, account, 1)
}

func (l *Ledger) countFreeTimes(ctx context.Context, tx *store.Tx, account string, n int64) error {
	if l.freePerDay <= 0 {
		return nil
	}
	now := l.now().UTC()
	day := now.Unix() / int64(24*time.Hour/time.Second)
	var made int64
	err := tx.QueryRowContext(ctx, `INSERT INTO free_changes (account, day, made) VALUES (?, ?, ?) ON CONFLICT (account) DO UPDATE SET
		made = CASE WHEN free_changes.day >= excluded.day THEN free_changes.made + excluded.made ELSE excluded.made END,
		day = CASE WHEN free_changes.day >= excluded.day THEN free_changes.day ELSE excluded.day END
		RETURNING made`, account, day, n).Scan(&made)
	if err != nil {
		return fmt.Errorf("count free changes: %w", err)
	}
	if made > int64(l.freePerDay) {
		midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		said := fmt.Sprintf("the account made %d free changes today, which is the limit", l.freePerDay)
		if n > 1 {
			said = fmt.Sprintf("this counts as %d free changes, and the account may make %d more today", n, max(int64(l.freePerDay)-(made-n), 0))
		}
		return &fault.Error{Code: wire.CodeRateLimited, RetryAfter: midnight.Sub(now).Round(time.Second),
			Text: "too many requests: " + said + ": continue after midnight UTC, or ask the operator for a higher --free-changes"}
	}
	return nil
}
