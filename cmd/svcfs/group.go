package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

func (a *app) groupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "group",
		Short:   "Create groups and manage their members",
		Example: "  svcfs group create team\n  svcfs group add team bob.svc.testnet\n  svcfs group members team",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usage("run 'svcfs help group' for its commands", "svcfs group wants a command")
		},
	}
	cmd.AddCommand(a.groupCreateCommand(), a.groupAddCommand(), a.groupRevokeCommand(), a.groupMembersCommand(),
		a.groupListCommand(),
		a.groupInviteCommand(), a.groupJoinCommand(), a.groupOpenCommand(), a.groupCloseCommand(),
		a.groupConfigCommand(),
		a.groupPendingCommand(), a.groupKeepCommand(),
		a.groupLeaveCommand(), a.groupHandOverCommand(), a.groupAcceptCommand(), a.groupDeleteCommand())
	return cmd
}

func (a *app) groupAddCommand() *cobra.Command {
	var role sdk.Role
	var unknown bool
	cmd := &cobra.Command{
		Use:   "add GROUP ACCOUNT",
		Short: "Add a member to a group this account owns, or change its role",
		Long: `Add a member to a group this account owns; costs one membership change. A member
is a writer, who uploads files and renames and removes its own. With --role
reader the member only reads. --role also changes the role of a present member,
which is free; without --role a present member keeps the role. An account that does not
exist is refused: with --unknown it is added, and whoever gets that name reads the group.`,
		Example: "  svcfs group add team bob.svc.testnet\n  svcfs group add team carol.svc.testnet --role reader",
		Args:    exactly(2, "a GROUP and an ACCOUNT"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			if !unknown {
				if err := mustExist(ctx, c, sdk.AccountID(args[1])); err != nil {
					return err
				}
			}
			done, err := c.Group(sdk.GroupID(args[0])).Add(ctx, sdk.AccountID(args[1]), role)
			if err != nil {
				return err
			}
			if done.Nobody {
				a.ui.notice("warning: nobody is called %s here yet, and whoever gets that account reads this group; "+
					"if the name is wrong: svcfs group revoke %s %s",
					args[1], shellWord(escapeName(args[0])), shellWord(args[1]))
			}
			return a.printMessage(groupChange{Group: args[0], Member: args[1], Role: role, Nobody: done.Nobody,
				Message: done.Message})
		}),
		ValidArgsFunction: a.completeGroup,
	}
	addRole(cmd, &role, "what the member may do: reader or writer")
	cmd.Flags().BoolVar(&unknown, "unknown", false, "also add an account that does not exist yet")
	return cmd
}

// mustExist refuses an account that the service says does not exist. Free.
func mustExist(ctx context.Context, c *sdk.Client, account sdk.AccountID) error {
	whole := account
	if contract := c.NetworkInfo().ContractID; !strings.Contains(string(account), ".") {
		whole += sdk.AccountID("." + contract) // as the service completes it
	}
	_, err := c.Balance(ctx, whole)
	if sdk.KindOf(err) != sdk.ErrNotFound {
		return nil // it exists, or the service does not tell
	}
	return refuse(exitNotFound, "correct the name (the GROUP comes before other arguments); to add it before it "+
		"exists: --unknown", fmt.Errorf("nobody is called %s here", escapeName(string(account))))
}

func (a *app) groupRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke GROUP ACCOUNT",
		Short:   "Remove a member; the group key is rotated",
		Example: "  svcfs group revoke team bob.svc.testnet",
		Args:    exactly(2, "a GROUP and an ACCOUNT"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			done, err := g.Revoke(ctx, sdk.AccountID(args[1]))
			if err != nil {
				return orNoMember(ctx, g, args[1], err)
			}
			return a.printMessage(groupChange{Group: args[0], Member: args[1], Message: done.Message})
		}),
		ValidArgsFunction: a.completeGroupThen(a.completeMember),
	}
}

// orNoMember is err, or "not found" where it is about an account that is no member.
func orNoMember(ctx context.Context, g sdk.Group, account string, err error) error {
	if sdk.KindOf(err) != sdk.ErrConflict {
		return err
	}
	members, failed := g.Members(ctx)
	if failed != nil || slices.ContainsFunc(members, func(m sdk.Member) bool {
		return string(m.ID) == account || nameOf(m.ID) == account
	}) {
		return err
	}
	group := escapeName(string(g.ID))
	return refuse(exitNotFound, "see the members with: svcfs group members "+shellWord(group),
		fmt.Errorf("%s is no member of group %s", escapeName(account), group))
}

// nameOf is what stands before the first dot of an account.
func nameOf(account sdk.AccountID) string {
	name, _, _ := strings.Cut(string(account), ".")
	return name
}

