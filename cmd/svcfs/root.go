package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
)

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

` + cli.ExitHelp(),
		Example:       "  svcfs demo\n  svcfs mount ~/groups\n  svcfs put team report.pdf\n  svcfs ls -l team",
		Annotations:   map[string]string{cli.SettingsFor: "the account and the service"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.WrongFlag(cmd, err)
	})
	a.flags.register(root.PersistentFlags())
	addGroup(root, "To begin with:", asksNobody(a.demoCommand()), a.setupCommand(), a.doctorCommand(), a.loginCommand())
	addGroup(root, "A mount:", a.mountCommand(), asksNobody(a.umountCommand()), asksNobody(a.statusCommand()),
		asksNobody(a.whyCommand()),
		asksNobody(a.costCommand()), a.historyCommand(),
		asksNobody(a.refreshCommand()), asksNobody(a.syncCommand()), asksNobody(a.limitCommand()),
		a.outboxCommand(), asksNobody(a.notifyCommand()))
	addGroup(root, "Files and groups, without a mount:", a.putCommand(), a.getCommand(), a.lsCommand(),
		a.findCommand(), a.rmCommand(), a.restoreCommand(), a.mvCommand(), a.conflictsCommand(), a.groupCommand(),
		a.ledgerCommand(), a.mcpCommand())
	addGroup(root, "The account:", a.whoamiCommand(), a.balanceCommand(), a.feeCommand(), a.sealKeyCommand(),
		a.logoutCommand(), a.acceptRollbackCommand(), asksNobody(a.forgetCommand()))
	root.AddCommand(asksNobody(a.manCommand()), asksNobody(a.versionCommand(root)))
	a.offerJSON(root)
	cli.Rare(root.PersistentFlags(), "api-key-command", "insecure-http", "list-memory", "log-key", "network",
		"require-witness", "witness-age")
	cli.OfferNoFiles(root, "PATH")
	return root
}

// versionCommand prints the version.
func (a *app) versionCommand(root *cobra.Command) *cobra.Command {
	return cli.VersionCommand(root, func(version string) error {
		if a.asJSON {
			return a.printJSON(map[string]string{"version": version})
		}
		a.ui.printf("svcfs version %s\n", version)
		return nil
	})
}

// addGroup adds commands that stand together under a title in the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// asksNobody marks cmd as one that asks neither for an account nor for a service.
func asksNobody(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{cli.NoSettings: "true"}
	return cmd
}

// strictDefaults makes the commands that the library adds refuse what they do
// not know, with exit code 3, instead of showing a help text.
func strictDefaults(root *cobra.Command) {
	cli.FitHelp(root)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			asksNobody(cmd)
			cmd.Args = func(_ *cobra.Command, topic []string) error {
				if found, rest, err := root.Find(topic); err != nil || len(rest) > 0 && found.HasSubCommands() {
					return usage(cli.CommandHint(root, topic),
						fmt.Sprintf("no help about %q", strings.Join(topic, " ")))
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
				return usage("use bash, zsh, fish or powershell; 'svcfs help completion bash' tells where it goes",
					"svcfs completion wants the name of a shell")
			}
		}
	}
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
		return usage("usage: "+cmd.UseLine(), fmt.Sprintf("%s wants %s, got %s", cmd.CommandPath(), what,
			plural(len(args), "argument")))
	}
}
