package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Group is a group of files, and of the members who share them. [Client.Group] names a
// group, and [Client.Groups] lists the groups of the caller. A Group is a value: copy it,
// and compare the ID. It is safe for concurrent use.
type Group struct {
	ID GroupID
	// Owned and Role are set in a listed group only: whether the caller is the owner, and
	// the role of the caller. Role is "" where the service has no roles; then the caller is
	// a writer, unless Owned.
	Owned bool
	Role  Role

	c *Client
}

// Group returns the group with an id, which need not exist yet. Local, free.
func (c *Client) Group(id GroupID) Group { return Group{ID: id, c: c} }

// Change is the answer to an operation that changes a group.
type Change struct {
	Message string // a sentence for people, from the service if it sends one
	// Nobody is set when [Group.Add] added an account that does not exist at the service.
	// The name may be wrong. Whoever gets that account later is a member.
	Nobody bool
}

// change calls an operation whose result is a sentence. It returns otherwise as the
// sentence if the service sends none (wire protocol 8.3).
func (g Group) change(ctx context.Context, op string, request any, otherwise string) (Change, error) {
	var said sentence
	if err := g.c.change(ctx, op, request, &said); err != nil {
		return Change{}, err
	}
	return Change{Message: g.c.calls.Scrub(cmp.Or(said.text, otherwise)), Nobody: said.exists != nil &&
		!*said.exists}, nil
}

// sentence is the result of a change.
type sentence struct {
	text   string
	exists *bool // whether the added account exists; nil where the service does not tell
}

// UnmarshalJSON reads a string, or an object with a message: the generations of the
// service differ.
func (s *sentence) UnmarshalJSON(raw []byte) error {
	var object struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &object)
	s.text = cmp.Or(textOf(raw), object.Message)
	return nil
}

func (s *sentence) readBeside(e envelope) error {
	if e.Exists == nil {
		return nil
	}
	return call.Decode(e.Exists, &s.exists)
}

// quoted returns the id in the form of the service's sentences.
func (g Group) quoted() string { return "'" + string(g.ID) + "'" }

func (g Group) request() wire.GroupRequest { return wire.GroupRequest{GroupID: string(g.ID)} }

func (g Group) wrap(op string, err error) error { return g.c.wrap(op, g.ID, "", err) }

// Register creates the group. The caller becomes its owner and first member.
//
// Register costs about 0.64 tokens. It needs the API key and the balance. Errors:
// [ErrConflict] when the group exists, [ErrInsufficient]. Specification 4.2
// (registerGroup).
func (g Group) Register(ctx context.Context) (Change, error) {
	done, err := g.change(ctx, wire.OpRegisterGroup, g.request(), "Group "+g.quoted()+" registered successfully")
	return done, g.wrap("register group", err)
}

