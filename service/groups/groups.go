// Package groups holds the rules of membership: owners, members, roles, and the right to
// change them. Every change is one transaction with its ledger record and fee.
package groups

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// MaxGroupID is the longest group id, in bytes.
const MaxGroupID = 128

// MaxMembers bounds one group.
const MaxMembers = 10_000

// Groups answers and changes membership.
type Groups struct {
	store    *store.Store
	ledger   *ledger.Ledger
	accounts *auth.Accounts
	delay    time.Duration
}

// New returns the groups of a service in which the destruction of many files waits
// for delay; 0 or less means not at all.
func New(s *store.Store, l *ledger.Ledger, a *auth.Accounts, delay time.Duration) *Groups {
	return &Groups{s, l, a, delay}
}

// CheckID refuses ids of new groups that cannot be shown or stored: empty, long,
// not UTF-8; and those that look like another: with characters that are invisible
// or turn the text around, or with a space at an end. Anything else, slashes and
// spaces too, is a name.
func CheckID(id string) error {
	if id == "" || len(id) > MaxGroupID || !utf8.ValidString(id) {
		return fault.New(wire.CodeValidation, "Required: group_id, 1 to %d bytes of UTF-8", MaxGroupID)
	}
	if strings.TrimSpace(id) != id {
		return fault.New(wire.CodeValidation, "group_id begins or ends with a space")
	}
	for _, r := range id {
		if !unicode.IsPrint(r) ||
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return fault.New(wire.CodeValidation, "group_id holds a character that cannot be seen: %U", r)
		}
	}
	return nil
}

// Group is one group's row.
type Group struct {
	ID            string
	Owner         string
	Joinable      bool
	JoinExpires   sql.NullInt64 // ns
	JoinMaxUses   sql.NullInt64
	JoinUses      int64
	RetentionDays sql.NullInt64
	KeyVersion    int64
	JoinRole      wire.Role // of accounts that join

	TrashDays int64  // how long a removed file can be brought back
	TrashWho  string // removes files: one of wire.Trash…

	PendingDays  sql.NullInt64 // the window that waits
	PendingUntil sql.NullInt64 // ns

	Format int64 // the newest format version of uploads, 1 or 2

	OfferTo    sql.NullString // the member that the group is offered to
	OfferFrom  sql.NullInt64  // ns
	OfferUntil sql.NullInt64  // ns
	PendingEnd sql.NullInt64  // ns: when the group ends
	Ended      sql.NullInt64  // ns

	Versions             string         // which older versions stay: the text of a wire.Keep
	PendingVersions      sql.NullString // the setting that waits
	PendingVersionsUntil sql.NullInt64  // ns
}

// ended is the refusal for a group that its owner deleted.
func ended(id string) error {
	return fault.New(wire.CodeGroupDeleted,
		"User not authorized: group %q was deleted by its owner, and its id is never used again", id)
}

// unknown is the refusal for a group that does not exist.
func unknown(id string) error {
	return fault.New(wire.CodeGroupNotFound, "Group not found: %q", id)
}

const groupColumns = "owner, joinable, join_expires, join_max_uses, join_uses, retention_days, key_version, " +
	"join_role, trash_days, trash_who, " +
	"pending_retention, pending_retention_ns, versions, pending_versions, pending_versions_ns, format, " +
	"offer_to, offer_from_ns, offer_until_ns, pending_end_ns, ended_ns"

// fields are where groupColumns go.
func (g *Group) fields() []any {
	return []any{&g.Owner, &g.Joinable, &g.JoinExpires, &g.JoinMaxUses, &g.JoinUses, &g.RetentionDays, &g.KeyVersion,
		&g.JoinRole, &g.TrashDays, &g.TrashWho,
		&g.PendingDays, &g.PendingUntil, &g.Versions, &g.PendingVersions, &g.PendingVersionsUntil, &g.Format,
		&g.OfferTo, &g.OfferFrom, &g.OfferUntil, &g.PendingEnd, &g.Ended}
}

