package groups

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

func insertMember(ctx context.Context, tx *store.Tx, group, account string, role wire.Role, seq int64) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM members WHERE group_id = ?", group).Scan(&n); err != nil {
		return fmt.Errorf("count members: %w", err)
	}
	if n >= MaxMembers {
		return fault.New(wire.CodeTooLarge, "the group is full: it has %d members", MaxMembers)
	}
	return tx.Do(ctx, "insert member", "INSERT INTO members (group_id, account, since, role) VALUES (?, ?, ?, ?)",
		group, account, seq, string(role))
}

// Added is the result of [Groups.Add] in words. Exists is false when the member has no
// account here: the name may be wrong, and the account that gets this name later will be
// the member.
type Added struct {
	Text   string
	Exists bool
}

// Add adds a member with a role, a writer when role is "". It changes the role of a
// member only when the request names a role, so that adding a reader again makes no
// writer. Owner only.
func (gs *Groups) Add(ctx context.Context, account string, req wire.AddMemberRequest) (added Added, err error) {
	group, role := req.GroupID, req.Role
	member, err := gs.accounts.FullID(req.MemberID)
	if err != nil {
		return added, err
	}
	if err := checkRole(role); err != nil {
		return added, err
	}
	chains := ledger.In(group, account, member)
	err = gs.asOwnerOf(ctx, chains, account, group, "add members", func(tx *store.Tx, _ Group) error {
		_, has, err := GetFor(ctx, tx, group, member)
		if err != nil {
			return err
		}
		if added.Exists, err = auth.Exists(ctx, tx, member); err != nil {
			return err
		}
		if has != "" {
			added.Text = fmt.Sprintf("%s is now a %s of group '%s'", member, role, group)
			return gs.changeRole(ctx, tx, account, group, member, has, role)
		}
		added.Text = fmt.Sprintf("Added %s to group '%s'", member, group)
		r, err := gs.ledger.Charge(ctx, tx, chain.KindAdd,
			chain.Record{Kind: chain.KindAdd, Account: account, Group: group, Detail: member})
		if err != nil {
			return err
		}
		if role == wire.RoleReader {
			added.Text += " as a reader"
		}
		return gs.admit(ctx, tx, account, group, member, cmp.Or(role, wire.RoleWriter), r.Seq)
	})
	return added, err
}

// checkRole refuses roles that an owner cannot give.
func checkRole(role wire.Role) error {
	if role != "" && role != wire.RoleWriter && role != wire.RoleReader {
		return fault.New(wire.CodeValidation,
			"role %.60q: want %s or %s", string(role), wire.RoleReader, wire.RoleWriter)
	}
	return nil
}

// admit makes a member. The caller has recorded the addition; a role that the
// specification does not know gets a second record, which is free.
func (gs *Groups) admit(ctx context.Context, tx *store.Tx, by, group, member string, role wire.Role, seq int64) error {
	if err := insertMember(ctx, tx, group, member, role, seq); err != nil || role == wire.RoleWriter {
		return err
	}
	_, err := gs.ledger.Append(ctx, tx, roleRecord(by, group, member, role))
	return err
}

func roleRecord(by, group, member string, role wire.Role) chain.Record {
	return chain.Record{Kind: chain.KindRole, Account: by, Group: group, Detail: member + " " + string(role)}
}

// changeRole gives a member another role.
func (gs *Groups) changeRole(ctx context.Context, tx *store.Tx, by, group, member string, has, role wire.Role) error {
	switch {
	case role == "" || role == has:
		return fault.New(wire.CodeConflict, "User already a member: %s (%s)", member, has)
	case has == wire.RoleOwner:
		return fault.New(wire.CodeConflict, "User already a member: %s owns the group, "+
			"and another account becomes its owner only with: svcfs group hand-over", member)
	}
	err := tx.Do(ctx, "change role", "UPDATE members SET role = ? WHERE group_id = ? AND account = ?", string(role),
		group, member)
	if err != nil {
		return err
	}
	if role == wire.RoleReader {
		if err := forgetDeletions(ctx, tx, group, member); err != nil {
			return err
		}
	}
	_, err = gs.ledger.Charge(ctx, tx, chain.KindRole, roleRecord(by, group, member, role))
	return err
}

// Revoke removes a member and rotates the group's key, in one transaction. When it
// returns, the member gets no key any more and cannot join again: only the owner can add
// the member again. Owner only; the owner cannot be revoked.
func (gs *Groups) Revoke(ctx context.Context, account string, req wire.MemberRequest) (string, error) {
	group := req.GroupID
	member, err := gs.accounts.FullID(req.MemberID)
	if err != nil {
		return "", err
	}
	err = gs.asOwner(ctx, account, group, "revoke members", func(tx *store.Tx, g Group) error {
		if member == g.Owner {
			return fault.New(wire.CodeConflict, "the owner cannot be revoked from the group")
		}
		if err := removeMember(ctx, tx, g, member); err != nil {
			return err
		}
		if _, err = gs.ledger.Charge(ctx, tx, chain.KindRevoke, revocation(account, group, member)); err != nil {
			return err
		}
		return gs.recordRotation(ctx, tx, g, account)
	})
	return fmt.Sprintf("Revoked %s from group '%s' (key rotated)", member, group), err
}

// Leave takes the caller out of a group, as [Groups.Revoke] does, and is free. The owner
// cannot leave.
func (gs *Groups) Leave(ctx context.Context, account string, req wire.GroupRequest) (string, error) {
	group := req.GroupID
	err := gs.store.Write(ctx, ledger.In(group, account), func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, group, account)
		if err != nil {
			return err
		}
		if g.Owner == account {
			return fault.New(wire.CodeConflict, "the owner cannot leave group %q: hand it over first with: "+
				"svcfs group hand-over GROUP ACCOUNT, or delete it with: svcfs group delete GROUP", group)
		}
		if err := removeMember(ctx, tx, g, account); err != nil {
			return err
		}
		if _, err := gs.ledger.Free(ctx, tx, chain.KindRevoke, 1, revocation(account, group, account)); err != nil {
			return err
		}
		return gs.recordRotation(ctx, tx, g, account)
	})
	return fmt.Sprintf("Left group '%s' (key rotated)", group), err
}

func revocation(by, group, member string) chain.Record {
	return chain.Record{Kind: chain.KindRevoke, Account: by, Group: group, Detail: member}
}

// removeMember ends what a member may do and has asked for, and rotates the key of the group.
func removeMember(ctx context.Context, tx *store.Tx, g Group, member string) error {
	n, err := tx.Count(ctx, "delete member", "DELETE FROM members WHERE group_id = ? AND account = ?", g.ID, member)
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.New(wire.CodeConflict, "User not a member: %s", member)
	}
	if g.OfferTo.String == member {
		if err := setOffer(ctx, tx, g.ID, offer{}); err != nil {
			return err
		}
	}
	if err := forgetDeletions(ctx, tx, g.ID, member); err != nil {
		return err
	}
	return tx.Do(ctx, "rotate key", "UPDATE groups SET key_version = ? WHERE id = ?", g.KeyVersion+1, g.ID)
}

// recordRotation records the key that [removeMember] made.
func (gs *Groups) recordRotation(ctx context.Context, tx *store.Tx, g Group, by string) error {
	version := strconv.FormatInt(g.KeyVersion+1, 10)
	_, err := gs.ledger.Append(ctx, tx,
		chain.Record{Kind: chain.KindRotateGroup, Account: by, Group: g.ID, Detail: version})
	return err
}
