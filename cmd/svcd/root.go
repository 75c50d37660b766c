package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// The exit codes of svcfs that apply.
const (
	exitOK       = int(cli.ExitOK)
	exitNotFound = int(cli.ExitNotFound)
	exitUsage    = int(cli.ExitUsage)
	exitOther    = int(cli.ExitOther)
)

// usage is a mistake on the command line or in the settings, with what to do about it; "" is the help
// of the command.
func usage(hint, format string, args ...any) error {
	return cli.Refuse(cli.ExitUsage, hint, fmt.Errorf(format, args...))
}

// refuse is another failure, with what to do about it.
func refuse(hint, format string, args ...any) error {
	return cli.Refuse(cli.ExitOther, hint, fmt.Errorf(format, args...))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := newSettings(stdout, stderr)
	root := rootOf(s)
	cli.FitHelp(root)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if _, _, unknown := root.Find(args); unknown != nil {
		err = cli.WrongCommand(root, args, err)
	}
	code := exitCode(err)
	if ctx.Err() != nil && cli.FailureOf(err) == nil {
		code, err = cli.ExitInterrupted, errors.New("interrupted")
	}
	text, hint := s.complete(err.Error()), s.complete(hintOf(root, args, code, err))
	if cli.AsksForJSON(args) {
		fmt.Fprint(stderr, cli.FailureJSON(cli.FailureDoc{Error: text, Hint: hint, ExitCode: code,
			Code: serviceCode(err)}))
		return int(code)
	}
	fmt.Fprint(stderr, cli.FailureText("svcd", errors.New(text), hint))
	return int(code)
}

// exitCode classifies err: our own refusals first, then those of the service.
func exitCode(err error) cli.ExitCode {
	if own := cli.FailureOf(err); own != nil {
		return own.Code
	}
	switch fault.Of(err).Code {
	case wire.CodeAccountUnknown, wire.CodeGroupNotFound, wire.CodeFileNotFound, wire.CodeInvite:
		return cli.ExitNotFound
	case wire.CodeValidation:
		return cli.ExitUsage
	default:
		return cli.ExitOther
	}
}

// serviceCode is the code of what the service refused, or "".
func serviceCode(err error) string {
	var refused *fault.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// hintOf is the next step after err.
func hintOf(root *cobra.Command, args []string, code cli.ExitCode, err error) string {
	if own := cli.FailureOf(err); own != nil && own.Hint != "" {
		return own.Hint
	}
	if step := cmp.Or(ownfile.MendOf(err), vaultwire.HintOf(err), service.NextStepOf(err)); step != "" {
		return step
	}
	cmd, _, _ := root.Find(args)
	switch {
	case code == cli.ExitUsage, cmd.Annotations[ofItsOwn] != "":
		return "see: " + cmd.CommandPath() + " --help"
	case code == cli.ExitInterrupted:
		return "run it again"
	}
	if step := stepOf(err); step != "" {
		return step
	}
	switch fault.Of(err).Code {
	case wire.CodeAccountUnknown:
		return "see the accounts with: svcd account list"
	case wire.CodeConflict: // says itself what to do
		return ""
	case wire.CodeInvite:
		return "see the invites with: svcd invite list"
	case wire.CodeGroupNotFound:
		return "check the name: members see their groups with: svcfs ls"
	case wire.CodeFileNotFound:
		return "check the reference: members see those of a group with: svcfs ledger GROUP"
	}
	return "see what is wrong with: svcd doctor"
}

// stepOf is the next step after a failure of the machine or of the stores; "" is none.
func stepOf(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "make room there, then run it again"
	case errors.Is(err, store.ErrLogin):
		return "put the password of the role into PGPASSWORD, or into the file that PGPASSFILE names, for each " +
			"command of svcd"
	case errors.Is(err, store.ErrNoDatabase):
		return "look at the name in --db; CREATE DATABASE makes one: service/operating/stores.md"
	case errors.Is(err, store.ErrUnavailable):
		return "start the database, or check --db and who may use the data directory"
	case errors.Is(err, store.ErrFull), errors.Is(err, blob.ErrFull):
		return "make room: svcd doctor names the disk"
	case errors.Is(err, blob.ErrUnavailable):
		return "check --blobs and its credentials"
	}
	return ""
}

// complete adds the flags that say which service it is to the command at the end of a text.
func (s *settings) complete(text string) string {
	i := strings.LastIndex(text, ": svcd ")
	if i < 0 || strings.ContainsAny(text[i+1:], ":;,()") || strings.Contains(text[i:], " --") {
		return text
	}
	return text + s.given()
}