// addRole adds a flag that names a role.
func addRole(cmd *cobra.Command, role *sdk.Role, does string) {
	cmd.Flags().Var((*roleFlag)(role), "role", does)
	roles := []string{string(sdk.RoleReader), string(sdk.RoleWriter)}
	complete := cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("role", complete) // the flag exists
}

// roleFlag is a role that somebody can be given.
type roleFlag sdk.Role

func (r *roleFlag) String() string { return string(*r) }

// Type names the value in help texts.
func (r *roleFlag) Type() string { return "ROLE" }

// Set takes reader or writer.
func (r *roleFlag) Set(text string) error {
	if role := sdk.Role(text); role != sdk.RoleReader && role != sdk.RoleWriter {
		return errors.New("want reader or writer")
	}
	*r = roleFlag(text)
	return nil
}

// groupChange is the answer to a change of a group, in JSON output.
type groupChange struct {
	Group   string     `json:"group_id"`
	Member  string     `json:"member_id,omitempty"`
	Role    sdk.Role   `json:"role,omitempty"`   // that was asked for
	Nobody  bool       `json:"nobody,omitempty"` // the service has no such account
	Until   *time.Time `json:"open_until,omitempty"`
	Uses    int64      `json:"open_uses,omitempty"`
	Setting string     `json:"setting,omitempty"`
	Value   string     `json:"value,omitempty"` // that was asked for
	Would   *thinning  `json:"would,omitempty"`
	Saved   []string   `json:"saved_anew,omitempty"` // names
	Message string     `json:"message"`              // of the service
}

// printMessage prints what the service said to a change.
func (a *app) printMessage(change groupChange) error {
	if a.asJSON {
		return a.printJSON(change)
	}
	if change.Message != "" { // a dry run has none
		a.ui.printf("%s\n", escapeText(change.Message))
	}
	if change.Until != nil {
		a.ui.printf("open until %s\n", timeText(*change.Until))
	}
	return nil
}

func (a *app) groupJoinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "join [GROUP|INVITE]",
		Short: "Join a group that is open to everybody, or by an invite of its owner",
		Long: `Join a group that is open to everybody; joining twice is fine. Or join by an invite that the owner
of a group made with 'svcfs group invite': it works once, and at the service that it names alone.
Without an argument the command asks for the invite, which the terminal does not show, or reads it
from standard input: other users of this machine may see the arguments of a command.`,
		Example: "  svcfs group join submissions\n  svcfs group join\n  svcfs group join < invite",
		Args:    between(0, 1, "at most one GROUP or INVITE"),

		ValidArgsFunction: completeNothing,
		RunE: a.changeGroups(func(ctx context.Context, c *sdk.Client, args []string) error {
			if len(args) == 0 {
				invite, err := a.askInvite(ctx)
				if err != nil {
					return err
				}
				return a.joinBy(ctx, c, invite.Reveal())
			}
			if wire.IsInvite(args[0]) {
				return a.joinBy(ctx, c, args[0])
			}
			change, err := c.Group(sdk.GroupID(args[0])).Join(ctx)
			if refused := (*sdk.Error)(nil); errors.As(err, &refused) && refused.Code == wire.CodeGroupNotFound {
				return refuse(exitCodeOf(err), "check the name, or ask the owner of the group for an invite", err)
			}
			if err != nil {
				return err
			}
			return a.printMessage(groupChange{Group: args[0], Member: string(c.Account()), Message: change.Message})
		}),
	}
}

func (a *app) groupMembersCommand() *cobra.Command {
	var roles bool
	cmd := &cobra.Command{
		Use:               "members GROUP",
		ValidArgsFunction: a.completeGroup,
		Short:             "List the members of a group and their roles",
		Example: "  svcfs group members team\n  svcfs group members team --json --roles\n" +
			"  svcfs group members --notify ~/groups/team",
		Args: exactly(1, "one GROUP"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			members, err := g.Members(ctx)
			if err != nil {
				return err
			}
			if a.asJSON && roles {
				return a.printJSON(each(members, func(m sdk.Member) listedMember { return listedMember{m.ID, m.Role} }))
			}
			if a.asJSON {
				return a.printJSON(each(members, func(m sdk.Member) sdk.AccountID { return m.ID }))
			}
			var rows [][]string
			for _, m := range members {
				row := []string{escapeName(string(m.ID))}
				if m.Role != "" {
					row = append(row, escapeName(string(m.Role)))
				}
				rows = append(rows, row)
			}
			a.printTable(rows)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&roles, "roles", false, "with --json: objects with account and role, not names alone")
	return a.offerNotify(cmd, answerMembers)
}

// listedMember is a member in JSON output.
type listedMember struct {
	Account sdk.AccountID `json:"account_id"`
	Role    sdk.Role      `json:"role,omitempty"`
}

func (a *app) groupListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the groups of this account, with its role, the owner and how long files are kept",
		Example: "  svcfs group list",
		Args:    cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, _ []string) error {
			return a.listGroups(ctx, c, true)
		}),
	}
}

