package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show the account, its balance and the service in use",
		Example: "  svcfs whoami\n  svcfs whoami --json",
		Args:    cobra.NoArgs,
		RunE: a.simple(func(ctx context.Context, _ []string) error {
			c, s, err := a.client(ctx)
			if err != nil {
				return err
			}
			return errors.Join(a.whoami(ctx, c, s.key), a.closeClient(c))
		}),
	}
}

func (a *app) whoami(ctx context.Context, c *sdk.Client, key keySource) error {
	status, err := c.AuthStatus(ctx)
	if err != nil {
		return err
	}
	balance, err := c.Balance(ctx, status.Account)
	if err != nil {
		return err
	}
	groups, err := c.Groups(ctx)
	if err != nil {
		return err
	}
	info := c.NetworkInfo()
	if a.asJSON {
		return a.printJSON(map[string]any{
			"account_id": status.Account, "balance": balance.Tokens(), "groups": len(groups), "network": info.Network,
			"api_key_from": key.String(), "contract_id": info.ContractID, "mcp_url": info.MCPURL,
			"auth_url": info.AuthURL, "rpc_url": info.RPCURL,
		})
	}
	a.printPairs([][2]string{
		{"account", escapeName(string(status.Account))},
		{"balance", balance.Tokens()},
		{"groups", itoa(len(groups))},
		{"API key", "given by " + escapeText(key.String())},
		{"network", info.Network + " (" + info.ContractID + ")"},
		{"service", info.MCPURL},
	}...)
	return nil
}

func (a *app) sealKeyCommand() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use:   "seal-key",
		Short: "Have the service take the API key from svcfs alone, sealed for its vault",
		Long: `svcfs sends the API key to a service with a vault sealed: only the vault reads it. Other
programs send it in the clear. After seal-key the service takes it sealed alone, so that whoever
took over the service, but not its vault, signs in with no key. Other programs and the account
page cannot sign in to the account any more: the command asks.

The operator undoes it with another key: svcd account rotate-key NAME.`,
		Example: "  svcfs seal-key",
		Args:    cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, _ []string) error {
			if err := a.mustAgree(ctx, sure, "Other programs and the account page cannot sign in to "+
				escapeName(string(c.Account()))+" any more, until the operator makes another API key."); err != nil {
				return err
			}
			if err := c.SealAPIKey(ctx); err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(map[string]any{"account_id": c.Account(), "sealed_only": true})
			}
			a.ui.printf("the service takes the API key of %s from svcfs alone now\n", escapeName(string(c.Account())))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return cmd
}

func (a *app) balanceCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "balance [ACCOUNT]",
		Short:   "Show the balance of an account in tokens; needs no key",
		Example: "  svcfs balance\n  svcfs balance bob.svc.testnet",
		Args:    between(0, 1, "at most one ACCOUNT"),
		RunE: a.withoutKey(func(ctx context.Context, c *sdk.Client, args []string) error {
			account := c.Account()
			if len(args) == 1 {
				account = sdk.AccountID(args[0])
			} else if account == anybody {
				return noAccount()
			}
			balance, err := c.Balance(ctx, account)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(map[string]any{"account_id": account, "balance": balance.Tokens(), "yocto": balance})
			}
			a.ui.printf("%s\n", balance.Tokens())
			return nil
		}),
		ValidArgsFunction: completeNothing,
	}
}

func (a *app) feeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "fee ACTION",
		Short: "Show what an action costs in tokens; needs no key",
		Long: "Show what an action costs in tokens. The actions:\n" + strings.Join(pricedActions(), " ") +
			"\nand whatever else the service knows.",
		Example: "  svcfs fee upload\n  svcfs fee register_group",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(`name one of: `+strings.Join(slices.Sorted(slices.Values(pricedActions())), " "),
					"svcfs fee wants one ACTION")
			}
			return exactly(1, "one ACTION")(cmd, args)
		},
		RunE: a.withoutKey(func(ctx context.Context, c *sdk.Client, args []string) error {
			fee, err := c.EstimateFee(ctx, args[0])
			if err != nil {
				return err
			}
			if fee.IsZero() {
				if err := mustBeAction(ctx, c, args[0]); err != nil {
					return err
				}
			}
			if a.asJSON {
				return a.printJSON(map[string]any{"action": args[0], "fee": fee.Tokens(), "yocto": fee})
			}
			a.ui.printf("%s\n", fee.Tokens())
			return nil
		}),
		ValidArgsFunction: completeWords(pricedActions()...),
	}
}

// pricedActions are the actions that a ledger has or may have a price for.
func pricedActions() []string {
	return []string{"upload", "retrieve", "register_group", "add_group_member", "revoke_group_member", "join_group",
		"record_transaction", "claim_token", "open_hackathon_join", "close_hackathon_join", "set_group_retention",
		"get_owned_groups", "get_member_groups", "get_group_members", "get_transactions_for_group",
		"tombstone_transaction", "rename_file",
		"set_member_role", "pend_destruction", "keep_files", "remove_file", "restore_file", "set_group_trash",
		"set_attributes", "set_group_versions",
		"set_group_format", "set_group_appends", "set_group_keys", "offer_group", "accept_group", "delete_group"}
}

// mustBeAction refuses an unknown action: the ledger answers 0 for it, as for a free
// one.
func mustBeAction(ctx context.Context, c *sdk.Client, action string) error {
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return err
	}
	known := pricedActions()
	for name := range caps.Fees {
		known = append(known, name)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if slices.Contains(known, action) {
		return nil
	}
	return usage("known actions: "+strings.Join(known, " "), fmt.Sprintf("unknown action %q", action))
}
