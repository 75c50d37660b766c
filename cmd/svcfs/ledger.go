package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
)

func (a *app) ledgerCommand() *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:   "ledger GROUP",
		Short: "List every file record of a group, also older versions and deleted files",
		Long: `List every file record of a group.

With --verify the command checks all records of the group instead, also those of
members and retrievals. Each record must match its hash and be in the tree that the
service signed. The history must continue the history seen before. The files that
mount, ls and get show must be the files of these records, and no others, and so must
the names that the service signs as the living ones. When the history was altered,
shortened or forked, the command says what was proven false, and the exit code is 7.`,
		Example: "  svcfs ledger team\n  svcfs ledger team --json\n  svcfs ledger team --verify",
		Args:    exactly(1, "one GROUP"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			if verify {
				return a.verifyLedger(ctx, g)
			}
			list, err := listOf(ctx, g)
			if err != nil {
				return err
			}
			entries := list.Entries
			paths := make([]string, len(entries))
			for i := range entries {
				paths[i] = shownName(&entries[i])
			}
			if a.asJSON {
				docs := make([]listedEntry, len(entries))
				for i := range entries {
					docs[i] = listed(entries[i], paths[i])
				}
				return a.printJSON(docs)
			}
			a.printLedger(entries, paths)
			return nil
		}),
		ValidArgsFunction: a.completeGroup,
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "check all records against the signed checkpoints of the service")
	cmd.Flags().StringVar(&a.flags.logKey, "key", "", "as --log-key")
	return cmd
}

func (a *app) printLedger(entries []sdk.Entry, paths []string) {
	rows := make([][]string, 0, len(entries))
	for i, e := range entries {
		state := "live"
		switch {
		case inTrash(&e):
			state = "trash:" + escapeText(string(e.Deleted.By))
		case e.Deleted != nil:
			state = "deleted:" + escapeText(e.Deleted.Reason)
		}
		rows = append(rows, []string{timeText(e.Time), escapeName(string(e.Uploader)), sizeText(e), state,
			escapeText(string(e.Ref)), paths[i] + attributesMark(&e)})
	}
	a.printTable(rows)
}

// verifyLedger checks every record of a group. A history that must not be believed
// ends with [exitProof].
func (a *app) verifyLedger(ctx context.Context, g sdk.Group) error {
	report, err := g.Verify(ctx)
	var refused *sdk.Error
	if errors.As(err, &refused) && (refused.Code == wire.CodeLogKey || refused.Code == wire.CodeNoWitness) {
		return err // not about the history
	}
	if errors.Is(err, sdk.ErrCorrupt) {
		return refuse(exitProof, "show this to the other members and the operator, who can run 'svcd audit'; after "+
			"an honest restore of a backup: svcfs accept-rollback",
			fmt.Errorf("the history of group %q must not be believed: %w", g.ID, err))
	}
	if err != nil {
		return err
	}
	if a.userDir("XDG_STATE_HOME", ".local/state", "") == "" {
		a.ui.notice("neither HOME nor XDG_STATE_HOME is set: nothing is remembered for the next check")
	}
	if a.asJSON {
		if err := a.printJSON(report); err != nil {
			return err
		}
	} else {
		a.printReport(report)
	}
	if report.Opens == nil {
		return nil
	}
	if err := cli.UnrecordedError(*report.Opens); err != nil {
		return refuse(exitProof, "ask the operator who was given these keys", err)
	}
	return nil
}

func (a *app) printReport(r proof.Report) {
	trust, before := "trusted at this first check; compare it with the operator's", "nothing was seen"
	if r.Pinned {
		trust = "as pinned"
	}
	if r.Before > 0 {
		before = plural(int(r.Before), "record") + ", which this history continues"
	}
	view := "the " + plural(r.Files, "file record") + " that mount, ls and get show are these and no others"
	witness := "none is required"
	if r.Witness != "" {
		witness = escapeText(r.Witness) + " signed it too"
	}
	names := "the service signs none"
	if r.Names != "" {
		names = "root " + r.Names + ", which these records give"
	}
	keys := "the service does not count those that it gives out"
	if r.Opens != nil {
		keys = cli.OpensText(*r.Opens)
	}
	a.printPairs(
		[2]string{"verified", plural(r.Rows, "record") + " of this group"},
		[2]string{"view", view},
		[2]string{"names", names},
		[2]string{"signed", plural(int(r.Size), "record") + " of the whole ledger, root " + r.Root},
		[2]string{"keys", keys},
		[2]string{"before", before},
		[2]string{"log", escapeText(r.Origin)},
		[2]string{"key", escapeText(r.Key) + " (" + trust + ")"},
		[2]string{"witness", witness},
	)
}
