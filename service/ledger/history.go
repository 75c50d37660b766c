package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// historyWindow is how many places one query covers. The query goes from the account
// and its groups to their records, so that the cost of a page depends on the records
// that the account may see, not on those of others. The window keeps the query from
// sorting all of them.
const historyWindow = 20_000

// selectHistory finds the records that an account may see in a part of the ledger: of a group that has
// ended, nobody sees those of others. Owners are members, and stay members. CROSS JOIN keeps SQLite to the order of
// tables.
const selectHistory = "SELECT " + columns + ", place FROM placed AS ledger WHERE account = ? AND " + inWindow + `
	UNION SELECT ` + columns + `, place FROM members CROSS JOIN placed AS ledger
	WHERE members.account = ? AND NOT EXISTS (SELECT 1 FROM groups WHERE id = members.group_id AND ended_ns IS NOT NULL)
		AND ledger.group_id = members.group_id AND ` + inWindow + ` AND kind <> '` + chain.KindClaim + `'
	UNION SELECT ` + columns + `, place FROM members CROSS JOIN placed AS ledger
	WHERE members.account = ? AND EXISTS (SELECT 1 FROM groups
	WHERE id = members.group_id AND owner = ? AND ended_ns IS NULL)
		AND ledger.group_id = members.group_id AND ` + inWindow + ` AND kind = '` + chain.KindClaim + `'
	ORDER BY place DESC LIMIT ?`

// inWindow is the condition for some places, with the bounds of their sequences first, for the indexes.
const inWindow = "seq >= ? AND seq <= ? AND place >= ? AND place < ?"

// History returns a page of the records an account may see, the newest first:
// its own, those of groups it owns, and of groups it belongs to all but the
// retrievals of others. before is a place, 0 for the first page.
func History(ctx context.Context, tx *store.Tx, account string, before int64, limit int) ([]chain.Row, error) {
	head, err := Size(ctx, tx)
	if err != nil {
		return nil, err
	}
	if before <= 0 || before > head {
		before = head + 1
	}
	list := []chain.Row{}
	for ; before > 1 && len(list) < limit; before -= historyWindow {
		from := before - historyWindow
		low, high, err := span(ctx, tx, from-1, before-1)
		if err != nil {
			return nil, err
		}
		var place int64
		for r, err := range records(ctx, tx, "read history", []any{&place}, selectHistory, account, low, high, from,
			before, account, low, high, from, before, account, account, low, high, from, before, limit-len(list)) {
			if err != nil {
				return nil, err
			}
			r.Place = place
			list = append(list, r)
		}
	}
	return list, nil
}

// DayCost is the payment of an account for one kind of action on one day.
type DayCost struct {
	Day   int64 // days since the epoch, UTC
	Kind  string
	Count int64
	Fees  wire.Amount
}

// Costs returns the payments of an account since a time, by day and kind.
func Costs(ctx context.Context, tx *store.Tx, account string, since time.Time) ([]DayCost, error) {
	list := []DayCost{}
	for rows, err := range tx.Rows(ctx, `SELECT day, kind, fee, count(*) FROM
		(SELECT time_ns / 86400000000000 AS day, kind, fee FROM ledger WHERE account = ? AND time_ns >= ?
		AND fee <> '0') paid
		GROUP BY day, kind, fee ORDER BY day, kind`, account, since.Truncate(24*time.Hour).UnixNano()) {
		var c DayCost
		var text string
		var fee wire.Amount
		if err == nil {
			err = rows.Scan(&c.Day, &c.Kind, &text, &c.Count)
		}
		if err == nil {
			fee, err = wire.ParseAmount(text)
		}
		if err != nil {
			return nil, fmt.Errorf("read costs: %w", err)
		}
		c.Fees, _ = times(fee, c.Count) // they fitted into the balance of the account
		list = append(list, c)
	}
	return list, nil
}

// times returns n times a by doubling; ok is false for more than can be counted.
func times(a wire.Amount, n int64) (sum wire.Amount, ok bool) {
	ok = true
	for ; ok && n > 0; n >>= 1 {
		if n&1 == 1 {
			sum, ok = sum.Add(a)
		}
		if ok && n > 1 {
			a, ok = a.Add(a)
		}
	}
	return sum, ok
}