// read scans groupColumns, and the further columns of the query into more. It refuses a group that has ended.
func (g *Group) read(row *sql.Row, more ...any) error {
	err := row.Scan(append(g.fields(), more...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return unknown(g.ID)
	}
	if err != nil {
		return fmt.Errorf("read group: %w", err)
	}
	if g.Ended.Valid {
		return ended(g.ID)
	}
	return nil
}

// Get reads a group inside a transaction.
func Get(ctx context.Context, tx *store.Tx, id string) (Group, error) {
	g := Group{ID: id}
	err := g.read(tx.QueryRowContext(ctx, "SELECT "+groupColumns+" FROM groups WHERE id = ?", id))
	return g, err
}

// roleColumn is the role of an account, its argument, in the group of a row, "" when the
// account is not a member.
const roleColumn = "COALESCE((SELECT CASE WHEN m.account = groups.owner THEN '" + wire.RoleOwner + `' ELSE m.role END
	FROM members m WHERE m.group_id = groups.id AND m.account = ?), '')`

// GetFor reads a group inside a transaction, and the role of account in it, "" when
// it is not a member.
func GetFor(ctx context.Context, tx *store.Tx, id, account string) (g Group, role wire.Role, err error) {
	g.ID = id
	row := tx.QueryRowContext(ctx, "SELECT "+groupColumns+", "+roleColumn+" FROM groups WHERE id = ?", account, id)
	err = g.read(row, &role)
	return g, role, err
}

// RequireMember returns the group, or refuses an account that is not a member.
func RequireMember(ctx context.Context, tx *store.Tx, group, account string) (Group, error) {
	g, role, err := GetFor(ctx, tx, group, account)
	if err == nil && role == "" {
		err = refuseNonMember(ctx, tx, group, account)
	}
	return g, err
}

// RequireWriter returns the group, or refuses an account that may not change its
// files.
func RequireWriter(ctx context.Context, tx *store.Tx, group, account string) (Group, error) {
	g, role, err := GetFor(ctx, tx, group, account)
	switch {
	case err != nil:
	case role == "":
		err = refuseNonMember(ctx, tx, group, account)
	case role != wire.RoleOwner && role != wire.RoleWriter:
		err = fault.New(wire.CodeReadOnly,
			"User not authorized: %s is a reader of group %q and cannot change its files", account, group)
	}
	return g, err
}

// MayList refuses an account that may not list members and files: a group that is
// not open to join is for its members. isMember is false for another account that may.
func MayList(ctx context.Context, tx *store.Tx, group, account string) (isMember bool, err error) {
	g, role, err := GetFor(ctx, tx, group, account)
	if err == nil && role == "" && !g.Joinable {
		err = refuseNonMember(ctx, tx, group, account)
	}
	return role != "", err
}

// refuseNonMember is the refusal of an account that left or was revoked, or never was a member.
// Older clients look for its words "not authorized" and "not a member".
func refuseNonMember(ctx context.Context, tx *store.Tx, group, account string) error {
	revoked, err := wasRevoked(ctx, tx, group, account)
	if err != nil {
		return err
	}
	if revoked {
		return fault.New(wire.CodeNotAuthorized,
			"User not authorized: Unauthorized for group %q: %s left or was revoked, and is not a member any more",
			group, account)
	}
	return fault.New(wire.CodeNotAuthorized,
		"User not authorized: Unauthorized for group %q: %s is not a member", group, account)
}

// wasRevoked reports whether an account ever left a group, or was revoked from it.
func wasRevoked(ctx context.Context, tx *store.Tx, group, account string) (revoked bool, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT "+ledger.WasRevoked+"?)", account, group).Scan(&revoked); err != nil {
		return false, fmt.Errorf("look for revocations: %w", err)
	}
	return revoked, nil
}

func requireOwner(ctx context.Context, tx *store.Tx, group, account, action string) (Group, error) {
	g, err := Get(ctx, tx, group)
	if err != nil {
		return g, err
	}
	if g.Owner != account {
		return g, fault.New(wire.CodeNotAuthorized,
			"User not authorized: Only group owner can %s in group %q", action, group)
	}
	return g, nil
}

// Register creates a group; the caller becomes owner and first member.
func (gs *Groups) Register(ctx context.Context, account, id string, joinable bool) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	err := gs.store.Write(ctx, func(tx *store.Tx) error { return gs.register(ctx, tx, account, id, joinable) })
	return fmt.Sprintf("Group '%s' registered successfully", id), err
}

