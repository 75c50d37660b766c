package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

func itoa(n int) string { return strconv.Itoa(n) }

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
	cmd.AddCommand(a.groupCreateCommand(), a.groupMemberCommand(true), a.groupMemberCommand(false), a.groupMembersCommand(), a.groupListCommand(),
		a.groupJoinCommand(), a.groupOpenCommand(), a.groupCloseCommand(), a.groupRetentionCommand())
	return cmd
}

// groupMemberCommand is add, or revoke.
func (a *app) groupMemberCommand(add bool) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "add GROUP ACCOUNT",
		Short:   "Add a member to a group this account owns; costs one membership change",
		Example: "  svcfs group add team bob.svc.testnet",
		Args:    exactly(2, "a GROUP and an ACCOUNT"),

		ValidArgsFunction: a.completeGroup,
	}
	if !add {
		cmd.ValidArgsFunction = a.completeGroupThenMember
		cmd.Use, cmd.Example = "revoke GROUP ACCOUNT", "  svcfs group revoke team bob.svc.testnet"
		cmd.Short = "Remove a member; the group key is rotated"
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
		change := c.RevokeGroupMember
		if add {
			change = c.AddGroupMember
		}
		message, err := change(ctx, sdk.GroupID(args[0]), sdk.AccountID(args[1]))
		if err != nil {
			return err
		}
		return a.printMessage(asJSON, groupChange{Group: args[0], Member: args[1], Message: message})
	})
	addJSON(cmd, &asJSON)
	return cmd
}

// groupChange is the answer to a change of a group, in JSON output.
type groupChange struct {
	Group   string     `json:"group_id"`
	Member  string     `json:"member_id,omitempty"`
	Until   *time.Time `json:"open_until,omitempty"`
	Uses    int64      `json:"open_uses,omitempty"`
	Days    *int64     `json:"retention_days,omitempty"`
	Message string     `json:"message"` // of the service
}

// printMessage prints what the service said to a change.
func (a *app) printMessage(asJSON bool, change groupChange) error {
	if asJSON {
		return a.printJSON(change)
	}
	a.ui.printf("%s\n", escapeText(change.Message))
	if change.Until != nil {
		a.ui.printf("open until %s\n", timeText(*change.Until))
	}
	return nil
}

func (a *app) groupJoinCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "join GROUP",
		Short:   "Join a group that is open to everybody; joining twice is fine",
		Example: "  svcfs group join submissions",
		Args:    exactly(1, "one GROUP"),

		ValidArgsFunction: completeNothing,
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			message, err := c.JoinGroup(ctx, sdk.GroupID(args[0]))
			if err != nil {
				return err
			}
			return a.printMessage(asJSON, groupChange{Group: args[0], Member: string(c.Account()), Message: message})
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func (a *app) groupRetentionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "retention GROUP DAYS|none",
		Short:   "Let files of a group be destroyed after so many days, 0 at once, or never",
		Example: "  svcfs group retention team 90\n  svcfs group retention team none",
		Args:    exactly(2, "a GROUP and DAYS or none"),

		ValidArgsFunction: a.completeGroup,
		RunE: a.simple(func(ctx context.Context, args []string) error {
			var days *int64
			if args[1] != "none" {
				n, err := strconv.ParseInt(args[1], 10, 64)
				if err != nil || n < 0 {
					return usage("give a number of days, or none", "retention "+strconv.Quote(args[1]))
				}
				days = &n
			}
			c, _, err := a.client(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			message, err := c.SetGroupRetention(ctx, sdk.GroupID(args[0]), days)
			if err != nil {
				return err
			}
			return a.printMessage(asJSON, groupChange{Group: args[0], Days: days, Message: message})
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func (a *app) groupMembersCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "members GROUP",
		ValidArgsFunction: a.completeGroup,
		Short:             "List the members of a group",
		Example:           "  svcfs group members team\n  svcfs group members team --json",
		Args:              exactly(1, "one GROUP"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			members, err := c.GroupMembers(ctx, sdk.GroupID(args[0]))
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(notNil(members))
			}
			for _, m := range members {
				a.ui.printf("%s\n", escapeName(string(m)))
			}
			return nil
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func (a *app) groupListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the groups this account owns or belongs to",
		Example: "  svcfs group list",
		Args:    cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, _ []string) error {
			return a.listGroups(ctx, c, true, asJSON)
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// listedGroup is a group in JSON output.
type listedGroup struct {
	ID    sdk.GroupID `json:"group_id"`
	Owned bool        `json:"owned"`
}

func (a *app) listGroups(ctx context.Context, c *sdk.Client, long, asJSON bool) error {
	groups, err := c.Groups(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		list := make([]listedGroup, 0, len(groups))
		for _, g := range groups {
			list = append(list, listedGroup{g.ID, g.Owned})
		}
		return a.printJSON(list)
	}
	var rows [][]string
	for _, g := range groups {
		role := "member"
		if g.Owned {
			role = "owner"
		}
		row := []string{escapeName(string(g.ID))}
		if long {
			row = []string{role, escapeName(string(g.ID))}
		}
		rows = append(rows, row)
	}
	a.printTable(rows)
	return nil
}

// notNil makes an absent list an empty one, for JSON.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
