package ledger

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
)

// History returns a page of the records an account may see, the newest first:
// its own, those of groups it owns, and of groups it belongs to all but the
// retrievals of others. before is a sequence, 0 for the first page.
func History(ctx context.Context, tx *store.Tx, account string, before int64, limit int) ([]Record, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := tx.QueryContext(ctx, `SELECT seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, request, prev_hash, hash
		FROM ledger WHERE seq < ? AND (account = ?
			OR group_id IN (SELECT id FROM groups WHERE owner = ?)
			OR (kind <> ? AND group_id IN (SELECT group_id FROM members WHERE account = ?)))
		ORDER BY seq DESC LIMIT ?`, before, account, account, KindClaim, account, limit)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer rows.Close()
	list := []Record{}
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// DayCost is what an account paid for one kind of action on one day.
type DayCost struct {
	Day   int64 // days since the epoch, UTC
	Kind  string
	Count int64
	Fees  wire.Amount
}

// Costs returns what an account paid since a time, by day and kind.
func Costs(ctx context.Context, tx *store.Tx, account string, since time.Time) ([]DayCost, error) {
	rows, err := tx.QueryContext(ctx, `SELECT day, kind, fee, count(*) FROM
		(SELECT time_ns / 86400000000000 AS day, kind, fee FROM ledger WHERE account = ? AND time_ns >= ? AND fee <> '0') paid
		GROUP BY day, kind, fee ORDER BY day, kind`, account, since.Truncate(24*time.Hour).UnixNano())
	if err != nil {
		return nil, fmt.Errorf("read costs: %w", err)
	}
	defer rows.Close()
	list := []DayCost{}
	for rows.Next() {
		var c DayCost
		var text string
		if err := rows.Scan(&c.Day, &c.Kind, &text, &c.Count); err != nil {
			return nil, fmt.Errorf("read costs: %w", err)
		}
		fee, err := wire.ParseAmount(text)
		if err != nil {
			return nil, err
		}
		c.Fees = times(fee, c.Count)
		list = append(list, c)
	}
	return list, rows.Err()
}

// times returns n times a by doubling. It cannot overflow for what an account
// paid: the balance it was taken from fitted.
func times(a wire.Amount, n int64) (sum wire.Amount) {
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			sum, _ = sum.Add(a)
		}
		a, _ = a.Add(a)
	}
	return sum
}
