package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// FreeBytes: a change without a price counts once for each started FreeBytes of its record, as
// the database keeps the record.
const FreeBytes = 1 << 10

// The records of a member make every list of the group longer, for everybody. So a member who
// does not own the group makes a part of an account's free changes in it, and fewer of one file.
// Fewer than the least numbers are not divided.
const (
	memberShare = 5
	leastMember = 1000
	fileShare   = 100
	leastFile   = 100
)

// Removals use the reserve of a full disk: those of members half of it in a day, those of the owners
// of groups a quarter. The rest is for retrievals and the operator. An account has a removalShare-th
// of the reserve, or leastRemovals bytes where that is more, but at most a leftShare-th of what all
// others have left of it: so there is something for everybody, however many accounts remove.
const (
	membersShare  = 2
	ownersShare   = 4
	removalShare  = 100
	leastRemovals = 1 << 20
	leftShare     = 8
	// onDisk is how often the bytes of a record are on the disk, about: indexes repeat some.
	onDisk = 2
)

// Bounds hold back changes that cost nothing.
type Bounds struct {
	Late    func() error            // refuses every record while the newest have no place; nil = they have
	PerDay  int                     // changes of an account a day (UTC); 0 or less means any number
	Room    func(bytes int64) error // refuses bytes for which the disk has no room; nil = it has
	Reserve func() int64            // the part of the disk, in bytes, that is left when Room refuses
	// MayKeep refuses bytes more that are kept for an account and a group; nil = they may keep any number.
	MayKeep func(ctx context.Context, tx *store.Tx, account, group string, bytes int64) error
}

// freely is how a change that costs nothing is held back.
type freely struct {
	always  bool // nothing holds it back: it takes back what was counted
	counts  bool // it is one of the free changes of a day
	anyRoom bool // it is made on a full disk too, where it may use a share of the reserve
}

// ActionWithdraw takes an offer of a group back. It has no price.
const ActionWithdraw = "withdraw_offer"

// freelyOf returns how an action is held back where it has no price. What makes room, and
// what takes rights away, is made on a full disk too. A deletion is bounded by its paid
// upload, because a file is deleted once; a revocation by the addition before it. What takes
// back a destruction or an offer is bounded by what it takes back: a stolen key that used up
// the changes of an account, or its share of the reserve, must not keep its owner from that. A return from the trash is
// bounded by the removal before it, and who used up the changes of an account must not keep the account from
// bringing files back.
func freelyOf(action string) freely {
	switch action {
	case chain.KindKeep, ActionWithdraw:
		return freely{always: true}
	case chain.KindTombstone, chain.KindRevoke:
		return freely{anyRoom: true}
	case chain.KindRemove, chain.KindRemoveFolder, chain.KindRole, chain.KindPending, chain.KindAccept,
		chain.KindDeleteGroup:
		return freely{counts: true, anyRoom: true}
	case chain.KindRestore:
		return freely{}
	default:
		return freely{counts: true}
	}
}

// bytesOf is how many bytes the texts and hashes of a record take in the database. The record has
// no id and no place in its chain yet. The trigger ledger_counted adds up the same.
func bytesOf(r *chain.Record, tags string) int64 {
	const fixed = 3 * 64 // the id, and the two hashes as raw bytes
	n := fixed + len(tags) + len(chain.Of(r.Kind, r.Account, r.Group))
	for _, s := range [...]string{r.Kind, r.Account, r.Group, r.Ref, r.FileHash, r.Detail} {
		n += len(s)
	}
	return int64(n)
}

// FreeBytesKept lists what the trigger ledger_counted added up: kind, name, 0 and bytes, to be appended to
// a SELECT of the same.
const FreeBytesKept = "UNION ALL SELECT 'account', account, 0, " + bytesKept +
	" UNION ALL SELECT 'group', group_id, 0, " + bytesKept

