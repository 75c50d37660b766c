package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
)

// app is one run of the program.
type app struct {
	stdin   io.Reader
	ui      *terminal
	env     environment
	flags   settingFlags
	keyring apikey.Store
	hints   hints
	asJSON  bool // --json was given
	began   bool // a command's own code was reached: later errors are not usage
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env environment) *app {
	return &app{stdin: stdin, ui: newTerminal(stdout, stderr), env: env, keyring: apikey.Keyring(env.get)}
}

// execute runs one command line and reports its failure.
func (a *app) execute(ctx context.Context, args []string) exitCode {
	root := a.rootCommand()
	strictDefaults(root)
	root.SetArgs(args)
	root.SetOut(a.ui.out)
	root.SetErr(a.ui.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var own *commandError
	if !a.began && !errors.As(err, &own) {
		err = usage(commandHint(root, args), firstLine(err.Error()))
	}
	if !errors.Is(err, errReported) {
		a.ui.fail(err, a.hints.of(err))
	}
	return exitCodeOf(err)
}

// commandHint tells what to do about a command that there is not.
func commandHint(root *cobra.Command, args []string) string {
	found, rest, _ := root.Find(args)
	for _, word := range rest {
		if strings.HasPrefix(word, "-") {
			continue
		}
		if near := cli.NearestCommand(found, word); near != "" {
			return "did you mean: " + found.CommandPath() + " " + near
		}
		break
	}
	if found != root {
		return "run 'svcfs help" + strings.TrimPrefix(found.CommandPath(), "svcfs") + "' for its commands and flags"
	}
	return "run 'svcfs help' for the commands, 'svcfs help COMMAND' for its flags"
}

// errReported marks a failure that the command has told already.
var errReported = errors.New("reported")

// firstLine cuts what the flag library adds, such as a whole help text.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "svcfs",
		Short: "Encrypted groups of files as a folder",
		Long: `svcfs mounts the encrypted groups of an account as a folder: groups are
directories, files are entries, reading decrypts on this machine, closing a
written file encrypts it here and uploads only ciphertext.

Settings come from flags, then the environment, then ~/.config/svcfs/config
(KEY=VALUE lines with the names of the environment):
  SVC_ACCOUNT_ID  SVC_API_KEY (or SVC_API_KEY_FILE, SVC_API_KEY_COMMAND);
                  else the key that 'svcfs login' stored
  SVC_URL         one address of a self-hosted service, or each of
                  SVC_AUTH_URL SVC_MCP_URL SVC_RPC_URL SVC_CONTRACT_ID
  SVC_NETWORK     mainnet or testnet of the hosted service

Exit codes: 0 ok, 1 authentication or membership, 2 not found or decryption
failed, 3 usage, 4 insufficient balance or budget, 5 unreachable, 6 other.`,
		Example:       "  svcfs demo\n  svcfs mount ~/groups\n  svcfs put team report.pdf\n  svcfs ls -l team",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("run '"+cmd.CommandPath()+" --help' for its flags", firstLine(err.Error()))
	})
	a.flags.register(root.PersistentFlags())
	addGroup(root, "To begin with:", asksNobody(a.demoCommand()), a.doctorCommand(), a.loginCommand())
	addGroup(root, "A mount:", a.mountCommand(), asksNobody(a.umountCommand()), asksNobody(a.statusCommand()), asksNobody(a.whyCommand()),
		asksNobody(a.costCommand()), asksNobody(a.refreshCommand()))
	addGroup(root, "Files and groups, without a mount:", a.putCommand(), a.getCommand(), a.lsCommand(), a.rmCommand(), a.mvCommand(), a.groupCommand(),
		a.ledgerCommand())
	addGroup(root, "The account:", a.whoamiCommand(), a.balanceCommand(), a.feeCommand(), a.logoutCommand(), a.acceptRollbackCommand())
	root.AddCommand(asksNobody(a.manCommand()))
	a.offerJSON(root)
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	offerNoFiles(root)
	return root
}

