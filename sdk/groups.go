package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/sdk/wire"
)

// message calls an operation whose result is a sentence, which the generations
// send as a string or as an object with a message. A success without words has
// those of otherwise (wire protocol 8.3).
func (c *Client) message(ctx context.Context, op string, request any, otherwise string) (string, error) {
	var raw json.RawMessage
	if err := c.change(ctx, op, request, &raw); err != nil {
		return "", err
	}
	return c.words(raw, otherwise), nil
}

func (c *Client) words(raw json.RawMessage, otherwise string) string {
	text := textOf(raw)
	if text == "" {
		var object struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(raw, &object)
		text = object.Message
	}
	if text == "" {
		text = otherwise
	}
	return c.scrub(text)
}

// Addition is what [Client.AddGroupMemberAs] did.
type Addition struct {
	Message string // the service's words
	// Nobody: the service says that it has no such account. The name may be wrong,
	// and whoever gets the account later is the member.
	Nobody bool
}

// addition is the answer of add_group_member.
type addition struct {
	raw    json.RawMessage
	exists *bool // not told by services without the extension
}

// UnmarshalJSON keeps the words.
func (a *addition) UnmarshalJSON(raw []byte) error {
	a.raw = slices.Clone(raw)
	return nil
}

func (a *addition) readBeside(e envelope) error {
	if e.Exists == nil {
		return nil
	}
	return decode(e.Exists, &a.exists)
}

// inQuotes is a group in the words of the service.
func inQuotes(g GroupID) string { return "'" + string(g) + "'" }

// RegisterGroup creates a group; the caller becomes its owner and first member.
// Costs about 0.64 tokens. Any account with the balance may call it; needs the
// API key. Returns the service's words. Errors: [KindConflict] when the group
// exists, [KindInsufficient]. Specification 4.2.
func (c *Client) RegisterGroup(ctx context.Context, g GroupID) (string, error) {
	text, err := c.message(ctx, wire.OpRegisterGroup, wire.GroupRequest{GroupID: string(g)}, "Group "+inQuotes(g)+" registered successfully")
	return text, c.wrap("register group", g, "", err)
}

// AddGroupMember adds member to g. Costs about 0.013 tokens. Owner only; needs
// the API key. Errors: [KindNotFound], [KindNotAuthorized], [KindInsufficient],
// [KindConflict] when already a member. Specification 4.2.
func (c *Client) AddGroupMember(ctx context.Context, g GroupID, member AccountID) (string, error) {
	added, err := c.AddGroupMemberAs(ctx, g, member, "")
	return added.Message, err
}

// AddGroupMemberAs adds member to g with a role, [RoleReader] or [RoleWriter], or
// gives that role to one who is a member; with "" it is [Client.AddGroupMember]. Adding costs as [Client.AddGroupMember];
// a change of the role is free of charge unless the operator chose otherwise.
// Owner only; needs the API key. Errors: those of [Client.AddGroupMember],
// [KindConflict] when the member has that role, and [KindUnsupported] where the
// service has no roles, which is asked before anything is sent. Our extension.
func (c *Client) AddGroupMemberAs(ctx context.Context, g GroupID, member AccountID, role Role) (Addition, error) {
	op := "add " + quote(string(member))
	if role != "" {
		if err := c.need(ctx, wire.CapRoles, "give roles to members"); err != nil {
			return Addition{}, c.wrap(op, g, "", err)
		}
	}
	var added addition
	if err := c.change(ctx, wire.OpAddGroupMember, wire.MemberRequest{GroupID: string(g), MemberID: string(member), Role: role}, &added); err != nil {
		return Addition{}, mayOnly(wire.CodeOwnerOnly, c.wrap(op, g, "", err))
	}
	text := c.words(added.raw, "Added "+string(member)+" to group "+inQuotes(g))
	return Addition{Message: text, Nobody: added.exists != nil && !*added.exists}, nil
}

// RevokeGroupMember removes member from g and rotates the group's key. Costs
// about 0.001 tokens. Owner only; needs the API key. Keys the member received
// before stay usable for the ciphertext they belong to. Errors: [KindNotFound],
// [KindNotAuthorized], [KindInsufficient], [KindConflict] when not a member.
// Specification 4.2.
func (c *Client) RevokeGroupMember(ctx context.Context, g GroupID, member AccountID) (string, error) {
	text, err := c.message(ctx, wire.OpRevokeGroupMember, wire.MemberRequest{GroupID: string(g), MemberID: string(member)}, "Revoked "+string(member)+" from group "+inQuotes(g))
	return text, mayOnly(wire.CodeOwnerOnly, c.wrap("revoke "+quote(string(member)), g, "", err))
}

