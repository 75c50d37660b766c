package groups

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// OfferLife is how long a member may accept a group that is offered to it.
const OfferLife = 7 * 24 * time.Hour

// offer lets a member become the owner of a group, from one moment until another. The zero
// value is none.
type offer struct {
	to          string
	from, until time.Time
}

func (o offer) record(by, group string) chain.Record {
	r := chain.Record{Kind: chain.KindOffer, Account: by, Group: group}
	if o.to != "" {
		r.Detail = fmt.Sprintf("%s %d %d", o.to, o.from.UnixNano(), o.until.UnixNano())
	}
	return r
}

// isOffered reports whether an offer can be accepted now, or later.
func (g *Group) isOffered(now time.Time) bool {
	return g.OfferTo.Valid && now.UnixNano() < g.OfferUntil.Int64
}

func setOffer(ctx context.Context, tx *store.Tx, group string, o offer) error {
	is := o.to != ""
	return tx.Do(ctx, "note offer", "UPDATE groups SET offer_to = ?, offer_from_ns = ?, offer_until_ns = ? "+
		"WHERE id = ?", sql.NullString{String: o.to, Valid: is}, sql.NullInt64{Int64: o.from.UnixNano(), Valid: is},
		sql.NullInt64{Int64: o.until.UnixNano(), Valid: is}, group)
}

// Offer offers a group to a member, who becomes its owner with [Groups.Accept]. Owner only.
// The offer waits as destruction does, so that a stolen key does not take a group away in a
// moment. It replaces an earlier one; without a member it takes that back, which is free.
func (gs *Groups) Offer(ctx context.Context, account string, req wire.MemberRequest) (text string, err error) {
	member := ""
	if req.MemberID != "" {
		if member, err = gs.accounts.FullID(req.MemberID); err != nil {
			return "", err
		}
	}
	chains := ledger.In(req.GroupID, account, member)
	err = gs.asOwnerOf(ctx, chains, account, req.GroupID, "hand the group over", func(tx *store.Tx, g Group) error {
		switch {
		case member == "":
			text, err = gs.withdraw(ctx, tx, g, account)
			return err
		case member == account:
			return fault.New(wire.CodeConflict, "%s owns group %q already", account, g.ID)
		}
		if err := mayOwn(ctx, tx, g.ID, member); err != nil {
			return err
		}
		from := gs.ledger.Now().Add(max(gs.delay, 0))
		o := offer{member, from, from.Add(OfferLife)}
		if g.isOffered(gs.ledger.Now()) && g.OfferTo.String == member { // asking again does not make it wait longer
			o.from, o.until = time.Unix(0, g.OfferFrom.Int64), time.Unix(0, g.OfferUntil.Int64)
		}
		text = fmt.Sprintf("Offered group '%s' to %s, "+
			"who becomes its owner with: svcfs group accept GROUP, from %s until %s",
			g.ID, member, timeText(o.from), timeText(o.until))
		if err := setOffer(ctx, tx, g.ID, o); err != nil {
			return err
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindOffer, o.record(account, g.ID))
		return err
	})
	return text, err
}

// mayOwn refuses an account that cannot own a group: it is no member, or cannot act.
func mayOwn(ctx context.Context, tx *store.Tx, group, account string) error {
	_, role, err := GetFor(ctx, tx, group, account)
	switch {
	case err != nil:
		return err
	case role == "":
		return fault.New(wire.CodeConflict,
			"User not a member: %s: add it first with: svcfs group add GROUP ACCOUNT", account)
	}
	disabled, err := auth.IsDisabled(ctx, tx, account)
	if err == nil && disabled {
		err = fault.New(wire.CodeConflict, "account %s is disabled and can own no group", account)
	}
	return err
}

// withdraw takes an offer back. It takes a right away: it needs no room, and is no change
// that counts.
func (gs *Groups) withdraw(ctx context.Context, tx *store.Tx, g Group, account string) (text string, err error) {
	if !g.OfferTo.Valid {
		return fmt.Sprintf("Group '%s' is not offered to anybody", g.ID), nil
	}
	if err := setOffer(ctx, tx, g.ID, offer{}); err != nil {
		return "", err
	}
	_, err = gs.ledger.Free(ctx, tx, ledger.ActionWithdraw, 1, offer{}.record(account, g.ID))
	return fmt.Sprintf("Group '%s' is not offered to %s any more", g.ID, g.OfferTo.String), err
}