func (gs *Groups) register(ctx context.Context, tx *store.Tx, account, id string, joinable bool) error {
	if _, err := Get(ctx, tx, id); err == nil {
		return fault.New(wire.CodeGroupExists, "Group exists: %q", id)
	} else if fault.Of(err).Code != wire.CodeGroupNotFound {
		return err
	}
	r, err := gs.ledger.Charge(ctx, tx, chain.KindRegister,
		chain.Record{Kind: chain.KindRegister, Account: account, Group: id})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO groups (id, owner, joinable, key_version) VALUES (?, ?, ?, 1)",
		id, account, joinable)
	if err != nil {
		return fmt.Errorf("insert group: %w", err)
	}
	return insertMember(ctx, tx, id, account, wire.RoleWriter, r.Seq)
}

func insertMember(ctx context.Context, tx *store.Tx, group, account string, role wire.Role, seq int64) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM members WHERE group_id = ?", group).Scan(&n); err != nil {
		return fmt.Errorf("count members: %w", err)
	}
	if n >= MaxMembers {
		return fault.New(wire.CodeTooLarge, "the group is full: it has %d members", MaxMembers)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO members (group_id, account, since, role) VALUES (?, ?, ?, ?)",
		group, account, seq, string(role))
	if err != nil {
		return fmt.Errorf("insert member: %w", err)
	}
	return nil
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
func (gs *Groups) Add(ctx context.Context, account string, req wire.MemberRequest) (added Added, err error) {
	group, role := req.GroupID, req.Role
	member, err := gs.accounts.FullID(req.MemberID)
	if err != nil {
		return added, err
	}
	if err := checkRole(role); err != nil {
		return added, err
	}
	err = gs.store.Write(ctx, func(tx *store.Tx) error {
		if _, err := requireOwner(ctx, tx, group, account, "add members"); err != nil {
			return err
		}
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
	_, err := tx.ExecContext(ctx, "UPDATE members SET role = ? WHERE group_id = ? AND account = ?",
		string(role), group, member)
	if err != nil {
		return fmt.Errorf("change role: %w", err)
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
	err = gs.store.Write(ctx, func(tx *store.Tx) error {
		g, err := requireOwner(ctx, tx, group, account, "revoke members")
		if err != nil {
			return err
		}
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
	err := gs.store.Write(ctx, func(tx *store.Tx) error {
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
	result, err := tx.ExecContext(ctx, "DELETE FROM members WHERE group_id = ? AND account = ?", g.ID, member)
	if err != nil {
		return fmt.Errorf("delete member: %w", err)
	}
	if n, _ := result.RowsAffected(); n == 0 {
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
	_, err = tx.ExecContext(ctx, "UPDATE groups SET key_version = ? WHERE id = ?", g.KeyVersion+1, g.ID)
	if err != nil {
		return fmt.Errorf("rotate key: %w", err)
	}
	return nil
}

// recordRotation records the key that [removeMember] made.
func (gs *Groups) recordRotation(ctx context.Context, tx *store.Tx, g Group, by string) error {
	version := strconv.FormatInt(g.KeyVersion+1, 10)
	_, err := gs.ledger.Append(ctx, tx,
		chain.Record{Kind: chain.KindRotateGroup, Account: by, Group: g.ID, Detail: version})
	return err
}

// Join adds the caller to an open group. A member may call it again: that is no error
// and costs nothing. An account that left or was revoked cannot join; only the owner can add it
// again.
func (gs *Groups) Join(ctx context.Context, account string, req wire.GroupRequest) (text string, err error) {
	group := req.GroupID
	text = fmt.Sprintf("Joined group '%s'", group)
	err = gs.store.Write(ctx, func(tx *store.Tx) error {
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
		_, err = tx.ExecContext(ctx, "UPDATE groups SET join_uses = join_uses + 1 WHERE id = ?", group)
		if err != nil {
			return fmt.Errorf("count join: %w", err)
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
	err = gs.store.Write(ctx, func(tx *store.Tx) error {
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
			return fault.New(wire.CodeConflict, "Group is not joinable (must be created with joinable=true): %q", group)
		}
		role := cmp.Or(req.Role, g.JoinRole)
		_, err = tx.ExecContext(ctx,
			"UPDATE groups SET join_expires = ?, join_max_uses = ?, join_uses = 0, join_role = ? WHERE id = ?",
			until, maxUses, string(role), group)
		if err != nil {
			return fmt.Errorf("open window: %w", err)
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
	err := gs.store.Write(ctx, func(tx *store.Tx) error {
		if _, err := requireOwner(ctx, tx, req.GroupID, account, "close join"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE groups SET join_expires = NULL WHERE id = ?", req.GroupID)
		if err != nil {
			return fmt.Errorf("close join: %w", err)
		}
		_, err = gs.ledger.Charge(ctx, tx, chain.KindCloseJoin,
			chain.Record{Kind: chain.KindCloseJoin, Account: account, Group: req.GroupID})
		return err
	})
	return fmt.Sprintf("Closed join window for group '%s'", req.GroupID), err
}

// View reads a group and the role of account in it, "" when it is not a member.
// Public.
func (gs *Groups) View(ctx context.Context, group, account string) (g Group, role wire.Role, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		g, role, err = GetFor(ctx, tx, group, account)
		return err
	})
	return g, role, err
}

// Listing is a list of groups, each with the role of the account in it, or of
// members, each with its role.
type Listing struct {
	Names []string
	Roles []wire.Role
	More  bool // the list continues after the page
}

// Add adds the next page.
func (l *Listing) Add(page Listing) {
	l.Names, l.Roles, l.More = append(l.Names, page.Names...), append(l.Roles, page.Roles...), page.More
}

// ofMember is the role in a row of members m with its group.
const ofMember = "CASE WHEN m.account = g.owner THEN '" + wire.RoleOwner + "' ELSE m.role END " +
	"FROM members m JOIN groups g ON g.id = m.group_id AND g.ended_ns IS NULL"

// selectOwned finds the groups that an account owns.
const selectOwned = "SELECT m.group_id, " + ofMember + " WHERE m.account = ? AND g.owner = m.account"

// Owned lists a page of the groups an account owns, in the order of their names. The
// query goes from the account to its groups: owners are members.
func (gs *Groups) Owned(ctx context.Context, account string, page wire.NamesRequest) (Listing, error) {
	return gs.page(ctx, page, selectOwned+" AND m.group_id > ? ORDER BY m.group_id LIMIT ?", account)
}

// Of lists a page of the groups an account belongs to, owned ones included, in the
// order of their names.
func (gs *Groups) Of(ctx context.Context, account string, page wire.NamesRequest) (Listing, error) {
	return gs.page(ctx, page, "SELECT m.group_id, "+ofMember+
		" WHERE m.account = ? AND m.group_id > ? ORDER BY m.group_id LIMIT ?", account)
}

// page reads one name more than the page holds, to learn whether the list continues.
func (gs *Groups) page(ctx context.Context, page wire.NamesRequest, query store.Query,
	account string) (list Listing, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		list, err = readListing(ctx, tx, query, account, page.After, page.Limit+1)
		return err
	})
	if list.More = len(list.Names) > page.Limit; list.More {
		list.Names, list.Roles = list.Names[:page.Limit], list.Roles[:page.Limit]
	}
	return list, err
}

// Members lists the members of a group, for a member, or for any caller when the group
// is open.
func (gs *Groups) Members(ctx context.Context, account string, req wire.GroupRequest) (list Listing, err error) {
	err = gs.store.Look(ctx, func(tx *store.Tx) error {
		if _, err := MayList(ctx, tx, req.GroupID, account); err != nil {
			return err
		}
		list, err = readListing(ctx, tx,
			"SELECT m.account, "+ofMember+" WHERE m.group_id = ? ORDER BY m.since", req.GroupID)
		return err
	})
	return list, err
}

// readListing runs a query for names and roles.
func readListing(ctx context.Context, tx *store.Tx, query store.Query, args ...any) (Listing, error) {
	list := Listing{Names: []string{}, Roles: []wire.Role{}}
	for rows, err := range tx.Rows(ctx, query, args...) {
		var name string
		var role wire.Role
		if err == nil {
			err = rows.Scan(&name, &role)
		}
		if err != nil {
			return list, fmt.Errorf("list: %w", err)
		}
		list.Names, list.Roles = append(list.Names, name), append(list.Roles, role)
	}
	return list, nil
}
