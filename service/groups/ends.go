package groups

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Delete ends a group: nobody reads or changes it any more, the keys of its files are
// destroyed, and no group gets its id again. Owner only. It waits as other destruction
// does, and [Groups.Keep] takes it back until then. Asking again does not make it longer.
func (gs *Groups) Delete(ctx context.Context, account string, req wire.GroupRequest) (text string, err error) {
	err = gs.asOwner(ctx, account, req.GroupID, "delete the group", func(tx *store.Tx, g Group) (err error) {
		switch {
		case gs.delay > 0:
			text, err = gs.pendEnd(ctx, tx, g, account)
			return err
		}
		text = fmt.Sprintf("Deleted group '%s': nobody reads it any more, "+
			"and the next sweep destroys the keys of its files", g.ID)
		r, err := gs.ledger.Charge(ctx, tx, chain.KindDeleteGroup, deletion(g))
		if err != nil {
			return err
		}
		return end(ctx, tx, g.ID, r)
	})
	return text, err
}

func deletion(g Group) chain.Record {
	return chain.Record{Kind: chain.KindDeleteGroup, Account: g.Owner, Group: g.ID}
}

// pendEnd notes an end that waits.
func (gs *Groups) pendEnd(ctx context.Context, tx *store.Tx, g Group, account string) (text string, err error) {
	due := gs.ledger.Now().Add(gs.delay)
	if g.PendingEnd.Valid {
		due = time.Unix(0, g.PendingEnd.Int64)
	}
	text = fmt.Sprintf("Group '%s' is deleted with all its files at %s: "+
		"until then it can be taken back with: svcfs group keep GROUP", g.ID, timeText(due))
	if g.PendingEnd.Valid {
		return text, gs.ledger.CountFree(ctx, tx, account)
	}
	_, err = tx.ExecContext(ctx, "UPDATE groups SET pending_end_ns = ? WHERE id = ?", due.UnixNano(), g.ID)
	if err != nil {
		return "", fmt.Errorf("note the end of a group: %w", err)
	}
	action := chain.KindDeleteGroup // is paid now, where it has a price
	if gs.ledger.Fee(action).IsZero() {
		action = chain.KindPending
	}
	_, err = gs.ledger.Charge(ctx, tx, action, chain.Record{Kind: chain.KindPending, Account: account, Group: g.ID,
		Detail: fmt.Sprintf("group %d", due.UnixNano())})
	return text, err
}

// end ends a group by its record. The sweep destroys the keys of its files. Members stay in the
// database, so that each of them hears of it.
func end(ctx context.Context, tx *store.Tx, group string, r chain.Row) error {
	if err := tx.Do(ctx, "end a group", "UPDATE groups SET ended_ns = ? WHERE id = ?", r.TimeNS, group); err != nil {
		return err
	}
	return forgetAll(ctx, tx, group)
}

// forgetAll cancels all that waits in a group, and its invites.
func forgetAll(ctx context.Context, tx *store.Tx, group string) error {
	if err := ledger.ForgetWaiting(ctx, tx, group); err != nil {
		return err
	}
	if err := tx.Do(ctx, "forget deletions", "DELETE FROM pending_deletions WHERE group_id = ?", group); err != nil {
		return err
	}
	return forgetInvites(ctx, tx, group)
}

// beginEnds ends the groups that are due.
func beginEnds(ctx context.Context, tx *store.Tx, l *ledger.Ledger) error {
	due, err := store.List(ctx, tx, "list groups that end", func(g *Group) []any { return []any{&g.ID, &g.Owner} },
		"SELECT id, owner FROM groups WHERE pending_end_ns <= ? ORDER BY id", l.Now().UnixNano())
	if err != nil {
		return err
	}
	for _, g := range due {
		r, err := l.Append(ctx, tx, deletion(g))
		if err != nil {
			return err
		}
		if err := end(ctx, tx, g.ID, r); err != nil {
			return err
		}
	}
	return nil
}
