package files

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// bulkTime is the time in which one account destroys at most groups.BulkFiles
	// files of a group at once.
	bulkTime = time.Hour
	// bulkFilesDay is that for a day, so that patience does not get around the hour.
	bulkFilesDay = 5 * groups.BulkFiles
)

// pend notes a deletion that must wait because the account deletes too many files, and
// returns when it is carried out; the zero time means now. Asking again does not change
// that time.
func (f *Files) pend(ctx context.Context, tx *store.Tx, t target, account string) (due time.Time, err error) {
	if f.config.DestructionDelay <= 0 {
		return due, nil
	}
	var dueNS int64
	err = tx.QueryRowContext(ctx, "SELECT due_ns FROM pending_deletions WHERE ref = ?", t.ref).Scan(&dueNS)
	if err == nil {
		return time.Unix(0, dueNS), f.ledger.CountFree(ctx, tx, account)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return due, fmt.Errorf("read pending deletion: %w", err)
	}
	now := f.ledger.Now()
	tooMany, err := countDeletion(ctx, tx, t, account, now)
	if err != nil || !tooMany {
		return due, err
	}
	due = now.Add(f.config.DestructionDelay)
	err = tx.Do(ctx, "note deletion", "INSERT INTO pending_deletions (ref, group_id, account, due_ns) VALUES (?, "+
		"?, ?, ?)", t.ref, t.group, account, due.UnixNano())
	if err != nil {
		return due, err
	}
	action := chain.KindTombstone // is paid now, where it has a price
	if f.ledger.Fee(action).IsZero() {
		action = chain.KindPending
	}
	_, err = f.ledger.Charge(ctx, tx, action, chain.Record{Kind: chain.KindPending, Account: account, Group: t.group,
		Ref: t.ref, FileHash: t.hash, Detail: strconv.FormatInt(due.UnixNano(), 10)})
	return due, err
}

// countDeletion counts a deletion that is carried out now, or reports that it is one too
// many.
func countDeletion(ctx context.Context, tx *store.Tx, t target, account string,
	now time.Time) (tooMany bool, err error) {
	err = tx.Do(ctx, "count deletions", "DELETE FROM recent_deletions WHERE group_id = ? AND account = ? AND "+
		"time_ns <= ?", t.group, account, now.Add(-24*time.Hour).UnixNano())
	if err != nil {
		return false, err
	}
	var inDay, inHour int64
	err = tx.QueryRowContext(ctx, `SELECT count(*), COALESCE(sum(CASE WHEN time_ns > ? THEN 1 ELSE 0 END), 0)
		FROM recent_deletions WHERE group_id = ? AND account = ?`,
		now.Add(-bulkTime).UnixNano(), t.group, account).Scan(&inDay, &inHour)
	if err != nil {
		return false, fmt.Errorf("count deletions: %w", err)
	}
	if inHour >= groups.BulkFiles || inDay >= bulkFilesDay {
		return true, nil
	}
	return false, tx.Do(ctx, "count deletions", "INSERT INTO recent_deletions (group_id, account, time_ns, ref) "+
		"VALUES (?, ?, ?, ?)", t.group, account, now.UnixNano(), t.ref)
}

// waits is the answer to a deletion that is carried out later.
func waits(group string, due time.Time) error {
	return fault.New(wire.CodePending, "the deletion waits until %s, "+
		"because %d files of group %q were deleted in an hour, or %d in a day: "+
		"until then its owner can take it back with: svcfs group keep GROUP",
		due.UTC().Format(time.RFC3339), groups.BulkFiles, group, bulkFilesDay)
}

// Waiting is a destruction that is carried out later: of a file, or without Ref of the whole
// group, or the beginning of a retention window, or of keeping fewer versions.
type Waiting struct {
	Group, Ref, Name string
	Days             int64  // of the window
	Keep             string // which versions are kept; "" = it is a window or the group
	Due              time.Time
	InTrash          bool // it is not taken back by keeping files, but by bringing it back
	GroupEnds        bool
}

