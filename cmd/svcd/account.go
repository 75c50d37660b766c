package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

func newAccount(s *settings) *cobra.Command {
	cmd := &cobra.Command{Use: "account", Short: "Make and manage accounts", Args: noArgs,
		Example: "  svcd account create alice --data /var/lib/svcd --balance 10\n" +
			"  svcd account list --data /var/lib/svcd",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(newAccountCreate(s), newAccountFund(s), newAccountTransfer(s), newAccountRotate(s),
		newAccountList(s), newAccountLink(s), newAccountIdentity(s),
		newAccountDisable(s), newAccountEnable(s), newAccountHandOver(s), newAccountDelete(s))
	return cmd
}

func newAccountCreate(s *settings) *cobra.Command {
	var balance, keyPath string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an account and show its API key once", Args: oneArg("NAME"),
		Example: "  svcd account create alice --data ./data --balance 10\n" +
			"  svcd account create alice --data ./data --api-key-file ~/alice.key",
		PreRun: func(*cobra.Command, []string) { s.begins = true },
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := wire.ParseTokens(balance)
			if err != nil {
				return usage("use a number of tokens, such as 2.5", "%w", err)
			}
			return s.with(cmd.Context(), func(svc *service.Service) error {
				return s.makeKey(keyPath, false, func() (service.NewAccount, error) {
					return svc.CreateAccount(cmd.Context(), args[0], amount)
				})
			})
		},
	}
	cmd.Flags().StringVar(&keyPath, "api-key-file", "",
		"new file, mode 0600, that the key goes into instead of being shown")
	cmd.Flags().StringVar(&balance, "balance", "10", "tokens to start with")
	return cmd
}

func newAccountRotate(s *settings) *cobra.Command {
	var keyPath string
	cmd := &cobra.Command{
		Use: "rotate-key NAME", Short: "Replace the API key of an account; the old key ends at once",
		Args:    oneArg("NAME"),
		Example: "  svcd account rotate-key alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			return s.makeKey(keyPath, true, func() (service.NewAccount, error) { return svc.RotateKey(ctx, args[0]) })
		}),
	}
	cmd.Flags().StringVar(&keyPath, "api-key-file", "",
		"file, mode 0600, that the key goes into instead of being shown; replaced when it is there")
	return cmd
}

func newAccountDisable(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "disable NAME", Short: "Refuse everything of an account: its key, tokens and page sessions",
		Args: oneArg("NAME"),
		Long: "Refuse everything of an account from now on: its key, session tokens, sign-in links and page " +
			"sessions. Its groups, files and balance stay, and other\n" +
			"members go on reading. Nothing is lost: svcd account enable NAME lets it be used again, with the key it " +
			"had; tokens and sessions are made anew.\n" +
			"Nobody manages its groups meanwhile; svcd account hand-over offers them to a member.",
		Example: "  svcd account disable alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			id, err := svc.DisableAccount(ctx, args[0])
			if err != nil {
				return err
			}
			owns, err := svc.OwnedGroups(ctx, id)
			if err == nil && owns > 0 {
				fmt.Fprintf(s.stderr, "nobody manages its %d groups now: offer them to a member with: svcd account "+
					"hand-over %s MEMBER\n", owns, printable(args[0]))
			}
			return s.printState(id, true, err)
		}),
	}
}

func newAccountHandOver(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "hand-over NAME MEMBER", Short: "Offer the groups of a disabled account to a member",
		Long: "Offer every group that a disabled account owns to MEMBER, where MEMBER is a member of it. MEMBER " +
			"becomes the owner of each that it accepts within\n" +
			"7 days, with svcfs group accept GROUP or at its page. svcd account enable NAME takes the offers back. " +
			"MEMBER reads the\n" +
			"trash of the others then, sees who retrieved what, and may delete the files of others.",
		Example: "  svcd account hand-over alice bob --data ./data",
		Args:    wantArgs(2, "want NAME and MEMBER", "for example: svcd account hand-over alice bob"),
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			out, err := svc.OfferGroups(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return s.printJSON(out)
		}),
	}
}

func newAccountEnable(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "enable NAME", Short: "Enable a disabled account again; its key stays the same", Args: oneArg("NAME"),
		Example: "  svcd account enable alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			id, err := svc.EnableAccount(ctx, args[0])
			return s.printState(id, false, err)
		}),
	}
}