const bytesKept = `octet_length(kind || account || group_id || ref || file_hash || detail || chain || tags) + 192
	FROM ledger
	WHERE fee = '0' AND group_id <> '' AND kind NOT IN ('record_transaction', 'claim_token', 'tombstone_transaction',
		'remove_file', 'remove_folder', 'restore_file', 'revoke_group_member', 'keep_files', 'pend_destruction')`

// Free appends r, which costs nothing, and counts it as n free changes, or as more if it is
// long; see [FreeBytes]. An error means that the transaction must not commit.
func (l *Ledger) Free(ctx context.Context, tx *store.Tx, action string, n int64, r chain.Record) (chain.Row, error) {
	switch action {
	case ActionUpload, ActionRetrieve: // they have bounds of their own
	case chain.KindClaim:
		if err := l.countRepeat(ctx, tx, r.Account); err != nil {
			return chain.Row{}, err
		}
	default:
		if err := l.holdBack(ctx, tx, freelyOf(action), n, &r); err != nil {
			return chain.Row{}, err
		}
	}
	return l.Append(ctx, tx, r)
}

func (l *Ledger) holdBack(ctx context.Context, tx *store.Tx, how freely, n int64, r *chain.Record) error {
	if how.always {
		return nil
	}
	tags, err := writeTags(r.Tags)
	if err != nil {
		return fmt.Errorf("append record: %w", err)
	}
	bytes := bytesOf(r, tags)
	if err := l.room(ctx, tx, how, r, bytes); err != nil {
		return err
	}
	if !how.counts || l.bounds.PerDay <= 0 {
		return nil
	}
	n = max(n, (bytes+FreeBytes-1)/FreeBytes)
	if err := l.countFree(ctx, tx, r.Account, "", n, l.bounds.PerDay,
		"the account made %d free changes today, which is the limit"); err != nil || r.Group == "" {
		return err
	}
	if owns, err := ownsGroup(ctx, tx, r); err != nil || owns {
		return err
	}
	err = l.countFree(ctx, tx, r.Account, "group:"+r.Group, n, share(l.bounds.PerDay, memberShare, leastMember),
		"the account made %d free changes in this group today, which is the limit of a member who does not own it")
	if err != nil || r.Ref == "" {
		return err
	}
	return l.countFree(ctx, tx, r.Account, "file:"+r.Ref, n, share(l.bounds.PerDay, fileShare, leastFile),
		"the account made %d free changes of this file today, which is the limit of a member who does not own "+
			"the group")
}

// share is a part of a bound, and not below least.
func share(all, part, least int) int { return min(all, max(all/part, least)) }

// room refuses a record for which there is no room; see [freely].
func (l *Ledger) room(ctx context.Context, tx *store.Tx, how freely, r *chain.Record, bytes int64) error {
	if l.bounds.MayKeep != nil && how.counts && !how.anyRoom && r.Group != "" {
		if err := l.bounds.MayKeep(ctx, tx, r.Account, r.Group, bytes); err != nil {
			return err
		}
	}
	if l.bounds.Room == nil {
		return nil
	}
	refused := l.bounds.Room(bytes)
	if refused == nil || !how.anyRoom {
		return refused
	}
	owns, err := ownsGroup(ctx, tx, r)
	if err != nil {
		return err
	}
	scope, next := scopeReserve, "the owner of the group can still remove files, and the operator can make room"
	if owns {
		scope, next = scopeReserveOfOwners, "the operator can make room"
	}
	used, _, err := l.count(ctx, tx, r.Account, scope, onDisk*bytes)
	if err != nil {
		return err
	}
	all, _, err := l.count(ctx, tx, everybody, scope, onDisk*bytes)
	if err != nil {
		return err
	}
	if most := removals(l.bounds.Reserve(), all-used, owns); used > most {
		return fault.New(wire.CodeStorageFull, "the service's storage is full, and the account used its share of the "+
			"reserve for today, %d bytes: %s", most, next)
	}
	return nil
}