// Waiting lists the destructions that wait, by group and time.
func (f *Files) Waiting(ctx context.Context) (list []Waiting, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		for rows, err := range tx.Rows(ctx, `SELECT p.group_id, p.ref, f.filename, 0, p.due_ns, 0, '', 0
				FROM pending_deletions p JOIN files f ON f.ref = p.ref
			UNION ALL SELECT group_id, ref, filename, 0, trash_until_ns, 1, '', 0
				FROM files WHERE trash_until_ns IS NOT NULL
			UNION ALL SELECT id, '', '', pending_retention, pending_retention_ns, 0, '', 0
				FROM groups WHERE pending_retention_ns IS NOT NULL
			UNION ALL SELECT id, '', '', 0, pending_versions_ns, 0, pending_versions, 0
				FROM groups WHERE pending_versions_ns IS NOT NULL
			UNION ALL SELECT id, '', '', 0, pending_end_ns, 0, '', 1
				FROM groups WHERE pending_end_ns IS NOT NULL
			ORDER BY 1, 5, 2`) {
			var w Waiting
			var dueNS int64
			if err == nil {
				err = rows.Scan(&w.Group, &w.Ref, &w.Name, &w.Days, &dueNS, &w.InTrash, &w.Keep, &w.GroupEnds)
			}
			if err != nil {
				return fmt.Errorf("list what waits: %w", err)
			}
			w.Due = time.Unix(0, dueNS)
			list = append(list, w)
		}
		return nil
	})
	return list, err
}

// anyDue reports whether a destruction that waits is due, or goes on.
func anyDue(ctx context.Context, tx *store.Tx, now time.Time) (any bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pending_deletions WHERE due_ns <= ?)
		OR EXISTS (SELECT 1 FROM groups WHERE pending_retention_ns <= ?)
		OR EXISTS (SELECT 1 FROM files WHERE trash_until_ns <= ?)
		OR EXISTS (SELECT 1 FROM groups WHERE pending_versions_ns <= ?)
		OR EXISTS (SELECT 1 FROM groups WHERE pending_end_ns <= ?)
		OR EXISTS (SELECT 1`+fromEnded+`)
		OR EXISTS (SELECT 1 FROM groups WHERE ended_ns IS NOT NULL AND list_key IS NOT NULL)`,
		now.UnixNano(), now.UnixNano(), now.UnixNano(), now.UnixNano(), now.UnixNano()).Scan(&any)
	if err != nil {
		return false, fmt.Errorf("look for what waits: %w", err)
	}
	return any, nil
}

// pending is a deletion whose time has come.
type pending struct{ group, ref, account string }

// deleteDue carries out at most limit deletions that are due. It drops a deletion when
// the account that asked for it may not delete the file any more. It returns the deleted
// files, and whether there may be more.
func (f *Files) deleteDue(ctx context.Context, tx *store.Tx, now time.Time,
	limit int) (shredded []target, more bool, err error) {
	due, err := dueDeletions(ctx, tx, now, limit)
	if err != nil {
		return nil, false, err
	}
	for _, p := range due {
		if err := tx.Do(ctx, "carry out deletion", "DELETE FROM pending_deletions WHERE ref = ?", p.ref); err != nil {
			return nil, false, err
		}
		t, err := changeable(ctx, tx, p.account, p.group, p.ref, "delete")
		var refused *fault.Error
		if errors.As(err, &refused) || err == nil && t.deleted {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		if err := f.shredPaid(ctx, tx, &t, p.account, wire.ReasonOwnerRequest); err != nil {
			return nil, false, err
		}
		shredded = append(shredded, t)
	}
	return shredded, len(due) == limit, nil
}

func dueDeletions(ctx context.Context, tx *store.Tx, now time.Time, limit int) ([]pending, error) {
	return store.List(ctx, tx, "list deletions that wait",
		func(p *pending) []any { return []any{&p.group, &p.ref, &p.account} },
		"SELECT group_id, ref, account FROM pending_deletions WHERE due_ns <= ? ORDER BY due_ns, ref LIMIT ?",
		now.UnixNano(), limit)
}