func newAccountDelete(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "End a disabled account for good; nobody gets its name again", Args: oneArg("NAME"),
		Long: "End a disabled account for good: its API key, the people who signed in to it, its membership in " +
			"groups, and its balance.\nThe files that it uploaded stay in their groups, and the ledger keeps its " +
			"records. Nobody gets the name again.\nAn account that owns groups is refused: svcd account hand-over " +
			"offers them to a member.",
		Example: "  svcd account delete alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			out, err := svc.DeleteAccount(ctx, args[0])
			if err != nil {
				return err
			}
			return s.printJSON(out)
		}),
	}
}

func (s *settings) printState(account string, disabled bool, err error) error {
	if err != nil {
		return err
	}
	return s.printJSON(map[string]any{"account_id": account, "disabled": disabled})
}

func newAccountTransfer(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "transfer FROM TO TOKENS", Short: "Move tokens from one account to another, as a record of the ledger",
		Example: "  svcd account transfer alice bob 5 --data ./data",
		Args:    wantArgs(3, "want FROM, TO and TOKENS", "for example: svcd account transfer alice bob 5"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.pay(cmd.Context(), args[2], func(svc *service.Service, amount wire.Amount) (wire.Amount, error) {
				return svc.Transfer(cmd.Context(), args[0], args[1], amount)
			})
		},
	}
}

func newAccountFund(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "fund NAME TOKENS", Short: "Add tokens to the balance of an account",
		Example: "  svcd account fund alice 5 --data ./data",
		Args:    wantArgs(2, "want NAME and TOKENS", "for example: svcd account fund alice 5"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.pay(cmd.Context(), args[1], func(svc *service.Service, amount wire.Amount) (wire.Amount, error) {
				return svc.Fund(cmd.Context(), args[0], amount)
			})
		},
	}
}

// pay moves a number of tokens and prints the balance that move returns.
func (s *settings) pay(ctx context.Context, tokens string,
	move func(*service.Service, wire.Amount) (wire.Amount, error)) error {
	amount, err := wire.ParseTokens(tokens)
	if err != nil {
		return usage("use a number of tokens, such as 2.5", "%w", err)
	}
	return s.with(ctx, func(svc *service.Service) error {
		balance, err := move(svc, amount)
		if err != nil {
			return err
		}
		return s.printJSON(map[string]string{"balance": balance.Tokens(), "balance_yocto": balance.String()})
	})
}

func newAccountList(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List accounts with their balances and the bytes kept for them", Args: noArgs,
		Example: "  svcd account list --data ./data\n  svcd account list --json --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, _ []string) error {
			list, err := svc.Accounts(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return s.printJSON(list)
			}
			table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
			for _, a := range list {
				disabled := ""
				if a.Disabled {
					disabled = "\tdisabled"
				}
				fmt.Fprintf(table, "%s\t%s\t%d bytes%s\n", printable(a.AccountID), a.Balance.Tokens(), a.Bytes,
					disabled)
			}
			return table.Flush()
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; balances are in yocto (10^-24 token)")
	return cmd
}

// printable is a name with what could confuse a terminal escaped.
func printable(name string) string {
	quoted := strconv.QuoteToGraphic(name)
	return quoted[1 : len(quoted)-1]
}

func newAccountIdentity(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "identity NAME ISSUER SUBJECT", Short: "Let a person at an OpenID Connect provider sign in to an account",
		Example: "  svcd account identity alice https://id.example.org 248289761001 --data ./data",
		Args:    wantArgs(3, "want NAME, ISSUER and SUBJECT", "the refused sign-in shows them"),
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			account, err := svc.AddIdentity(ctx, args[0], args[1], args[2])
			if err != nil {
				return err
			}
			fmt.Fprintln(s.stdout, account)
			return nil
		}),
	}
}

func newAccountLink(s *settings) *cobra.Command {
	var public string
	cmd := &cobra.Command{
		Use: "link NAME", Short: "Print an address that signs the account in at its page, once", Args: oneArg("NAME"),
		Example: "  svcd account link alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			link, err := svc.SignInLink(ctx, args[0], public)
			if err != nil {
				return err
			}
			fmt.Fprintln(s.stdout, link)
			fmt.Fprintf(s.stderr, "good once, for %d minutes: whoever opens it is signed in\n",
				int(service.LinkLifetime.Minutes()))
			return nil
		}),
	}
	cmd.Flags().StringVar(&public, "public-url", "", "address users open (default: where the service last served)")
	return cmd
}
