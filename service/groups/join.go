package groups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Join adds the caller to an open group. A member may call it again: that is no error
// and costs nothing. An account that left or was revoked cannot join; only the owner can add it
// again.
func (gs *Groups) Join(ctx context.Context, account string, req wire.GroupRequest) (text string, err error) {
	group := req.GroupID
	text = fmt.Sprintf("Joined group '%s'", group)
	err = gs.store.Write(ctx, ledger.In(group, account), func(tx *store.Tx) error {
		g, role, err := GetFor(ctx, tx, group, account)
		if err != nil || role != "" {
			text = fmt.Sprintf("Already a member of '%s'", group)
			return err
		}
		if err := mayJoin(ctx, tx, g, account, gs.ledger.Now()); err != nil {
			return err
		}
		r, err := gs.ledger.Charge(ctx, tx, chain.KindJoin,
			chain.Record{Kind: chain.KindJoin, Account: account, Group: group})
		if err != nil {
			return err
		}
		err = tx.Do(ctx, "count join", "UPDATE groups SET join_uses = join_uses + 1 WHERE id = ?", group)
		if err != nil {
			return err
		}
		return gs.admit(ctx, tx, account, group, account, g.JoinRole, r.Seq)
	})
	return text, err
}

// mayJoin refuses an account that does not get into the group by its join window.
func mayJoin(ctx context.Context, tx *store.Tx, g Group, account string, now time.Time) error {
	switch {
	case !g.Joinable:
		return fault.New(wire.CodeNotAuthorized, "Group not open for join: %q", g.ID)
	case !g.JoinExpires.Valid || g.JoinExpires.Int64 <= now.UnixNano():
		return fault.New(wire.CodeNotAuthorized, "Join window closed: %q", g.ID)
	case g.JoinMaxUses.Valid && g.JoinUses >= g.JoinMaxUses.Int64:
		return fault.New(wire.CodeNotAuthorized, "Join window full: %q", g.ID)
	}
	revoked, err := wasRevoked(ctx, tx, g.ID, account)
	if err == nil && revoked {
		err = fault.New(wire.CodeNotAuthorized, "User not authorized: %s left group %q or was revoked from it: "+
			"only its owner can add it again", account, g.ID)
	}
	return err
}

// OpenJoin registers the group as joinable if it does not exist, and opens its
// join window. Accounts that join get the role of the request; "" leaves the role as
// it is, at first a writer's. Owner only.
func (gs *Groups) OpenJoin(ctx context.Context, account string, req wire.OpenJoinRequest) (string, error) {
	group, maxUses := req.GroupID, req.MaxUses
	if err := errors.Join(CheckID(group), checkRole(req.Role)); err != nil {
		return "", err
	}
	until, err := strconv.ParseInt(req.ExpiresAt, 10, 64)
	if err != nil || until <= gs.ledger.Now().UnixNano() {
		return "", fault.New(wire.CodeValidation, "expires_at must be in the future, as ns since the epoch")
	}
	if maxUses != nil && *maxUses < 1 {
		return "", fault.New(wire.CodeValidation, "max_uses must be 1 or more")
	}
	err = gs.store.Write(ctx, ledger.In(group, account), func(tx *store.Tx) error {
		if _, err := Get(ctx, tx, group); err != nil {
			if fault.Of(err).Code != wire.CodeGroupNotFound {
				return err
			}
			if err := gs.register(ctx, tx, account, group, true); err != nil {
				return err
			}
		}
		g, err := requireOwner(ctx, tx, group, account, "open join")
		if err != nil {
			return err
		}
		if !g.Joinable {
			return fault.New(wire.CodeConflict, "Group is not joinable (must be created with joinable=true): %q: "+
				"svcfs group create NAME --open makes one that is; svcfs group invite GROUP lets people into this one",
				group)
		}
		role := cmp.Or(req.Role, g.JoinRole)
		err = tx.Do(ctx, "open window", "UPDATE groups SET join_expires = ?, join_max_uses = ?, join_uses = 0, "+
			"join_role = ? WHERE id = ?", until, maxUses, string(role), group)
		if err != nil {
			return err
		}
		detail := strconv.FormatInt(until, 10)
		if role != wire.RoleWriter {
			detail += " " + string(role)
		}
		var tags []chain.Tag
		if maxUses != nil {
			tags = []chain.Tag{{Name: chain.TagMaxUses, Value: strconv.FormatInt(*maxUses, 10)}}
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindOpenJoin,
			chain.Record{Kind: chain.KindOpenJoin, Account: account, Group: group, Detail: detail, Tags: tags})
		return err
	})
	return fmt.Sprintf("Opened join window for group '%s'", group), err
}

// CloseJoin closes the join window. Owner only.
func (gs *Groups) CloseJoin(ctx context.Context, account string, req wire.GroupRequest) (string, error) {
	err := gs.asOwner(ctx, account, req.GroupID, "close join", func(tx *store.Tx, _ Group) error {
		err := tx.Do(ctx, "close join", "UPDATE groups SET join_expires = NULL WHERE id = ?", req.GroupID)
		if err != nil {
			return err
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindCloseJoin,
			chain.Record{Kind: chain.KindCloseJoin, Account: account, Group: req.GroupID})
		return err
	})
	return fmt.Sprintf("Closed join window for group '%s'", req.GroupID), err
}
