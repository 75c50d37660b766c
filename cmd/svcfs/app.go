package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"github.com/svcfs/svcfs/sdk/confine"
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
	makes   bool // the file of --config, if it is not there
	began   bool // a command's own code was reached: later errors are not usage
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env environment) *app {
	return &app{stdin: stdin, ui: newTerminal(stdout, stderr), env: env, keyring: apikey.Keyring(env.get)}
}

// execute runs one command line and reports its failure.
func (a *app) execute(ctx context.Context, args []string) exitCode {
	root := a.rootCommand()
	strictDefaults(root)
	args = withFindWords(args)
	root.SetArgs(args)
	root.SetOut(a.ui.out)
	root.SetErr(a.ui.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !a.began && cli.FailureOf(err) == nil {
		err = cli.WrongCommand(root, args, err)
	}
	a.asJSON = a.asJSON || cli.AsksForJSON(args)
	switch {
	case errors.Is(err, errReported):
	case a.asJSON:
		a.ui.failJSON(a.failureDoc(err))
	default:
		a.ui.fail(err, a.hints.of(err))
	}
	return exitCodeOf(err)
}

// failureDoc tells a failure as JSON.
func (a *app) failureDoc(err error) cli.FailureDoc {
	doc := cli.FailureDoc{Error: err.Error(), Hint: a.hints.of(err), ExitCode: exitCodeOf(err)}
	var refused *sdk.Error
	for cause := err; errors.As(cause, &refused); cause = refused.Err {
		doc.Code, doc.Group = cmp.Or(doc.Code, refused.Code), cmp.Or(doc.Group, string(refused.Group))
		doc.CID = cmp.Or(doc.CID, string(refused.Ref))
	}
	return doc
}

// errReported marks a failure that the command has told already.
var errReported = errors.New("reported")

// commandFunc is a command's own code.
type commandFunc func(ctx context.Context, args []string) error

// simple is a command that an interrupt just ends: the first by its context, the second at once.
func (a *app) simple(run commandFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // a second one ends a command that waits for something else than ctx
		a.began = true
		a.ui.live = a.ui.live && !a.asJSON // no progress beside JSON
		err := run(ctx, args)
		if err != nil && ctx.Err() != nil && cli.FailureOf(err) == nil {
			return interruption("run it again")
		}
		return err
	}
}

// interruption is how a command ends that the user interrupted.
func interruption(hint string) error { return refuse(exitInterrupted, hint, errors.New("interrupted")) }

// withClient is a simple command that talks to the service.
func (a *app) withClient(
	run func(ctx context.Context, c *sdk.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return a.simple(func(ctx context.Context, args []string) error {
		c, _, err := a.client(ctx)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, c, args), a.closeClient(c))
	})
}

// withGroup is withClient for a command whose first argument is a group, or its folder in a mount.
func (a *app) withGroup(
	run func(ctx context.Context, g sdk.Group, args []string) error,
) func(*cobra.Command, []string) error {
	return a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
		p, err := groupPlace(args[0])
		if err == nil {
			err = mustBeMountsOf(ctx, c, []place{p})
		}
		if err != nil {
			return err
		}
		return run(ctx, c.Group(p.group), args)
	})
}

// closeClient ends a client. What could not be remembered of the service is said;
// that the service showed another client another history is an error.
func (a *app) closeClient(c *sdk.Client) error {
	err := c.Close()
	if err == nil || errors.Is(err, sdk.ErrCorrupt) {
		return err
	}
	a.unsaved(err)
	return nil
}

// unsaved tells that what was seen of the service could not be saved.
func (a *app) unsaved(err error) {
	a.ui.notice("%v; make the folder writable, or set XDG_STATE_HOME: else the next command trusts the service anew",
		err)
}

// client makes the client of the settings. Before anything secret is read the
// process is closed to debuggers and core dumps.
func (a *app) client(ctx context.Context) (*sdk.Client, settings, error) {
	return a.patientClient(ctx, 0)
}

// patientClient is client with the Patience of [sdk.Config].
func (a *app) patientClient(ctx context.Context, patience time.Duration) (*sdk.Client, settings, error) {
	s, err := a.accountSettings()
	if err != nil {
		return nil, settings{}, err
	}
	if err := a.resolveKey(ctx, &s); err != nil {
		return nil, settings{}, err
	}
	s.config.Patience = patience
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

// closedSettings are the settings, in a closed process.
func (a *app) closedSettings() (settings, error) {
	if err := confine.Harden(); err != nil {
		return settings{}, fmt.Errorf("protect this process: %w", err)
	}
	return a.loadSettings()
}

// accountSettings are the settings with an account, in a closed process.
func (a *app) accountSettings() (settings, error) {
	s, err := a.closedSettings()
	if err == nil && s.account == "" {
		err = noAccount()
	}
	return s, err
}

func noAccount() error {
	return refuse(exitAuth, "begin with: svcfs setup; or set "+envAccount+", or use --account ID; "+
		"'svcfs demo' needs no account",
		errors.New("no account was given"))
}

// anybody asks the free views of the ledger when no account was given.
const anybody sdk.AccountID = "anybody"

// withoutKey is a simple command that only asks free views of the ledger, which
// need no key and no account.
func (a *app) withoutKey(
	run func(ctx context.Context, c *sdk.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return a.simple(func(ctx context.Context, args []string) error {
		s, err := a.loadSettings()
		if err != nil {
			return err
		}
		if s.account == "" {
			s.account = anybody
		}
		c, err := a.newClient(s)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, c, args), a.closeClient(c))
	})
}