// offerNoFiles has a shell offer no files to the commands below cmd that take none.
func offerNoFiles(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		if child.ValidArgsFunction == nil && !strings.Contains(child.Use, "PATH") {
			child.ValidArgsFunction = completeNothing
		}
		offerNoFiles(child)
	}
}

// addGroup adds commands that stand together under a title in the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// noSettings marks commands that ask neither for an account nor for a service;
// their help leaves out the flags for both.
const noSettings = "no settings"

// asksNobody marks cmd with noSettings.
func asksNobody(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{noSettings: "true"}
	return cmd
}

// usageTemplate is the library's, but for the inherited flags.
func usageTemplate(library string) string {
	return strings.Replace(library, "{{if .HasAvailableInheritedFlags}}",
		`{{if and .HasAvailableInheritedFlags (not (index .Annotations "`+noSettings+`"))}}`, 1)
}

// strictDefaults makes the commands that the library adds refuse what they do
// not know, with exit code 3, instead of showing a help text.
func strictDefaults(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			asksNobody(cmd)
			cmd.Args = func(_ *cobra.Command, topic []string) error {
				if found, rest, err := root.Find(topic); err != nil || len(rest) > 0 && found.HasSubCommands() {
					return usage(commandHint(root, topic), fmt.Sprintf("no help about %q", strings.Join(topic, " ")))
				}
				return nil
			}
		case "completion":
			for _, shell := range append(cmd.Commands(), cmd) {
				asksNobody(shell)
			}
			cmd.Short = "Print the completion script of a shell"
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(*cobra.Command, []string) error {
				return usage("use bash, zsh, fish or powershell; 'svcfs help completion bash' tells where it goes", "svcfs completion wants the name of a shell")
			}
		}
	}
}

// commandFunc is a command's own code.
type commandFunc func(ctx context.Context, args []string) error

// simple is a command that an interrupt just ends.
func (a *app) simple(run commandFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		a.began = true
		err := run(ctx, args)
		var own *commandError
		if err != nil && ctx.Err() != nil && !errors.As(err, &own) {
			return interruption("run it again")
		}
		return err
	}
}

// interruption is how a command ends that the user interrupted.
func interruption(hint string) error { return refuse(exitOther, hint, errors.New("interrupted")) }

// withClient is a simple command that talks to the service.
func (a *app) withClient(run func(ctx context.Context, c *sdk.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.simple(func(ctx context.Context, args []string) error {
		c, _, err := a.client(ctx)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, c, args), a.closeClient(c))
	})
}

// closeClient ends a client. What could not be remembered of the service is said;
// that the service showed another client another history is an error.
func (a *app) closeClient(c *sdk.Client) error {
	err := c.Close()
	if err == nil || errors.Is(err, sdk.ErrCorrupt) {
		return err
	}
	a.ui.notice("%v; make the folder writable, or set XDG_STATE_HOME: else the next command trusts the service anew", err)
	return nil
}

// client makes the client of the settings. Before anything secret is read the
// process is closed to debuggers and core dumps.
func (a *app) client(ctx context.Context) (*sdk.Client, settings, error) {
	s, err := a.accountSettings()
	if err != nil {
		return nil, settings{}, err
	}
	if err := a.resolveKey(ctx, &s); err != nil {
		return nil, settings{}, err
	}
	c, err := a.newClient(s)
	if err != nil {
		return nil, settings{}, err
	}
	return c, s, nil
}

// newClient makes a client of complete settings; hints name its account and service.
func (a *app) newClient(s settings) (*sdk.Client, error) {
	c, err := sdk.New(s.account, s.config)
	if err == nil {
		a.hints = hints{account: s.account, service: c.NetworkInfo()}
	}
	return c, err
}

// first checks a command line before anything is asked or read.
func first(check func(args []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error { return check(args) }
}

// exactly is cobra.ExactArgs with a sentence that names the arguments.
func exactly(n int, what string) cobra.PositionalArgs { return between(n, n, what) }

// between checks the number of arguments; most < 0 means any number.
func between(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return usage("usage: "+cmd.UseLine(), fmt.Sprintf("%s wants %s, got %s", cmd.CommandPath(), what, plural(len(args), "argument")))
	}
}