// listedGroup is a group in JSON output.
type listedGroup struct {
	ID    sdk.GroupID   `json:"group_id"`
	Owned bool          `json:"owned"`
	Role  sdk.Role      `json:"role,omitempty"`
	Owner sdk.AccountID `json:"owner,omitempty"` // where the service tells

	Retention *int64 `json:"retention_days,omitempty"`
	Versions  string `json:"versions,omitempty"` // which versions are kept, "" = all
	Pending   bool   `json:"pending,omitempty"`  // something waits to be destroyed

	OfferedTo sdk.AccountID `json:"offered_to,omitempty"` // the member that may become its owner

	keep wire.Keep
}

// keeping tells how long a group keeps files, "" for ever.
func (g listedGroup) keeping() string {
	var parts []string
	if g.Retention != nil {
		parts = append(parts, "keeps files "+plural(int(*g.Retention), "day"))
	}
	if g.Versions != "" {
		parts = append(parts, "keeps "+keepText(g.keep))
	}
	if g.Pending {
		parts = append(parts, "destruction waits: svcfs group pending "+shellWord(string(g.ID)))
	}
	if g.OfferedTo != "" {
		parts = append(parts, "offered to "+escapeName(string(g.OfferedTo)))
	}
	return strings.Join(parts, "; ")
}

// listGroups lists groups; long, and JSON, also tell role and owner of each.
func (a *app) listGroups(ctx context.Context, c *sdk.Client, long bool) error {
	groups, err := c.Groups(ctx)
	if err != nil {
		return err
	}
	list := make([]listedGroup, 0, len(groups))
	ask := func(ctx context.Context, i int) (listedGroup, error) {
		return describe(ctx, c, groups[i], long || a.asJSON), ctx.Err()
	}
	if err := inOrder(ctx, groupJobs, len(groups), ask,
		func(g listedGroup) error { list = append(list, g); return nil }); err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(list)
	}
	var rows [][]string
	for i, g := range list {
		row := []string{escapeName(string(g.ID))}
		if long {
			row = []string{roleText(groups[i]), escapeName(string(g.ID)), cmp.Or(escapeName(string(g.Owner)), "-")}
			if keeping := g.keeping(); keeping != "" {
				row = append(row, keeping)
			}
		}
		rows = append(rows, row)
	}
	a.printTable(rows)
	return nil
}

// manyVersions is how many older versions of a group go in a day without a warning.
const manyVersions = 100

// groupJobs is how many groups are asked about at a time.
const groupJobs = 8

// describe tells of a group; long also its owner, who is asked for unless it is the
// caller, how long it keeps files, and whether any wait to be destroyed. What the
// service does not tell is left out.
func describe(ctx context.Context, c *sdk.Client, g sdk.Group, long bool) listedGroup {
	l := listedGroup{ID: g.ID, Owned: g.Owned, Role: g.Role}
	if !long {
		return l
	}
	if l.Owner = c.Account(); !g.Owned {
		l.Owner, _ = g.Owner(ctx)
	}
	if days, set, err := g.Settings().Retention(ctx); err == nil && set {
		l.Retention = &days
	}
	if kept, err := g.Settings().Versions(ctx); err == nil && !kept.Keep.KeepsAll() {
		l.keep, l.Versions = kept.Keep, kept.Keep.String()
	}
	waits, err := g.Settings().Pending(ctx)
	l.Pending = err == nil && (!waits.GroupAt.IsZero() || !waits.RetentionAt.IsZero() || waits.Files > 0 ||
		!waits.VersionsAt.IsZero() || waits.Versions > manyVersions)
	l.OfferedTo = waits.OfferedTo
	return l
}

// roleText is the role of this account in a group, also where the service has none.
func roleText(g sdk.Group) string {
	switch {
	case g.Role != "":
		return escapeName(string(g.Role))
	case g.Owned:
		return string(sdk.RoleOwner)
	default:
		return "member"
	}
}

// groupChangeCommand changes a group and prints what the service said.
func (a *app) groupChangeCommand(use, short, example string,
	change func(sdk.Group, context.Context) (sdk.Change, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: exactly(1, "one GROUP"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			done, err := change(g, ctx)
			if err != nil {
				return err
			}
			return a.printMessage(groupChange{Group: args[0], Message: done.Message})
		}),
		ValidArgsFunction: a.completeGroup,
	}
}
