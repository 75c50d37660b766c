package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// historyWindow is how many sequences one query covers. The query goes from the account and its groups to their
// records, and a window without any leads to the next one with some, so that the cost of a page depends on the records
// that the account may see, not on those of others. The window keeps the query from sorting all of them.
const historyWindow = 20_000

// An account sees the retrievals of others in the groups that it owns, and their other records in all its groups: of a
// group that has ended, nobody sees those of others. Owners are members, and stay members.
const (
	seenGroups = `(SELECT group_id AS id FROM members WHERE account = ? AND NOT EXISTS
		(SELECT 1 FROM groups WHERE id = members.group_id AND ended_ns IS NOT NULL)) AS seen`
	ownGroups = `(SELECT group_id AS id FROM members WHERE account = ? AND EXISTS
		(SELECT 1 FROM groups WHERE id = members.group_id AND owner = ? AND ended_ns IS NULL)) AS own`
	noClaim = "kind <> '" + chain.KindClaim + "'"
	aClaim  = "kind = '" + chain.KindClaim + "'"
)

// selectNewestSeen finds the newest record before a sequence that an account may see. With a plain equality PostgreSQL
// may go through the records of others, along the index of seq. So it gets a comparison of rows, which SQLite does not
// use, and SQLite gets IS NOT DISTINCT FROM, which PostgreSQL does not use.
const selectNewestSeen = `SELECT COALESCE(max(seq), 0) FROM
	(SELECT (SELECT seq FROM ledger WHERE account IS NOT DISTINCT FROM me.id AND seq < me.seq
		AND (account, seq) < (me.id, me.seq) AND account >= me.id
		ORDER BY account DESC, seq DESC LIMIT 1) AS seq
		FROM (SELECT CAST(? AS TEXT) AS id, CAST(? AS BIGINT) AS seq) AS me
	UNION ALL SELECT (SELECT seq FROM ledger WHERE group_id IS NOT DISTINCT FROM id AND seq < ?
		AND (group_id, seq) < (id, ?) AND group_id >= id AND ` + noClaim + `
		ORDER BY group_id DESC, seq DESC LIMIT 1) FROM ` + seenGroups + `
	UNION ALL SELECT (SELECT seq FROM ledger WHERE group_id IS NOT DISTINCT FROM id AND seq < ?
		AND (group_id, seq) < (id, ?) AND group_id >= id AND ` + aClaim + `
		ORDER BY group_id DESC, seq DESC LIMIT 1) FROM ` + ownGroups + `) AS newest`

// selectHistory finds the records that an account may see in a part of the ledger. CROSS JOIN keeps SQLite to the order
// of tables.
const selectHistory = "SELECT " + columns + ` FROM ledger WHERE account = ? AND seq >= ? AND seq < ?
	UNION SELECT ` + columns + " FROM " + seenGroups + ` CROSS JOIN ledger
		WHERE ledger.group_id = seen.id AND seq >= ? AND seq < ? AND ` + noClaim + `
	UNION SELECT ` + columns + " FROM " + ownGroups + ` CROSS JOIN ledger
		WHERE ledger.group_id = own.id AND seq >= ? AND seq < ? AND ` + aClaim + `
	ORDER BY seq DESC LIMIT ?`

// History returns a page of the records an account may see, the newest first:
// its own, those of groups it owns, and of groups it belongs to all but the
// retrievals of others. before is a sequence, 0 for the first page.
func History(ctx context.Context, tx *store.Tx, account string, before int64, limit int) ([]chain.Row, error) {
	if before <= 0 {
		newest, err := newestSeq(ctx, tx)
		if err != nil {
			return nil, err
		}
		before = newest + 1
	}
	list := []chain.Row{}
	for before > 1 && len(list) < limit {
		n, from := len(list), before-historyWindow
		for r, err := range records(ctx, tx, "read history", nil, selectHistory, account, from, before, account, from,
			before, account, account, from, before, limit-n) {
			if err != nil {
				return nil, err
			}
			list = append(list, r)
		}
		before = from
		if len(list) > n {
			continue
		}
		if err := tx.QueryRowContext(ctx, selectNewestSeen, account, before, before, before, account, before, before,
			account, account).Scan(&before); err != nil {
			return nil, fmt.Errorf("look for older records of a history: %w", err)
		}
		before++
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