// Add adds a member as a writer, or with the role [RoleReader] or [RoleWriter]; "" is the same as none. With a role,
// Add also changes the role of a member; at a service without roles it returns [ErrUnsupported], and changes nothing.
//
// Add costs about 0.013 tokens. A change of a role is free unless the operator set a price.
// Only the owner may call it; it needs the API key. Errors: [ErrNotFound],
// [ErrNotAuthorized], [ErrInsufficient], [ErrConflict] when the account is a member
// already, with that role if one was given. Specification 4.2 (addGroupMember); only
// svcd has roles.
func (g Group) Add(ctx context.Context, member AccountID, role ...Role) (Change, error) {
	op := "add " + quote(string(member))
	request := wire.AddMemberRequest{GroupID: string(g.ID), MemberID: string(member), Role: last(role)}
	if err := g.needRoles(ctx, request.Role); err != nil {
		return Change{}, g.wrap(op, err)
	}
	done, err := g.change(ctx, wire.OpAddGroupMember, request, "Added "+string(member)+" to group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap(op, err))
}

// offers returns [ErrUnsupported] for an operation that the service does not have. does is what the caller wants.
func (g Group) offers(ctx context.Context, does, op string) error {
	return g.wrap(does, g.c.caps.offers(ctx, op))
}

// needRoles returns an error if a role is asked for and the service has none.
func (g Group) needRoles(ctx context.Context, asked Role) error {
	if asked == "" {
		return nil
	}
	return g.c.caps.needOurs(ctx, "give roles to members")
}

// Revoke removes a member and rotates the key of the group. Keys that the member received
// before still open the ciphertext they belong to.
//
// Revoke costs about 0.001 tokens. Only the owner may call it; it needs the API key.
// Errors: [ErrNotFound], [ErrNotAuthorized], [ErrInsufficient], [ErrConflict] when the
// account is no member. Specification 4.2 (revokeGroupMember).
func (g Group) Revoke(ctx context.Context, member AccountID) (Change, error) {
	request := wire.MemberRequest{GroupID: string(g.ID), MemberID: string(member)}
	done, err := g.change(ctx, wire.OpRevokeGroupMember, request, "Revoked "+string(member)+" from group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("revoke "+quote(string(member)), err))
}

// Join adds the caller to an open group. It is no error if the caller is a member already.
//
// Join costs about 0.001 tokens, and nothing for a member. Any account may join while the
// group is open; Join needs the API key. Errors: [ErrNotFound], [ErrNotAuthorized] when the
// group is not open, [ErrInsufficient]. Specification 4.2 (joinGroup).
func (g Group) Join(ctx context.Context) (Change, error) {
	already := Change{Message: "Already a member of " + g.quoted()}
	if member, err := g.IsAuthorized(ctx, ""); err == nil && member {
		return already, nil
	}
	done, err := g.change(ctx, wire.OpJoinGroup, g.request(), "Joined group "+g.quoted())
	if err = g.wrap("join", err); errors.Is(err, ErrConflict) {
		return already, nil
	}
	return done, err
}

// OpenJoin lets accounts add themselves with [Group.Join] before a moment. The options bound
// how many, and give them a role, this time and each time the group is opened without a
// role. OpenJoin registers a group that does not exist. A group that [Group.Register] made
// cannot be opened.
//
// OpenJoin costs a registration if it registers, else nothing. Only the owner may call it;
// it needs the API key. Errors: [ErrInvalid] when until has passed, [ErrNotAuthorized],
// [ErrInsufficient]. Source: specification 1.5, wire protocol 3.3.
func (g Group) OpenJoin(ctx context.Context, until time.Time, opts ...JoinOptions) (Change, error) {
	o := last(opts)
	request := wire.OpenJoinRequest{GroupID: string(g.ID), ExpiresAt: strconv.FormatInt(until.UnixNano(), 10),
		Role: o.Role}
	if o.AtMost != 0 {
		request.MaxUses = &o.AtMost
	}
	if !until.After(time.Now()) || o.AtMost < 0 {
		return Change{}, &Error{Op: "open", Group: g.ID, Kind: ErrInvalid,
			Err: errors.New("the end must be in the future, and at least one account must be able to join")}
	}
	if err := g.needRoles(ctx, request.Role); err != nil {
		return Change{}, g.wrap("open", err)
	}
	done, err := g.change(ctx, wire.OpCreateHackathonGroup, request, "Opened group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("open", err))
}

// CloseJoin ends [Group.OpenJoin] before its time. Accounts that joined stay members. It is
// free on a self-hosted service. Only the owner may call it; it needs the API key. Errors:
// [ErrNotAuthorized], [ErrNotFound]. Source: wire protocol 3.3.
func (g Group) CloseJoin(ctx context.Context) (Change, error) {
	done, err := g.change(ctx, wire.OpCloseHackathonJoin, g.request(), "Closed group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("close", err))
}

// Owner returns the owner of the group. Free, no authentication. Errors:
// [ErrNotFound]. Specification 4.2 (getGroupOwner).
func (g Group) Owner(ctx context.Context) (AccountID, error) {
	var owner *AccountID
	if err := g.c.rpc.view(ctx, "get_group_owner", groupArgs{GroupID: g.ID}, &owner); err != nil {
		return "", g.wrap("ask owner", err)
	}
	if owner == nil || *owner == "" {
		return "", &Error{Op: "ask owner", Group: g.ID, Kind: ErrNotFound, Code: wire.CodeGroupNotFound,
			Err: errors.New("group not found")}
	}
	return *owner, nil
}

// Checksum returns the attestation checksum of the group. It is "" if the service publishes
// none, or does not know the group. At a self-hosted service it is [chain.GroupChecksum]: another one after a
// revocation, and for another program or key of the vault, by the word of the operator. Free, no authentication.
// Errors: [ErrUnavailable], [ErrTimeout], [ErrCorrupt]. Specification 4.2 (getGroupChecksum).
func (g Group) Checksum(ctx context.Context) (string, error) {
	var sum *string
	if err := g.c.rpc.view(ctx, "get_group_checksum", groupArgs{GroupID: g.ID}, &sum); err != nil || sum == nil {
		return "", g.wrap("ask checksum", err)
	}
	return *sum, nil
}

// IsAuthorized reports whether an account is a member of the group; "" means the caller.
// Free, no authentication. Errors: [ErrNotFound] for an unknown group. Specification 4.2
// (isAuthorized).
func (g Group) IsAuthorized(ctx context.Context, account AccountID) (bool, error) {
	if account == "" {
		account = g.c.account
	}
	var member *bool
	err := g.c.rpc.view(ctx, "is_authorized", groupArgs{GroupID: g.ID, UserID: account}, &member)
	if err == nil && member == nil {
		err = call.Malformed(errors.New("neither true nor false"))
	}
	return err == nil && *member, g.wrap("ask membership", err)
}

// Members lists the members of the group. Each has a role where the service has roles. The
// price is that of [Client.OwnedGroups]: mostly free. The caller must be a member, or the
// group open; Members needs the API key. Errors: [ErrNotFound], [ErrNotAuthorized], and
// those of [Client.OwnedGroups]. Specification 4.2 (getGroupMembers).
func (g Group) Members(ctx context.Context) ([]Member, error) {
	var list roleList[AccountID]
	if err := g.c.read(ctx, wire.OpGetGroupMembers, g.request(), &list); err != nil {
		return nil, g.wrap("list members", err)
	}
	members := make([]Member, len(list.names))
	for i, id := range list.names {
		members[i] = Member{id, list.role(i)}
	}
	return members, nil
}

// AuthStatus is [Client.AuthStatus], and also tells whether the caller is a member of the
// group. It is free and needs the API key. Errors: those of [Client.AuthStatus].
func (g Group) AuthStatus(ctx context.Context) (AuthStatus, error) {
	return g.c.authStatus(ctx, g.ID)
}

// Delete destroys the key of a file, so that the file can never be read again. The record
// stays in the ledger, marked as deleted. It is no error if the file is deleted already. The result is the
// file as [Group.List] lists it, without Tx, or an entry without Ref if it was deleted before. Errors include
// [ErrCorrupt] if the service confirms the deletion without proof.
//
// Delete is free unless the operator set a price. The owner of the group and the uploader
// may call it, unless the uploader is a reader or no member any more. It needs the API key.
// Errors: [ErrPending] when the service delays the deletion, because the account deletes
// many files in a short time, [ErrUnsupported] when the service offers no deletion (nothing
// is sent), [ErrNotFound], [ErrNotAuthorized]. Source: specification 1.3.
func (g Group) Delete(ctx context.Context, ref Ref) (Entry, error) {
	e, err := g.deleteFile(ctx, ref)
	return e, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.c.wrap("delete", g.ID, ref, err))
}

func (g Group) deleteFile(ctx context.Context, ref Ref) (Entry, error) {
	var answer recorded
	after := g.c.memory.Group(string(g.ID)).Number
	err := g.c.change(ctx, wire.OpDeleteFile, wire.FileRequest{GroupID: string(g.ID), IPFSHash: string(ref)}, &answer)
	if err != nil || len(answer.Records) == 0 { // it was deleted before
		return Entry{}, err
	}
	return g.changedFile(ctx, after, answer.Recorded, func(r *chain.Record) bool {
		return r.Kind == EventDeleted && r.Ref == string(ref) && r.Detail == wire.ReasonOwnerRequest
	})
}
