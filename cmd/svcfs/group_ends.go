package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk"
)

func (a *app) groupLeaveCommand() *cobra.Command {
	var sure bool
	cmd := a.groupEndCommand(&sure, "Leave this group? Only its owner can add you again.", sdk.Group.Leave)
	cmd.Use, cmd.Short = "leave GROUP", "Leave a group; only its owner can add this account again"
	cmd.Long = `Leave a group: this account reads nothing of it any more, and a mount shows it no longer. It is
free. Files that this account uploaded stay in the group. Only the owner can add the account
again, also to an open group. The owner of a group cannot leave it: see 'svcfs group hand-over'
and 'svcfs group delete'. It asks first; --yes answers.`
	cmd.Example = "  svcfs group leave team"
	return cmd
}

func (a *app) groupDeleteCommand() *cobra.Command {
	var sure bool
	cmd := a.groupEndCommand(&sure, "Delete the group with all its files, for every member?", sdk.Group.DeleteGroup)
	cmd.Use, cmd.Short = "delete GROUP", "Delete a group that this account owns, with all its files, for every member"
	cmd.Long = `Delete a group that this account owns: the keys of all its files are destroyed, also of those
in the trash, and no group ever gets its name again. Where the service delays destruction, it
waits, members are told, and 'svcfs group keep' takes it back until then: see 'svcfs group
pending'. It asks first; --yes answers.`
	cmd.Example = "  svcfs group delete team\n  svcfs group keep team"
	return cmd
}

// groupEndCommand is a change of a group that asks first.
func (a *app) groupEndCommand(sure *bool, question string,
	change func(sdk.Group, context.Context) (sdk.Change, error)) *cobra.Command {
	cmd := a.groupChangeCommand("", "", "", func(g sdk.Group, ctx context.Context) (sdk.Change, error) {
		if err := a.mustAgree(ctx, *sure, question); err != nil {
			return sdk.Change{}, err
		}
		return change(g, ctx)
	})
	cmd.Flags().BoolVarP(sure, "yes", "y", false, "do not ask")
	return cmd
}

// offerNobody stands for the account of 'group hand-over' that takes an offer back.
const offerNobody = "none"

func (a *app) groupHandOverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hand-over GROUP ACCOUNT|none",
		Short: "Offer a group that this account owns to a member, who becomes its owner by accepting",
		Long: `Offer a group that this account owns to a member. The member becomes the owner with 'svcfs
group accept', within 7 days; this account stays a member, a writer. Where the service delays
destruction, an offer waits so long before it can be accepted. none takes an offer back.`,
		Example: "  svcfs group hand-over team bob.svc.testnet\n  svcfs group hand-over team none",
		Args:    exactly(2, "a GROUP, and an ACCOUNT or none"),
		PreRunE: first(func(args []string) error {
			if args[1] == "" { // an empty variable of a script, not a wish
				return usage("name the member, or give none to take an offer back", "ACCOUNT is empty")
			}
			return nil
		}),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			member := args[1]
			if member == offerNobody {
				member = ""
			}
			done, err := g.Offer(ctx, sdk.AccountID(member))
			if err != nil {
				return err
			}
			return a.printMessage(groupChange{Group: args[0], Member: member, Message: done.Message})
		}),
		ValidArgsFunction: a.completeGroupThen(a.completeMember),
	}
}

func (a *app) groupAcceptCommand() *cobra.Command {
	return a.groupChangeCommand("accept GROUP", "Become the owner of a group that is offered to this account",
		"  svcfs group accept team", sdk.Group.Accept)
}