// JoinGroup adds the caller to an open group. Being a member already is not an
// error. Costs about 0.001 tokens, nothing when already a member. Any account
// may call it while the group is open; needs the API key. Errors:
// [KindNotFound], [KindNotAuthorized] when it is not open, [KindInsufficient].
// Specification 4.2.
func (c *Client) JoinGroup(ctx context.Context, g GroupID) (string, error) {
	already := "Already a member of " + inQuotes(g)
	if member, err := c.IsAuthorized(ctx, g, c.account); err == nil && member {
		return already, nil
	}
	text, err := c.message(ctx, wire.OpJoinGroup, wire.GroupRequest{GroupID: string(g)}, "Joined group "+inQuotes(g))
	if err = c.wrap("join", g, "", err); errors.Is(err, ErrConflict) {
		return already, nil
	}
	return text, err
}

// OpenGroup opens g until a moment, for at most uses accounts (0 = any number)
// that may add themselves with [Client.JoinGroup]. A group that does not exist
// is registered first, as one that can be opened; a group registered otherwise
// cannot be. Owner only. Costs a registration when it registers, else nothing.
// Errors: [KindInvalid] when until is over, [KindNotAuthorized],
// [KindInsufficient]. Source: specification 1.5, wire protocol 3.3.
func (c *Client) OpenGroup(ctx context.Context, g GroupID, until time.Time, uses int64) (string, error) {
	return c.openGroup(ctx, g, until, uses, "")
}

// OpenGroupAs is [Client.OpenGroup] for accounts that become [RoleReader] or
// [RoleWriter] by joining, this time and whenever it is opened without a role.
// [KindUnsupported] where the service has no roles, which is asked before anything
// is sent. Our extension.
func (c *Client) OpenGroupAs(ctx context.Context, g GroupID, until time.Time, uses int64, role Role) (string, error) {
	if err := c.need(ctx, wire.CapRoles, "give roles to members"); err != nil {
		return "", c.wrap("open", g, "", err)
	}
	return c.openGroup(ctx, g, until, uses, role)
}

func (c *Client) openGroup(ctx context.Context, g GroupID, until time.Time, uses int64, role Role) (string, error) {
	if !until.After(time.Now()) || uses < 0 {
		return "", &Error{Op: "open", Group: g, Kind: KindInvalid, Err: errors.New("the end must lie ahead, and the number of uses may not be negative")}
	}
	request := wire.OpenJoinRequest{GroupID: string(g), ExpiresAt: strconv.FormatInt(until.UnixNano(), 10), Role: role}
	if uses > 0 {
		request.MaxUses = &uses
	}
	text, err := c.message(ctx, wire.OpCreateHackathonGroup, request, "Opened group "+inQuotes(g))
	return text, mayOnly(wire.CodeOwnerOnly, c.wrap("open", g, "", err))
}

// CloseGroup ends what [Client.OpenGroup] began; who joined stays. Owner only.
// Free of charge on a self-hosted service. Errors: [KindNotAuthorized],
// [KindNotFound]. Source: wire protocol 3.3.
func (c *Client) CloseGroup(ctx context.Context, g GroupID) (string, error) {
	text, err := c.message(ctx, wire.OpCloseHackathonJoin, wire.GroupRequest{GroupID: string(g)}, "Closed group "+inQuotes(g))
	return text, mayOnly(wire.CodeOwnerOnly, c.wrap("close", g, "", err))
}

// DeleteFile destroys the key of a file: nobody can read it again, and its
// record stays in the ledger as deleted. Uploader or owner only, who must be
// members and no readers; needs the API key. Free of charge unless the operator chose otherwise. A file that is
// deleted already stays as it is, which is no error. Errors: [KindPending] for one of
// too many in a short time, which is deleted later, [KindUnsupported]
// where the service does not offer it, which is asked before anything is sent,
// [KindNotFound], [KindNotAuthorized]. Source: specification 1.3.
func (c *Client) DeleteFile(ctx context.Context, g GroupID, ref Ref) error {
	if err := c.need(ctx, wire.CapDelete, "delete files"); err != nil {
		return c.wrap("delete", g, ref, err)
	}
	_, err := c.message(ctx, wire.OpDeleteFile, wire.FileRequest{GroupID: string(g), IPFSHash: string(ref)}, "")
	return mayOnly(wire.CodeUploaderOnly, c.wrap("delete", g, ref, err))
}

