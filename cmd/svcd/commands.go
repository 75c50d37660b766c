package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/fault"
)

// Exit codes; those of svcfs that apply.
const (
	exitOK       = 0
	exitNotFound = 2
	exitUsage    = 3
	exitOther    = 6
)

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "svcd:", err)
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	switch fault.Of(err).Code {
	case wire.CodeAccountUnknown, wire.CodeFileNotFound:
		return exitNotFound
	case wire.CodeValidation:
		return exitUsage
	default:
		return exitOther
	}
}

// settings are the flags every command shares.
type settings struct {
	data     string
	database string
	contract string
	stdout   io.Writer
	stderr   io.Writer
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	s := &settings{stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use: "svcd", Short: "Self-hosted service for encrypted group files", Version: service.Version,
		SilenceUsage: true, SilenceErrors: true,
		Long:    "svcd stores encrypted files, keeps their keys, controls access by groups and records every action on a ledger.",
		Example: "  svcd serve --data /var/lib/svcd\n  svcd account create alice --data /var/lib/svcd --balance 10",
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&s.data, "data", "", "data directory (required)")
	root.PersistentFlags().StringVar(&s.database, "db", "", "PostgreSQL database, postgres://USER@HOST/DATABASE; the password in PGPASSWORD or a PGPASSFILE (default: SQLite in the data directory)")
	root.PersistentFlags().StringVar(&s.contract, "contract", service.DefaultContractID, "ledger contract id; account NAME is NAME.CONTRACT")
	root.AddCommand(newServe(s), newAccount(s), newAudit(s), newVerify(s))
	return root
}

// open opens the service for a command beside a running one, or for serving.
func (s *settings) open(ctx context.Context, publicURL string, maxFile int64, log *slog.Logger) (*service.Service, error) {
	if s.data == "" {
		return nil, usageError{errors.New("no data directory: give --data DIR")}
	}
	return service.Open(ctx, service.Config{DataDir: s.data, Database: s.database, PublicURL: publicURL, ContractID: s.contract, MaxFileBytes: maxFile, Logger: log})
}

// with runs f on the opened service. Unlike serve, other commands do not make a
// data directory by accident.
func (s *settings) with(ctx context.Context, f func(*service.Service) error) error {
	if s.data != "" {
		if _, err := os.Stat(s.data); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("look at data directory: %w", err)
		}
	}
	svc, err := s.open(ctx, "", 0, nil)
	if err != nil {
		return err
	}
	return errors.Join(f(svc), svc.Close())
}

func newServe(s *settings) *cobra.Command {
	var listen, public, level string
	var maxFile int64
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: noArgs,
		Example: "  svcd serve --data ./data\n  svcd serve --data /var/lib/svcd --listen 0.0.0.0:8000 --public-url https://files.example.org",
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := s.logger(level)
			if err != nil {
				return err
			}
			return s.serve(cmd.Context(), listen, public, maxFile, log)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8000", "address to listen on; port 0 takes a free one")
	cmd.Flags().StringVar(&public, "public-url", "", "address clients use (default: http:// and the address listened on)")
	cmd.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	cmd.Flags().Int64Var(&maxFile, "max-file-bytes", service.DefaultMaxFileBytes, "largest file accepted, in plaintext bytes")
	return cmd
}

func (s *settings) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", level)}
	}
	return slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: l})), nil
}

func (s *settings) serve(ctx context.Context, listen, public string, maxFile int64, log *slog.Logger) error {
	if s.data == "" {
		return usageError{errors.New("no data directory: give --data DIR")}
	}
	if err := harden(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	url := "http://" + l.Addr().String()
	if public != "" {
		url = public
	}
	svc, err := s.open(ctx, url, maxFile, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintln(s.stdout, "listening on", url)
	return errors.Join(svc.Serve(ctx, l), svc.Close())
}

func newAccount(s *settings) *cobra.Command {
	cmd := &cobra.Command{Use: "account", Short: "Make and manage accounts", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(newAccountCreate(s), newAccountFund(s), newAccountRotate(s), newAccountList(s))
	return cmd
}

func newAccountCreate(s *settings) *cobra.Command {
	var balance string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an account and show its API key, this once", Args: oneArg("NAME"),
		Example: "  svcd account create alice --data ./data --balance 10",
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := wire.ParseTokens(balance)
			if err != nil {
				return usageError{err}
			}
			return s.with(cmd.Context(), func(svc *service.Service) error {
				made, err := svc.CreateAccount(cmd.Context(), args[0], amount)
				return s.show(made, err)
			})
		},
	}
	cmd.Flags().StringVar(&balance, "balance", "10", "tokens to start with")
	return cmd
}

// show prints an account with its key: the one place where a key is revealed.
func (s *settings) show(a service.NewAccount, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(s.stdout).Encode(map[string]string{"account_id": a.AccountID, "api_key": a.APIKey.Reveal()})
}

func newAccountRotate(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-key NAME", Short: "Replace the API key of an account; the old one is dead at once", Args: oneArg("NAME"),
		Example: "  svcd account rotate-key alice --data ./data",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd.Context(), func(svc *service.Service) error {
				made, err := svc.RotateKey(cmd.Context(), args[0])
				return s.show(made, err)
			})
		},
	}
}

func newAccountFund(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "fund NAME TOKENS", Short: "Add tokens to the balance of an account",
		Example: "  svcd account fund alice 5 --data ./data",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{errors.New("want NAME and TOKENS, for example: svcd account fund alice 5")}
			}
			return nil
		},
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
		Use: "list", Short: "List accounts and balances", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), func(svc *service.Service) error {
				list, err := svc.Accounts(cmd.Context())
				if err != nil {
					return err
				}
				for _, a := range list {
					fmt.Fprintf(s.stdout, "%s\t%s\n", a.AccountID, a.Balance.Tokens())
				}
				return nil
			})
		},
	}
}

func newAudit(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Check the hash chain of the ledger; names the first bad row", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), func(svc *service.Service) error {
				n, err := svc.Audit(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Fprintf(s.stdout, "ledger: %d records, chain intact\n", n)
				return nil
			})
		},
	}
}

func newVerify(s *settings) *cobra.Command {
	var readData bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that every file can be served", Args: noArgs,
		Example: "  svcd verify --data ./data --read-data",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), func(svc *service.Service) error {
				bad := 0
				n, err := svc.Verify(cmd.Context(), readData, func(ref string, err error) {
					bad++
					fmt.Fprintf(s.stdout, "bad\t%s\t%v\n", ref, err)
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(s.stdout, "files: %d checked, %d bad\n", n, bad)
				if bad > 0 {
					return fmt.Errorf("%d files cannot be served as they were stored: restore %s from a backup", bad, filepath.Join(s.data, "blobs"))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&readData, "read-data", false, "read every byte and compare checksums")
	return cmd
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected %q: see --help", args[0])}
	}
	return nil
}

func oneArg(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("want exactly one %s: see --help", name)}
		}
		return nil
	}
}