// Accept makes the caller the owner of a group that is offered to it. The owner of before
// stays a member, as a writer. All that waits in the group is cancelled: also its end.
func (gs *Groups) Accept(ctx context.Context, account string, req wire.GroupRequest) (string, error) {
	group := req.GroupID
	err := gs.store.Write(ctx, ledger.In(group, account), func(tx *store.Tx) error {
		g, err := RequireMember(ctx, tx, group, account)
		if err != nil {
			return err
		}
		now := gs.ledger.Now()
		switch {
		case g.Owner == account:
			return fault.New(wire.CodeConflict, "%s owns group %q already", account, group)
		case !g.isOffered(now) || g.OfferTo.String != account:
			return fault.New(wire.CodeNotOffered, "group %q is not offered to %s: "+
				"its owner can offer it with: svcfs group hand-over GROUP ACCOUNT", group, account)
		case now.UnixNano() < g.OfferFrom.Int64:
			return fault.New(wire.CodeNotOffered,
				"group %q can be accepted from %s on: until then its owner can take the offer back",
				group, timeText(time.Unix(0, g.OfferFrom.Int64)))
		}
		if err := tx.Do(ctx, "change owner", "UPDATE groups SET owner = ? WHERE id = ?", account, group); err != nil {
			return err
		}
		err = tx.Do(ctx, "change owner", "UPDATE members SET role = ? WHERE group_id = ? AND account IN (?, ?)",
			wire.RoleWriter, group, account, g.Owner)
		if err != nil {
			return err
		}
		if err := forgetAll(ctx, tx, group); err != nil {
			return err
		}
		if err := forgetDeletions(ctx, tx, group, g.Owner); err != nil {
			return err
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindAccept,
			chain.Record{Kind: chain.KindAccept, Account: account, Group: group})
		return err
	})
	return fmt.Sprintf("%s owns group '%s' now", account, group), err
}

// Offered are the groups of an account that an operator offered to a member.
type Offered struct {
	Owner    string   `json:"account_id"`
	Member   string   `json:"offered_to"`
	Groups   []string `json:"offered"`
	NoMember []string `json:"no_member"` // groups of which it is no member, and which are not offered
}

// OfferAll offers the groups of a disabled account to a member of them, by the name of the
// operator: it can accept each at once, because nobody takes that back but the operator.
func (gs *Groups) OfferAll(ctx context.Context, by, owner, member string) (out Offered, err error) {
	if owner, err = gs.accounts.FullID(owner); err != nil {
		return out, err
	}
	if member, err = gs.accounts.FullID(member); err != nil {
		return out, err
	}
	err = gs.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		out = Offered{Owner: owner, Member: member, Groups: []string{}, NoMember: []string{}}
		disabled, err := auth.IsDisabled(ctx, tx, owner)
		switch {
		case err != nil:
			return err
		case !disabled:
			return fault.New(wire.CodeConflict, "account %s can hand its groups over itself: "+
				"disable it first with: svcd account disable NAME", owner)
		}
		if disabled, err = auth.IsDisabled(ctx, tx, member); err != nil {
			return err
		}
		if disabled {
			return fault.New(wire.CodeConflict, "account %s is disabled and can own no group", member)
		}
		owned, err := readListing(ctx, tx, selectOwned+" ORDER BY m.group_id", owner)
		if err != nil {
			return err
		}
		for _, group := range owned.Names {
			_, role, err := GetFor(ctx, tx, group, member)
			switch {
			case err != nil:
				return err
			case role == "":
				out.NoMember = append(out.NoMember, group)
				continue
			}
			o := offer{member, gs.ledger.Now(), gs.ledger.Now().Add(OfferLife)}
			if err := setOffer(ctx, tx, group, o); err != nil {
				return err
			}
			if _, err := gs.ledger.Append(ctx, tx, o.record(by, group)); err != nil {
				return err
			}
			out.Groups = append(out.Groups, group)
		}
		return nil
	})
	return out, err
}
