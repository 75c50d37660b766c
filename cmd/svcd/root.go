package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
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
	case wire.CodeAccountUnknown, wire.CodeGroupNotFound, wire.CodeFileNotFound:
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
	blobs    string
	contract string
	refs     string // of new files; "" = bafy
	gateway  string
	oidc     oidcSettings
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
	root.PersistentFlags().StringVar(&s.blobs, "blobs", os.Getenv("SVCD_BLOBS"), "where ciphertext is kept: a directory, or s3://BUCKET[/PREFIX]?endpoint=URL&region=NAME&path-style=true; "+
		"credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_SHARED_CREDENTIALS_FILE; also SVCD_BLOBS (default: blobs in the data directory)")
	root.PersistentFlags().StringVar(&s.contract, "contract", service.DefaultContractID, "ledger contract id; account NAME is NAME.CONTRACT")
	root.AddCommand(newServe(s), newAccount(s), newAudit(s), newVerify(s), newChecksum(s), newRetention(s), newImportLegacy(s))
	return root
}

// open opens the service for a command beside a running one, or for serving.
func (s *settings) open(ctx context.Context, publicURL string, maxFile int64, log *slog.Logger) (*service.Service, error) {
	if s.data == "" {
		return nil, usageError{errors.New("no data directory: give --data DIR")}
	}
	oidc, err := s.oidc.config()
	if err != nil {
		return nil, err
	}
	return service.Open(ctx, service.Config{DataDir: s.data, Database: s.database, Blobs: s.blobs, PublicURL: publicURL, ContractID: s.contract,
		MaxFileBytes: maxFile, OIDC: oidc, PlainRefs: s.refs == refsPlain, Gateway: s.gateway, Logger: log})
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
