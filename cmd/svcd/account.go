package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

func newAccount(s *settings) *cobra.Command {
	cmd := &cobra.Command{Use: "account", Short: "Make and manage accounts", Args: noArgs,
		Example: "  svcd account create alice --data /var/lib/svcd --balance 10\n  svcd account list --data /var/lib/svcd",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(newAccountCreate(s), newAccountFund(s), newAccountTransfer(s), newAccountRotate(s), newAccountList(s), newAccountLink(s), newAccountIdentity(s),
		newAccountSwitch(s, false), newAccountSwitch(s, true))
	return cmd
}

func newAccountCreate(s *settings) *cobra.Command {
	var balance, keyPath string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an account and show its API key once", Args: oneArg("NAME"),
		Example: "  svcd account create alice --data ./data --balance 10\n  svcd account create alice --data ./data --api-key-file ~/alice.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := wire.ParseTokens(balance)
			if err != nil {
				return usageError{err}
			}
			return s.with(cmd.Context(), func(svc *service.Service) error {
				return s.makeKey(keyPath, false, func() (service.NewAccount, error) { return svc.CreateAccount(cmd.Context(), args[0], amount) })
			})
		},
	}
	cmd.Flags().StringVar(&keyPath, "api-key-file", "", "new file, mode 0600, that the key goes into instead of being shown")
	cmd.Flags().StringVar(&balance, "balance", "10", "tokens to start with")
	return cmd
}

// show prints an account with its key: beside a file of its own the one place where a key is revealed.
func (s *settings) show(a service.NewAccount, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(s.stdout).Encode(map[string]string{"account_id": a.AccountID, "api_key": a.APIKey.Reveal()})
}

func newAccountRotate(s *settings) *cobra.Command {
	var keyPath string
	cmd := &cobra.Command{
		Use: "rotate-key NAME", Short: "Replace the API key of an account; the old key ends at once", Args: oneArg("NAME"),
		Example: "  svcd account rotate-key alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			return s.makeKey(keyPath, true, func() (service.NewAccount, error) { return svc.RotateKey(ctx, args[0]) })
		}),
	}
	cmd.Flags().StringVar(&keyPath, "api-key-file", "", "file, mode 0600, that the key goes into instead of being shown; replaced when it is there")
	return cmd
}

// newAccountSwitch is disable, or enable.
func newAccountSwitch(s *settings, enable bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: "disable NAME", Short: "Refuse everything of an account: its key, tokens and page sessions", Args: oneArg("NAME"),
		Long: "Refuse everything of an account from now on: its key, session tokens, sign-in links and page sessions. Its groups, files and balance stay, and other\n" +
			"members go on reading. Nothing is lost: svcd account enable NAME lets it be used again, with the key it had; tokens and sessions are made anew.",
		Example: "  svcd account disable alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			do := svc.DisableAccount
			if enable {
				do = svc.EnableAccount
			}
			id, err := do(ctx, args[0])
			if err != nil {
				return err
			}
			return json.NewEncoder(s.stdout).Encode(map[string]any{"account_id": id, "disabled": !enable})
		}),
	}
	if enable {
		cmd.Use, cmd.Short, cmd.Long = "enable NAME", "Enable a disabled account again; its key stays the same", ""
		cmd.Example = "  svcd account enable alice --data ./data"
	}
	return cmd
}

func newAccountTransfer(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "transfer FROM TO TOKENS", Short: "Move tokens from one account to another, as a record of the ledger",
		Example: "  svcd account transfer alice bob 5 --data ./data",
		Args:    wantArgs(3, "want FROM, TO and TOKENS, for example: svcd account transfer alice bob 5"),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := wire.ParseTokens(args[2])
			if err != nil {
				return usageError{err}
			}
			return s.with(cmd.Context(), func(svc *service.Service) error {
				left, err := svc.Transfer(cmd.Context(), args[0], args[1], amount)
				if err != nil {
					return err
				}
				return json.NewEncoder(s.stdout).Encode(map[string]string{"balance": left.Tokens(), "balance_yocto": left.String()})
			})
		},
	}
}

func newAccountFund(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "fund NAME TOKENS", Short: "Add tokens to the balance of an account",
		Example: "  svcd account fund alice 5 --data ./data",
		Args:    wantArgs(2, "want NAME and TOKENS, for example: svcd account fund alice 5"),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := wire.ParseTokens(args[1])
			if err != nil {
				return usageError{err}
			}
			return s.with(cmd.Context(), func(svc *service.Service) error {
				balance, err := svc.Fund(cmd.Context(), args[0], amount)
				if err != nil {
					return err
				}
				return json.NewEncoder(s.stdout).Encode(map[string]string{"balance": balance.Tokens(), "balance_yocto": balance.String()})
			})
		},
	}
}

func newAccountList(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List accounts with their balances and the bytes kept for them", Args: noArgs,
		Example: "  svcd account list --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, _ []string) error {
			list, err := svc.Accounts(ctx)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
			for _, a := range list {
				disabled := ""
				if a.Disabled {
					disabled = "\tdisabled"
				}
				fmt.Fprintf(table, "%s\t%s\t%d bytes%s\n", printable(a.AccountID), a.Balance.Tokens(), a.Bytes, disabled)
			}
			return table.Flush()
		}),
	}
}

// printable is a name with what could confuse a terminal escaped.
func printable(name string) string {
	quoted := strconv.QuoteToGraphic(name)
	return quoted[1 : len(quoted)-1]
}
