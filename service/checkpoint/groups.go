package checkpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// pieceRows and pieceBytes bound the records that the vault is given at once, in JSON: they fit into a frame.
	pieceRows  = 512
	pieceBytes = vaultwire.MaxFrameBytes / 2
	// statePieces is after how many pieces the state of a group is kept, beside the last one.
	statePieces = 64
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
	key, began := newest(keys), false
	at, err := key.Follow(ctx, vaultwire.Follow{Group: group})
	if err == nil && !at.Known {
		at, began, err = l.beginGroup(ctx, key, group)
	}
	if err != nil {
		return fmt.Errorf("give the vault a group: %w", err)
	}
	var state []byte
	after := at.Seq
	for n, more := 1, true; more && err == nil; n++ {
		var rows []chain.Row
		if err = l.store.Read(ctx, func(tx *store.Tx) error {
			rows, err = ledger.ChainAfter(ctx, tx, group, after, pieceRows)
			return err
		}); err != nil {
			break
		}
		q := vaultwire.Follow{Group: group}
		if q.Records, more, err = pieceOf(rows); err != nil || len(q.Records) == 0 {
			break
		}
		q.Keep = !more || n%statePieces == 0
		if at, err = key.Follow(ctx, q); at.State != nil {
			state = at.State
		}
		if len(at.Refused) > 0 {
			l.logger.Warn("the vault passes over records of a group: their account did not ask for them, or may not",
				"group", group, "numbers", at.Refused)
		}
		after = max(at.Seq, q.Records[len(q.Records)-1].Seq) // so that it ends, whatever the vault says
	}
	if began && errors.Is(err, vaultwire.ErrNotFollowing) {
		state = []byte{} // the one that is kept does not lead to these records: the next time it is none
	}
	if state != nil {
		l.keepState(ctx, group, state)
	}
	if err != nil {
		return fmt.Errorf("give the vault a group: %w", err)
	}
	return nil
}

// keepState keeps the state of a group. Where it cannot, such as on a full disk, the vault has it in memory.
func (l *Log) keepState(ctx context.Context, group string, state []byte) {
	ctx = context.WithoutCancel(ctx)
	err := l.store.Write(ctx, ledger.In(group), func(tx *store.Tx) error {
		return tx.Do(ctx, "keep the state of a group", "INSERT INTO group_states (group_id, state) VALUES (?, ?) "+
			"ON CONFLICT (group_id) DO UPDATE SET state = excluded.state", group, state)
	})
	if err != nil {
		l.logger.Warn("the state of a group was not kept", "group", group, "error", err)
	}
}

// beginGroup gives the vault the newest state of a group that it knows nothing of. hasState is false where there is
// none.
func (l *Log) beginGroup(ctx context.Context, key Key, group string) (at vaultwire.Followed, hasState bool, err error) {
	q := vaultwire.Follow{Group: group}
	if err = l.store.Read(ctx, func(tx *store.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT state FROM group_states WHERE group_id = ?", group).Scan(&q.State)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}); err != nil {
		return at, false, fmt.Errorf("read the state of a group: %w", err)
	}
	l.mu.Lock()
	given := l.given
	l.mu.Unlock()
	q.Chains = given.Part([]chain.Hash{chain.Key(chain.OfGroup(group))})
	at, err = key.Follow(ctx, q)
	return at, len(q.State) > 0, err
}

// pieceOf returns the first of some records, and whether there are more.
func pieceOf(rows []chain.Row) (piece []chain.Record, more bool, err error) {
	size := 0
	for _, r := range rows {
		raw, err := json.Marshal(r.Record)
		if err != nil {
			return nil, false, err
		}
		if size += len(raw) + 1; size > pieceBytes && len(piece) > 0 {
			return piece, true, nil
		}
		piece = append(piece, r.Record)
	}
	return piece, len(rows) == pieceRows, nil
}
