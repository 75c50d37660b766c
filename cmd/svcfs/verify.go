package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

// verifyLedger checks every record of a group. A history that must not be believed
// ends with exit code 6.
func (a *app) verifyLedger(ctx context.Context, c *sdk.Client, group sdk.GroupID, asJSON bool) error {
	report, err := c.Group(group).Verify(ctx)
	if errors.Is(err, sdk.ErrCorrupt) {
		return refuse(exitOther, "show this to the other members and the operator, who can run 'svcd audit'; after an honest restore of a backup: svcfs accept-rollback",
			fmt.Errorf("the history of group %q must not be believed: %w", group, err))
	}
	if err != nil {
		return err
	}
	if a.userDir("XDG_STATE_HOME", ".local/state", "") == "" {
		a.ui.notice("neither HOME nor XDG_STATE_HOME is set: nothing is remembered for the next check")
	}
	if asJSON {
		return a.printJSON(report)
	}
	a.printReport(report)
	return nil
}

func (a *app) printReport(r sdk.LedgerReport) {
	trust, before, view := "trusted at this first check; compare it with the operator's", "nothing was seen", "not proven: the service is too old for that"
	if r.Pinned {
		trust = "as pinned"
	}
	if r.Before > 0 {
		before = plural(int(r.Before), "record") + ", which this history continues"
	}
	if r.Files >= 0 {
		view = "the " + plural(r.Files, "file record") + " that mount, ls and get show are these and no others"
	}
	witness := "none is required"
	if r.Witness != "" {
		witness = escapeText(r.Witness) + " signed it too"
	}
	a.printPairs(
		[2]string{"verified", plural(r.Rows, "record") + " of this group"},
		[2]string{"view", view},
		[2]string{"signed", plural(int(r.Size), "record") + " of the whole ledger, root " + r.Root},
		[2]string{"before", before},
		[2]string{"log", escapeText(r.Origin)},
		[2]string{"key", escapeText(r.Key) + " (" + trust + ")"},
		[2]string{"witness", witness},
	)
}

func (a *app) acceptRollbackCommand() *cobra.Command {
	var forgetKey, asJSON bool
	cmd := &cobra.Command{
		Use:   "accept-rollback",
		Short: "Trust a service anew whose operator restored a backup; free",
		Long: "svcfs remembers how far each group had come and the newest checkpoint that the service signed, and refuses a history that is\n" +
			"shorter or another one. An operator who restores a backup honestly shows such a history: ask what was lost before you accept it.\n" +
			"The key of the log stays pinned, unless --forget-key. Mounts that run keep what they saw: mount again.",
		Example: "  svcfs accept-rollback",
		Args:    exactly(0, "no arguments"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, _ []string) error {
			if err := c.AcceptRollback(forgetKey); err != nil {
				return err
			}
			dirs, _ := findMounts() // without the list nothing is lost
			for _, dir := range dirs {
				if m := inspect(ctx, dir); m.Status != nil && m.Status.Account == string(c.Account()) {
					a.ui.notice("the mount on %s keeps what it saw: unmount it and mount again", dir)
				}
			}
			if asJSON {
				return a.printJSON(map[string]any{"service": c.NetworkInfo().MCPURL, "key_forgotten": forgetKey})
			}
			a.ui.printf("forgot what %s had shown: the next command trusts what it shows then\n", escapeText(c.NetworkInfo().MCPURL))
			return nil
		}),
	}
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&forgetKey, "forget-key", false, "also believe another key of the log")
	return cmd
}