// Scopes that count bytes, not changes; everybody is the account whose count is the sum of all.
const (
	scopeReserve         = "reserve"
	scopeReserveOfOwners = "reserve of owners"
	everybody            = ""
)

// removals is how many bytes of a reserve the removals of an account may take in a day, where those of
// others took so many.
func removals(reserve, others int64, owns bool) int64 {
	pool := reserve / membersShare
	if owns {
		pool = reserve / ownersShare
	}
	return min(max(reserve/removalShare, leastRemovals), max(0, pool-others)/leftShare)
}

// ownsGroup reports whether the account of a record owns the group.
func ownsGroup(ctx context.Context, tx *store.Tx, r *chain.Record) (bool, error) {
	var owner string
	err := tx.QueryRowContext(ctx, "SELECT owner FROM groups WHERE id = ?", r.Group).Scan(&owner)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("read owner of group: %w", err)
	}
	return owner == r.Account, nil
}

// CountFree counts a free change of an account that leaves no record, or refuses it when the
// account made too many on one day.
func (l *Ledger) CountFree(ctx context.Context, tx *store.Tx, account string) error {
	if l.bounds.PerDay <= 0 {
		return nil
	}
	return l.countFree(ctx, tx, account, "", 1, l.bounds.PerDay,
		"the account made %d free changes today, which is the limit")
}

// countRepeat counts a retrieval that was paid before. What an account changes leaves its retrievals alone.
func (l *Ledger) countRepeat(ctx context.Context, tx *store.Tx, account string) error {
	if l.bounds.PerDay <= 0 {
		return nil
	}
	return l.countFree(ctx, tx, account, "retrievals", 1, l.bounds.PerDay,
		"the account repeated %d retrievals today, which is the limit")
}

// countFree counts n changes of an account in a scope: "" is everything, else a group, a file, or repeated retrievals.
func (l *Ledger) countFree(ctx context.Context, tx *store.Tx, account, scope string, n int64, most int,
	atLimit string) error {
	made, now, err := l.count(ctx, tx, account, scope, n)
	if err != nil || made <= int64(most) {
		return err
	}
	midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	said := fmt.Sprintf(atLimit, most)
	if n > 1 {
		said = fmt.Sprintf("this counts as %d free changes, and the account may make %d more today", n,
			max(int64(most)-(made-n), 0))
	}
	return &fault.Error{Code: wire.CodeRateLimited, RetryAfter: midnight.Sub(now).Round(time.Second),
		Text: "too many requests: " + said + ": continue after midnight UTC, or ask the operator for a higher " +
			"--free-changes"}
}

// count adds n to what an account did in a scope today, and returns the sum.
func (l *Ledger) count(ctx context.Context, tx *store.Tx, account, scope string, n int64) (made int64,
	now time.Time, err error) {
	now = l.now().UTC()
	err = tx.QueryRowContext(ctx, `INSERT INTO free_changes (account, scope, day, made) VALUES (?, ?, ?, ?)
		ON CONFLICT (account, scope) DO UPDATE SET
		made = CASE WHEN free_changes.day >= excluded.day THEN free_changes.made + excluded.made ELSE excluded.made END,
		day = CASE WHEN free_changes.day >= excluded.day THEN free_changes.day ELSE excluded.day END
		RETURNING made`, account, scope, Day(now), n).Scan(&made)
	if err != nil {
		return 0, now, fmt.Errorf("count free changes: %w", err)
	}
	return made, now, nil
}

// Day is the number of the day of a time, as counts have it.
func Day(t time.Time) int64 { return t.Unix() / int64(24*time.Hour/time.Second) }

// RemoveCounts removes at most so many counts of days before one, for the sweep.
const RemoveCounts = "DELETE FROM free_changes WHERE (account, scope) IN (SELECT account, scope FROM free_changes " +
	"WHERE scope <> '' AND day < ? LIMIT ?) RETURNING ''"
