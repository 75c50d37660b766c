package sdk

import (
	"context"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Leave takes the caller out of the group, as [Group.Revoke] does. Only the owner brings it back, also
// into an open group. The owner cannot leave: see [Group.Offer] and [Group.DeleteGroup].
//
// Leave is free; it needs the API key. Errors: [ErrUnsupported] at the hosted service, [ErrNotFound],
// [ErrNotAuthorized] when the caller is no member, [ErrConflict] when it is the owner. Only svcd has it.
func (g Group) Leave(ctx context.Context) (Change, error) {
	done, err := g.change(ctx, wire.OpLeaveGroup, g.request(), "Left group "+g.quoted())
	return done, g.wrap("leave", err)
}

// Offer offers the group to a member, who becomes its owner with [Group.Accept]. A service may delay
// the offer; then the Message and [Settings.Pending] say so. An offer replaces an earlier one, and holds
// for 7 days. "" takes an offer back.
//
// Offer is free unless the operator set a price; taking back is always free. Only the owner may call it;
// it needs the API key. Errors: [ErrUnsupported] at the hosted service, [ErrNotFound] when there is no
// such account, [ErrNotAuthorized], [ErrConflict] when the account is no member. Only svcd has it.
func (g Group) Offer(ctx context.Context, member AccountID) (Change, error) {
	request := wire.MemberRequest{GroupID: string(g.ID), MemberID: string(member)}
	done, err := g.change(ctx, wire.OpOfferGroup, request, "Offered group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("hand over", err))
}

// Accept makes the caller the owner of a group that is offered to it. The owner of before stays a
// member, as a writer. All that [Settings.Pending] tells is cancelled.
//
// Accept is free unless the operator set a price; it needs the API key. Errors: [ErrUnsupported] at the
// hosted service, [ErrNotFound], [ErrNotAuthorized] when the caller is no member, [ErrConflict] when the
// group is not offered to it, not yet or not any more. Only svcd has it.
func (g Group) Accept(ctx context.Context) (Change, error) {
	done, err := g.change(ctx, wire.OpAcceptGroup, g.request(), "Accepted group "+g.quoted())
	return done, g.wrap("accept", err)
}

// DeleteGroup ends the group for all its members, and destroys the keys of all its files. No group gets
// its id again. A service may delay it; then the Message and [Settings.Pending] say so, and [Settings.Keep]
// takes it back.
//
// DeleteGroup is free unless the operator set a price. Only the owner may call it; it needs the API key.
// Errors: [ErrUnsupported] at the hosted service, [ErrNotFound], [ErrNotAuthorized]. Only svcd has it.
func (g Group) DeleteGroup(ctx context.Context) (Change, error) {
	done, err := g.change(ctx, wire.OpDeleteGroup, g.request(), "Deleted group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("delete the group", err))
}
