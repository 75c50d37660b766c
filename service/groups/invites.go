package groups

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Invite lets whoever has the secret become a member with a role, a writer when it is "", once, within
// [auth.InviteLifetime]. Owner only. It costs what adding a member costs: the addition is free then.
func (gs *Groups) Invite(ctx context.Context, account string,
	req wire.MakeInviteRequest) (out wire.MadeInvite, err error) {
	if err := checkRole(req.Role); err != nil {
		return out, err
	}
	id, secret := auth.NewInviteSecret(ctx)
	now := gs.ledger.Now()
	ends := now.Add(auth.InviteLifetime).UnixNano()
	out.GroupInvite = wire.GroupInvite{ID: id, Role: req.Role, Expires: strconv.FormatInt(ends, 10)}
	if req.Role == "" {
		out.Role = wire.RoleWriter
	}
	out.Secret = secret.Reveal()
	err = gs.asOwner(ctx, account, req.GroupID, "invite members", func(tx *store.Tx, _ Group) error {
		if err := tx.Do(ctx, "delete old invites", "DELETE FROM group_invites WHERE expires_ns <= ?",
			now.UnixNano()); err != nil {
			return err
		}
		var n int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM group_invites WHERE group_id = ?", req.GroupID).Scan(&n)
		if err != nil {
			return fmt.Errorf("count invites: %w", err)
		}
		if n >= MaxInvites {
			return fault.New(wire.CodeTooLarge, "the group has %d invites that were not used: take some back with: "+
				"svcfs group invite GROUP --revoke ID", MaxInvites)
		}
		sum := sha256.Sum256([]byte(out.Secret))
		made, err := tx.Count(ctx, "insert invite", "INSERT INTO group_invites (id, hash, group_id, role, expires_ns) "+
			"VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", id, sum[:], req.GroupID, string(out.Role), ends)
		if err != nil {
			return err
		}
		if made == 0 {
			return fault.New(wire.CodeConflict, "this request made its invite already: ask again for another one")
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindAdd, chain.Record{Kind: chain.KindInvite, Account: account,
			Group: req.GroupID, Detail: fmt.Sprintf("%s %s %d", id, out.Role, ends)})
		return err
	})
	return out, err
}

// Invites lists the invites of a group that can be used, by id. Owner only.
func (gs *Groups) Invites(ctx context.Context, account string, req wire.GroupRequest) (list []wire.GroupInvite,
	err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		if _, err := requireOwner(ctx, tx, req.GroupID, account, "see the invites"); err != nil {
			return err
		}
		list, err = store.List(ctx, tx, "list invites", func(i *wire.GroupInvite) []any {
			return []any{&i.ID, &i.Role, &i.Expires}
		}, "SELECT id, role, CAST(expires_ns AS TEXT) FROM group_invites WHERE group_id = ? AND expires_ns > ? ORDER "+
			"BY id",
			req.GroupID, gs.ledger.Now().UnixNano())
		return err
	})
	if list == nil {
		list = []wire.GroupInvite{}
	}
	return list, err
}

// RevokeInvite takes an invite back, by its id. Owner only. It takes a right away: it is free.
func (gs *Groups) RevokeInvite(ctx context.Context, account string, req wire.EndInviteRequest) (string, error) {
	err := gs.asOwner(ctx, account, req.GroupID, "take invites back", func(tx *store.Tx, _ Group) error {
		if err := deleteInvite(ctx, tx, req.Invite, req.GroupID); err != nil {
			return err
		}
		_, err := gs.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindEndInvite, Account: account,
			Group: req.GroupID, Detail: req.Invite})
		return err
	})
	return fmt.Sprintf("Revoked invite %s of group '%s'", req.Invite, req.GroupID), err
}

func deleteInvite(ctx context.Context, tx *store.Tx, id, group string) error {
	n, err := tx.Count(ctx, "delete invite", "DELETE FROM group_invites WHERE id = ? AND group_id = ?", id, group)
	if err == nil && n != 1 {
		err = noInvite()
	}
	return err
}

// invite is a row of group_invites.
type invite struct {
	id, group string
	role      wire.Role
}

// UseInvite makes the caller a member of the group of an invite, by the name of its owner. An account that left or was
// revoked is refused: only the owner adds it again.
func (gs *Groups) UseInvite(ctx context.Context, account string, req wire.UseInviteRequest) (out wire.UsedInvite,
	err error) {
	var found invite
	err = gs.store.Look(ctx, func(tx *store.Tx) (err error) { // a wrong secret costs no writing transaction
		found, err = gs.findInvite(ctx, tx, req.Secret)
		return err
	})
	if err != nil {
		return out, err
	}
	err = gs.store.Write(ctx, ledger.In(found.group, account), func(tx *store.Tx) error {
		i, err := gs.findInvite(ctx, tx, req.Secret)
		if err != nil {
			return err
		}
		g, has, err := GetFor(ctx, tx, i.group, account)
		if err != nil {
			return err
		}
		if has != "" {
			return fault.New(wire.CodeConflict, "User already a member: %s (%s)", account, has)
		}
		revoked, err := wasRevoked(ctx, tx, i.group, account)
		if err != nil {
			return err
		}
		if revoked {
			return refuseNonMember(ctx, tx, i.group, account)
		}
		if err := deleteInvite(ctx, tx, i.id, i.group); err != nil {
			return err
		}
		r, err := gs.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindAdd, Account: g.Owner, Group: i.group,
			Detail: account, Tags: []chain.Tag{{Name: chain.TagInvite, Value: i.id}}})
		if err != nil {
			return err
		}
		out = wire.UsedInvite{GroupID: i.group, Role: i.role}
		return gs.admit(ctx, tx, g.Owner, i.group, account, i.role, r.Seq)
	})
	return out, err
}

// findInvite finds an invite by its id, which is no secret, and compares the hash of the whole in constant time, for an
// unknown id too.
func (gs *Groups) findInvite(ctx context.Context, tx *store.Tx, secret string) (i invite, err error) {
	id, _, _ := strings.Cut(secret, ".")
	stored := make([]byte, sha256.Size)
	var ends int64
	err = tx.QueryRowContext(ctx, "SELECT id, group_id, role, expires_ns, hash FROM group_invites WHERE id = ?", id).
		Scan(&i.id, &i.group, &i.role, &ends, &stored)
	found := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return i, fmt.Errorf("read invite: %w", err)
	}
	sum := sha256.Sum256([]byte(secret))
	equal := subtle.ConstantTimeCompare(sum[:], stored) == 1
	if !equal || !found || ends <= gs.ledger.Now().UnixNano() {
		return invite{}, noInvite()
	}
	return i, nil
}

func noInvite() error {
	return fault.New(wire.CodeInvite,
		"not authorized: there is no such invite, or it was used or revoked, or is older "+
			"than %d days: ask the owner of the group for another (svcfs group invite GROUP)",
		int(auth.InviteLifetime/(24*time.Hour)))
}

// forgetInvites takes the invites of a group back.
func forgetInvites(ctx context.Context, tx *store.Tx, group string) error {
	return tx.Do(ctx, "forget invites", "DELETE FROM group_invites WHERE group_id = ?", group)
}