func newSettings(stdout, stderr io.Writer) *settings {
	return &settings{stdin: os.Stdin, stdout: stdout, stderr: stderr, lookupEnv: os.LookupEnv,
		packaged: systemPlaces()}
}

func newRoot(stdout, stderr io.Writer) *cobra.Command { return rootOf(newSettings(stdout, stderr)) }

func rootOf(s *settings) *cobra.Command {
	stdout, stderr := s.stdout, s.stderr
	root := &cobra.Command{
		Use: "svcd", Short: "Self-hosted service for encrypted group files",
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cli.SettingsFor: "the data directory and the stores"},
		Long: "svcd stores encrypted files, has svcvault keep their keys, controls access by groups and records " +
			"every action on a ledger.\n\n" +
			cli.ExitHelp(cli.ExitOK, cli.ExitNotFound, cli.ExitUsage, cli.ExitOther, cli.ExitProof,
				cli.ExitInterrupted),
		Example: "  svcd serve --data /var/lib/svcd\n  svcd account create alice --data /var/lib/svcd \\\n" +
			"      --balance 10 --api-key-file alice.key",
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := confine.Harden(); err != nil { // before a key is read
				return err
			}
			cmd.SetContext(ledger.WithRequestID(cmd.Context(), ledger.NewRequestID("operator-")))
			if err := s.resolve(cmd); err != nil {
				return err
			}
			if name, instead := s.visiblePassword(); name != "" {
				fmt.Fprintf(stderr, "svcd: the password in --%s is visible to every user of this machine: %s\n",
					name, instead)
			}
			return nil
		},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(cli.WrongFlag)
	s.register(root.PersistentFlags())
	root.AddCommand(newInit(s), newServe(s), newAccount(s), newInvite(s), newAudit(s), newWitness(s), newVerify(s),
		newChecksum(s),
		newRotateMasterKey(s), newRotateLogKey(s), newRotateTokenKey(s), newRotateUploadKey(s), newRetention(s),
		newImportLegacy(s),
		newConfig(s), newBackup(s), newExport(s), newImport(s), newDoctor(s), newWhere(s), newMan(),
		cli.VersionCommand(root, func(version string) error {
			_, err := fmt.Fprintf(stdout, "svcd version %s\n", version)
			return err
		}))
	cli.OfferNoFiles(root, "DIR", "FILE")
	return root
}

// noDatabase is what to do where a data directory has no database.
const noDatabase = "look at the path, and whether its disk is mounted; give --db as svcd serve has it; SQLite is " +
	"made by svcd serve at the first start"

// with opens the service, also beside a running one, and runs f. Only serve makes a
// data directory, and only commands that begin make a service in one.
func (s *settings) with(ctx context.Context, f func(*service.Service) error) error {
	if err := s.needData(); err != nil {
		return err
	}
	if err := s.needTLS(); err != nil {
		return err
	}
	if _, err := os.Stat(s.cfg.DataDir); err != nil {
		return refuse("look at the path: a service that moved has its data elsewhere; svcd init makes another one, "+
			"which is empty", "look at data directory: %w", err)
	}
	if file := filepath.Join(s.cfg.DataDir, store.FileName); !s.begins && s.cfg.Database == "" && !isThere(file) {
		return refuse(noDatabase, "%s does not exist", file)
	}
	cfg := s.cfg
	cfg.MasterKey, cfg.Vault = s.masterKey(), s.vault
	if s.rotates {
		cfg.NextMasterKey = s.nextMasterKey()
	}
	svc, err := service.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(f(svc), svc.Close())
}

// run is the code of a command that needs the opened service.
func (s *settings) run(
	f func(ctx context.Context, svc *service.Service, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return s.with(cmd.Context(), func(svc *service.Service) error { return f(cmd.Context(), svc, args) })
	}
}

func (s *settings) needData() error {
	if s.unread != nil {
		return s.unread
	}
	if s.cfg.DataDir == "" {
		return usage("give --data DIR, set SVCD_DATA, or write data = \"DIR\" into the file that --config names",
			"no data directory")
	}
	return nil
}

func (s *settings) printJSON(v any) error { return json.NewEncoder(s.stdout).Encode(v) }

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.HasSubCommands() {
		if near := cli.NearestCommand(cmd, args[0]); near != "" {
			return usage(fmt.Sprintf("did you mean: %s %s", cmd.CommandPath(), near), "unknown command %q", args[0])
		}
	}
	if len(args) > 0 {
		return usage("", "unexpected %q", args[0])
	}
	return nil
}

func oneArg(name string) cobra.PositionalArgs {
	return wantArgs(1, "want exactly one "+name, "")
}

func wantArgs(n int, text, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(hint, "%s", text)
		}
		return nil
	}
}
