package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/fault"
)

func newInvite(s *settings) *cobra.Command {
	var balance, public string
	cmd := &cobra.Command{
		Use: "invite NAME", Short: "Print an invite: one string that makes account NAME, once, within 7 days",
		Args: oneArg("NAME"),
		Long: "Print an invite for a new user: the address of the service, the key of its log, and a secret that " +
			"makes " +
			"account NAME, once,\nwithin 7 days. The user gives it to: svcfs setup INVITE. The API key is made " +
			"there, and " +
			"nobody else sees it.\nWhoever has the invite first has the account: send it by a way that others do not " +
			"read.",
		Example: "  svcd invite alice --data ./data --balance 10\n  svcd invite list --data ./data\n" +
			"  svcd invite revoke 0f1e2d3c4b5a6978 --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			amount, err := wire.ParseTokens(balance)
			if err != nil {
				return usage("use a number of tokens, such as 2.5", "%w", err)
			}
			invited, invite, err := svc.Invite(ctx, args[0], amount, public)
			if err != nil {
				return err
			}
			fmt.Fprintln(s.stdout, invite.Text()) // shown here and nowhere else
			fmt.Fprintf(s.stderr, "good once, until %s: whoever has it makes account %s; take it back with: svcd "+
				"invite revoke %s%s\n", invited.Expires.Format(time.RFC3339), printable(invited.Account), invited.ID,
				s.given())
			return nil
		}),
	}
	cmd.Flags().StringVar(&balance, "balance", "10", "tokens that the account starts with")
	cmd.Flags().StringVar(&public, "public-url", "", "address users call (default: where the service last served)")
	cmd.AddCommand(newInviteList(s), newInviteRevoke(s))
	return cmd
}

func newInviteList(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the invites that can be redeemed, without their secrets", Args: noArgs,
		Example: "  svcd invite list --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, _ []string) error {
			list, err := svc.Invites(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return s.printJSON(list)
			}
			table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
			for _, i := range list {
				fmt.Fprintf(table, "%s\t%s\t%s\tuntil %s\n", i.ID, printable(i.Account), i.Balance.Tokens(),
					i.Expires.Format(time.RFC3339))
			}
			return table.Flush()
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newInviteRevoke(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Take an invite back", Args: oneArg("ID"),
		Example: "  svcd invite revoke 0f1e2d3c4b5a6978 --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			err := svc.RevokeInvite(ctx, args[0])
			if fault.Of(err).Code == wire.CodeInvite {
				return cli.Refuse(cli.ExitNotFound, "see the invites with: svcd invite list",
					fmt.Errorf("there is no invite %s: it was used or revoked, or is too old", printable(args[0])))
			}
			if err != nil {
				return err
			}
			return s.printJSON(map[string]any{"id": args[0], "revoked": true})
		}),
	}
}
