package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
)

// The exit codes of svcfs that apply.
const (
	exitOK       = int(cli.ExitOK)
	exitNotFound = int(cli.ExitNotFound)
	exitUsage    = int(cli.ExitUsage)
	exitOther    = int(cli.ExitOther)
)

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if _, _, unknown := root.Find(args); unknown != nil {
		err = usageError{err}
	}
	fmt.Fprintln(stderr, "svcd:", err)
	if mend := ownfile.MendOf(err); mend != "" {
		fmt.Fprintln(stderr, "do:", mend)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	if errors.As(err, &usage) {
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

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	s := &settings{stdout: stdout, stderr: stderr, lookupEnv: os.LookupEnv}
	root := &cobra.Command{
		Use: "svcd", Short: "Self-hosted service for encrypted group files", Version: service.Version,
		SilenceUsage: true, SilenceErrors: true,
		Long:    "svcd stores encrypted files, keeps their keys, controls access by groups and records every action on a ledger.",
		Example: "  svcd serve --data /var/lib/svcd\n  svcd account create alice --data /var/lib/svcd --balance 10 --api-key-file alice.key",
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := confine.Harden(); err != nil { // before a key is read
				return err
			}
			cmd.SetContext(ledger.WithRequestID(cmd.Context(), ledger.NewRequestID("operator-")))
			return s.resolve(cmd)
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	s.register(root.PersistentFlags())
	root.AddCommand(newServe(s), newAccount(s), newAudit(s), newWitness(s), newVerify(s), newChecksum(s), newRotateMasterKey(s), newRotateLogKey(s), newRotateTokenKey(s), newRotateUploadKey(s), newRetention(s), newImportLegacy(s),
		newConfig(s), newExport(s), newImport(s), newDoctor(s), newWhere(s), newMan())
	cli.OfferNoFiles(root, "DIR", "FILE")
	return root
}

// with opens the service, also beside a running one, and runs f. Only serve makes a
// data directory.
func (s *settings) with(ctx context.Context, f func(*service.Service) error) error {
	if err := s.needData(); err != nil {
		return err
	}
	if err := s.needTLS(); err != nil {
		return err
	}
	if _, err := os.Stat(s.cfg.DataDir); err != nil {
		return fmt.Errorf("look at data directory: %w; svcd serve --data DIR makes one", err)
	}
	cfg := s.cfg
	cfg.MasterKey = s.masterKey()
	svc, err := service.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(f(svc), svc.Close())
}

// run is the code of a command that needs the opened service.
func (s *settings) run(f func(ctx context.Context, svc *service.Service, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return s.with(cmd.Context(), func(svc *service.Service) error { return f(cmd.Context(), svc, args) })
	}
}

func (s *settings) needData() error {
	if s.cfg.DataDir == "" {
		return usageError{errors.New("no data directory: give --data DIR, set SVCD_DATA, or write data = \"DIR\" into the file that --config names")}
	}
	return nil
}

func (s *settings) printJSON(v any) error { return json.NewEncoder(s.stdout).Encode(v) }

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.HasSubCommands() {
		if near := cli.NearestCommand(cmd, args[0]); near != "" {
			return usageError{fmt.Errorf("unknown command %q: did you mean: %s %s", args[0], cmd.CommandPath(), near)}
		}
	}
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected %q: see --help", args[0])}
	}
	return nil
}

func oneArg(name string) cobra.PositionalArgs {
	return wantArgs(1, "want exactly one "+name+": see --help")
}

func wantArgs(n int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{errors.New(text)}
		}
		return nil
	}
}
