// Package groups holds the rules of membership: owners, members, roles, and the right to
// change them. Every change is one transaction with its ledger record and fee.
package groups

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// MaxMembers and MaxInvites bound one group.
const (
	MaxMembers = 10_000
	MaxInvites = 1_000 // that are good and were not used
)

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
	if id == "" || len(id) > wire.MaxGroupIDBytes || !utf8.ValidString(id) {
		return fault.New(wire.CodeValidation, "Required: group_id, 1 to %d bytes of UTF-8", wire.MaxGroupIDBytes)
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

	wire.GroupSettings // none is left out

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
	"pending_retention, pending_retention_ns, versions, pending_versions, pending_versions_ns, format, appends, " +
	"keys, offer_to, offer_from_ns, offer_until_ns, pending_end_ns, ended_ns"

// fields are where groupColumns go.
func (g *Group) fields() []any {
	return []any{&g.Owner, &g.Joinable, &g.JoinExpires, &g.JoinMaxUses, &g.JoinUses, &g.RetentionDays, &g.KeyVersion,
		&g.JoinRole, &g.TrashDays, &g.TrashWho,
		&g.PendingDays, &g.PendingUntil, &g.Versions, &g.PendingVersions, &g.PendingVersionsUntil,
		&g.Format, &g.Appends, &g.Keys,
		&g.OfferTo, &g.OfferFrom, &g.OfferUntil, &g.PendingEnd, &g.Ended}
}

// read scans groupColumns, and the further columns of the query into more. It refuses a group that has ended.
func (g *Group) read(row store.Row, more ...any) error {
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

// AskFor is what [GetFor] asks.
func AskFor(id, account string) store.Ask {
	return store.Ask{Query: "SELECT " + groupColumns + ", " + roleColumn + " FROM groups WHERE id = ?",
		Args: []any{account, id}}
}

// GetFor reads a group inside a transaction, and the role of account in it, "" when
// it is not a member.
func GetFor(ctx context.Context, tx *store.Tx, id, account string) (g Group, role wire.Role, err error) {
	g.ID = id
	err = g.read(tx.Ask(ctx, AskFor(id, account)), &role)
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
			"User not authorized: Only group owner can %s", action)
	}
	return g, nil
}

// asOwner runs f in a transaction for the owner of a group, and refuses the action of anybody else.
func (gs *Groups) asOwner(ctx context.Context, account, group, action string,
	f func(tx *store.Tx, g Group) error) error {
	return gs.asOwnerOf(ctx, ledger.In(group, account), account, group, action, f)
}

// asOwnerOf is asOwner for a write of more chains.
func (gs *Groups) asOwnerOf(ctx context.Context, chains store.Chains, account, group, action string,
	f func(tx *store.Tx, g Group) error) error {
	return gs.store.Write(ctx, chains, func(tx *store.Tx) error {
		g, err := requireOwner(ctx, tx, group, account, action)
		if err != nil {
			return err
		}
		return f(tx, g)
	})
}

// Register creates a group; the caller becomes owner and first member.
func (gs *Groups) Register(ctx context.Context, account, id string, joinable bool) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	err := gs.store.Write(ctx, ledger.In(id, account), func(tx *store.Tx) error {
		return gs.register(ctx, tx, account, id, joinable)
	})
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
	err = tx.Do(ctx, "insert group", "INSERT INTO groups (id, owner, joinable, key_version) VALUES (?, ?, ?, 1)", id,
		account, joinable)
	if err != nil {
		return err
	}
	return insertMember(ctx, tx, id, account, wire.RoleWriter, r.Seq)
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