// RenameFile records another name for a file; content and reference stay.
// Uploader or owner only. Errors as of [Client.DeleteFile], and [KindDeleted].
// Our extension.
func (c *Client) RenameFile(ctx context.Context, g GroupID, ref Ref, name string) error {
	if err := c.need(ctx, wire.CapRename, "rename files"); err != nil {
		return c.wrap("rename", g, ref, err)
	}
	_, err := c.message(ctx, wire.OpRenameFile, wire.RenameRequest{GroupID: string(g), IPFSHash: string(ref), Filename: name}, "")
	return mayOnly(wire.CodeUploaderOnly, c.wrap("rename", g, ref, err))
}

// need refuses an extension that the service does not offer.
func (c *Client) need(ctx context.Context, feature, does string) error {
	offered, err := c.offers(ctx, feature)
	if err != nil || offered {
		return err
	}
	return &Error{Op: does, Kind: KindUnsupported, Err: errors.New("the service does not offer to " + does)}
}

// SetGroupRetention sets the group's retention window in days, 0 for at once;
// nil clears it. A service may let a shorter window wait, which its words say, and
// [Client.PendingDestruction]. Owner only; needs the API key. Free of charge on a self-hosted
// service. Errors: [KindNotFound], [KindNotAuthorized]. Wire protocol 3.3.
func (c *Client) SetGroupRetention(ctx context.Context, g GroupID, days *int64) (string, error) {
	done := "Cleared retention window for group " + inQuotes(g)
	if days != nil {
		done = "Set retention for group " + inQuotes(g) + " to " + strconv.FormatInt(*days, 10) + " days"
	}
	text, err := c.message(ctx, wire.OpSetGroupRetention, wire.RetentionRequest{GroupID: string(g), RetentionDays: days}, done)
	return text, mayOnly(wire.CodeOwnerOnly, c.wrap("set retention", g, "", err))
}

// Pending is what waits to be destroyed in a group.
type Pending struct {
	RetentionDays *int64 // the window that the group gets; nil = none waits
	RetentionAt   time.Time
	Files         int64     // deletions that wait
	FilesAt       time.Time // the first of them; zero without
}

// PendingDestruction tells what waits to be destroyed in g: what would destroy
// many files waits for a time that the operator sets, and can be taken back with
// [Client.KeepFiles]. Members only. Free; needs the API key. Errors:
// [KindUnsupported] where nothing waits, [KindNotFound], [KindNotAuthorized]. Our
// extension.
func (c *Client) PendingDestruction(ctx context.Context, g GroupID) (Pending, error) {
	const op = "ask what waits"
	if err := c.need(ctx, wire.CapDelay, "delay destruction"); err != nil {
		return Pending{}, c.wrap(op, g, "", err)
	}
	var told wire.PendingResult
	if err := c.read(ctx, wire.OpGetPending, wire.GroupRequest{GroupID: string(g)}, &told); err != nil {
		return Pending{}, c.wrap(op, g, "", err)
	}
	return Pending{RetentionDays: told.RetentionDays, RetentionAt: parseTime(told.RetentionAt), Files: told.Files, FilesAt: parseTime(told.FilesAt)}, nil
}

// KeepFiles takes back everything that waits to be destroyed in g. Owner only. Free
// of charge unless the operator chose otherwise; needs the API key. Errors:
// [KindUnsupported] where nothing waits, [KindNotFound], [KindNotAuthorized]. Our
// extension.
func (c *Client) KeepFiles(ctx context.Context, g GroupID) (string, error) {
	if err := c.need(ctx, wire.CapDelay, "delay destruction"); err != nil {
		return "", c.wrap("keep files", g, "", err)
	}
	text, err := c.message(ctx, wire.OpKeepFiles, wire.GroupRequest{GroupID: string(g)}, "Kept the files of group "+inQuotes(g))
	return text, mayOnly(wire.CodeOwnerOnly, c.wrap("keep files", g, "", err))
}

// AuthStatus asks what the service thinks of the caller, and of its membership
// in g unless g is empty. Free; needs the API key. Errors: [KindUnauthenticated],
// [KindNotFound] for an account that does not exist, [KindUnavailable],
// [KindTimeout]. Specification 4.2.
func (c *Client) AuthStatus(ctx context.Context, g GroupID) (AuthStatus, error) {
	request := wire.GroupRequest{GroupID: string(g)}
	if g == "" {
		request.GroupID = "default"
	}
	var a wire.AuthStatusResult
	if err := c.read(ctx, wire.OpAuthStatus, request, &a); err != nil {
		return AuthStatus{}, c.wrap("ask status", g, "", err)
	}
	return AuthStatus{Authenticated: a.Authenticated, Account: AccountID(a.AccountID), Group: GroupID(a.GroupID),
		Authorized: a.AuthorizedForGroup != nil && *a.AuthorizedForGroup, Role: a.Role, Detail: c.scrub(a.AuthError)}, nil
}

