package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// pieceRows and pieceBytes bound the records that the vault is given at once: they fit into a frame of JSON.
	pieceRows  = 512
	pieceBytes = 64 << 10
	// followTimes is how often the log may go on while the vault is given a group.
	followTimes = 8
)

// WithGroup calls ask, which asks the vault for a member of a group. It gives the vault what that lacks of the chain of
// the group where the vault says so, or may not know the newest members or settings.
func (l *Log) WithGroup(ctx context.Context, group string, ask func() error) (err error) {
	for n := range followTimes {
		err = ask()
		mayBeNew := n == 0 && (errors.Is(err, vaultwire.ErrNoMember) || errors.Is(err, vaultwire.ErrSealedOnly))
		if !mayBeNew && !errors.Is(err, vaultwire.ErrNotFollowed) {
			return err
		}
		switch err = l.giveGroup(ctx, group); {
		case errors.Is(err, vaultwire.ErrNotFollowing): // the vault has a later tree, or none of this history
			if err := l.updateSoon(ctx); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return unproven("the vault lacks the newest records of this group: try again in a moment", err)
}

// giveGroup gives the vault the records of a group that it lacks.
func (l *Log) giveGroup(ctx context.Context, group string) error {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return err
	}
	key := newest(keys)
	at, err := key.Follow(ctx, vaultwire.Follow{Group: group})
	if err == nil && !at.Known {
		at, err = l.beginGroup(ctx, key, group)
	}
	state := at.State
	for more := true; more && err == nil; {
		var rows []chain.Row
		if err = l.store.Read(ctx, func(tx *store.Tx) error {
			rows, err = ledger.ChainAfter(ctx, tx, group, at.Seq, pieceRows)
			return err
		}); err != nil {
			return err
		}
		q := vaultwire.Follow{Group: group}
		q.Records, more = pieceOf(rows)
		if len(q.Records) > 0 {
			at, err = key.Follow(ctx, q)
		}
		if at.State != nil {
			state = at.State
		}
	}
	if err != nil {
		return fmt.Errorf("give the vault a group: %w", err)
	}
	if state == nil {
		return nil
	}
	if err := l.store.Write(ctx, ledger.In(group), func(tx *store.Tx) error {
		return tx.Do(ctx, "keep the state of a group", "INSERT INTO group_states (group_id, state) VALUES (?, ?) "+
			"ON CONFLICT (group_id) DO UPDATE SET state = excluded.state", group, state)
	}); err != nil { // such as a full disk: the vault has it in memory
		l.logger.Warn("the state of a group was not kept", "group", group, "error", err)
	}
	return nil
}

// beginGroup gives the vault the newest state of a group that it knows nothing of.
func (l *Log) beginGroup(ctx context.Context, key Key, group string) (at vaultwire.Followed, err error) {
	q := vaultwire.Follow{Group: group}
	if err = l.store.Read(ctx, func(tx *store.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT state FROM group_states WHERE group_id = ?", group).Scan(&q.State)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}); err != nil {
		return at, fmt.Errorf("read the state of a group: %w", err)
	}
	var chains chain.Tree
	if signed, _ := l.newest(); signed.tree != nil {
		chains = *signed.tree
	}
	q.Chains = chains.Part([]chain.Hash{chain.Key(chain.OfGroup(group))})
	return key.Follow(ctx, q)
}

// pieceOf returns the first of some records, and whether there are more.
func pieceOf(rows []chain.Row) (piece []chain.Record, more bool) {
	size := 0
	for _, r := range rows {
		size += len(r.Detail)
		for _, tag := range r.Tags {
			size += len(tag.Value)
		}
		if size > pieceBytes && len(piece) > 0 {
			return piece, true
		}
		piece = append(piece, r.Record)
	}
	return piece, len(rows) == pieceRows
}