// OwnedGroups lists the groups the caller owns. Free on the self-hosted service
// and on the hosted main network. Needs the API key. The names are hostile input.
// Errors: [KindUnauthenticated], [KindUnavailable], [KindTimeout], [KindCorrupt]
// when the answer is no list. Specification 4.2.
func (c *Client) OwnedGroups(ctx context.Context) ([]GroupID, error) {
	list, err := c.groupList(ctx, wire.OpGetOwnedGroups)
	return list.names, err
}

// MemberGroups lists the groups the caller belongs to, owned ones included.
// Free, and errors, like [Client.OwnedGroups]. Specification 4.2.
func (c *Client) MemberGroups(ctx context.Context) ([]GroupID, error) {
	list, err := c.groupList(ctx, wire.OpGetMemberGroups)
	return list.names, err
}

// maxGroups bounds a list of groups that does not end.
const maxGroups = 1_000_000

// groupList lists groups, page by page where the service has pages.
func (c *Client) groupList(ctx context.Context, op string) (all roleList[GroupID], err error) {
	paging, err := c.offers(ctx, wire.CapGroupPaging)
	if err != nil {
		return all, c.wrap("list groups", "", "", err)
	}
	var request wire.NamesRequest
	if paging {
		request.Limit = wire.MaxPageNames
	}
	for {
		var page roleList[GroupID]
		if err := c.read(ctx, op, request, &page); err != nil {
			return roleList[GroupID]{}, c.wrap("list groups", "", "", err)
		}
		all.names, all.roles = append(all.names, page.names...), append(all.roles, page.roles...)
		if !page.more || len(page.names) == 0 {
			break
		}
		if last := string(page.names[len(page.names)-1]); last == request.After || len(all.names) >= maxGroups {
			return roleList[GroupID]{}, c.wrap("list groups", "", "", malformed(errors.New("it does not end")))
		}
		request.After = string(page.names[len(page.names)-1])
	}
	if len(all.roles) != 0 && len(all.roles) != len(all.names) {
		return roleList[GroupID]{}, c.wrap("list groups", "", "", malformed(errors.New("it does not list a role for each name")))
	}
	return all, nil
}

// Groups merges [Client.OwnedGroups] and [Client.MemberGroups], sorted by id: two
// requests at once. Free, and errors, like them.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	var owned, member roleList[GroupID]
	both, groupCtx := errgroup.WithContext(ctx)
	both.Go(func() (err error) { owned, err = c.groupList(groupCtx, wire.OpGetOwnedGroups); return err })
	both.Go(func() (err error) { member, err = c.groupList(groupCtx, wire.OpGetMemberGroups); return err })
	if err := both.Wait(); err != nil {
		return nil, err
	}
	merged := make(map[GroupID]Group, len(member.names))
	for i, g := range member.names {
		merged[g] = Group{ID: g, Role: member.role(i)}
	}
	for i, g := range owned.names {
		merged[g] = Group{ID: g, Role: owned.role(i), Owned: true}
	}
	delete(merged, "")
	list := slices.AppendSeq(make([]Group, 0, len(merged)), maps.Values(merged))
	slices.SortFunc(list, func(a, b Group) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list, nil
}

// GroupMembers lists the members of g. Free like [Client.OwnedGroups]. The
// caller must be a member, or the group open. Errors: [KindNotFound],
// [KindNotAuthorized], and those of [Client.OwnedGroups]. Specification 4.2.
func (c *Client) GroupMembers(ctx context.Context, g GroupID) ([]AccountID, error) {
	list, err := c.memberList(ctx, g)
	return list.names, err
}

// GroupMemberRoles is [Client.GroupMembers] with the role of each, where the
// service has roles.
func (c *Client) GroupMemberRoles(ctx context.Context, g GroupID) ([]Member, error) {
	list, err := c.memberList(ctx, g)
	if err != nil {
		return nil, err
	}
	members := make([]Member, len(list.names))
	for i, id := range list.names {
		members[i] = Member{id, list.role(i)}
	}
	return members, nil
}

func (c *Client) memberList(ctx context.Context, g GroupID) (list roleList[AccountID], err error) {
	if err := c.read(ctx, wire.OpGetGroupMembers, wire.GroupRequest{GroupID: string(g)}, &list); err != nil {
		return roleList[AccountID]{}, c.wrap("list members", g, "", err)
	}
	return list, nil
}

// Health asks once whether the service is up. Free, no authentication. Errors:
// [KindUnavailable], [KindTimeout], [KindCorrupt] when something else answers.
func (c *Client) Health(ctx context.Context) error {
	var any json.RawMessage
	return c.wrap("ask health", "", "", c.get(ctx, c.cfg.MCPURL+wire.PathHealth, &any))
}
