package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/svcfs/internal/desktop"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

func (a *app) lsCommand() *cobra.Command {
	var show columns
	var trash bool
	cmd := &cobra.Command{
		Use:   "ls [GROUP]",
		Short: "List the files of a group, or the groups of this account",
		Example: "  svcfs ls\n  svcfs ls -l team\n  svcfs ls team --json\n  svcfs ls --trash team\n" +
			"  svcfs ls --ref team\n  svcfs ls --ref --notify ~/groups/team/report.pdf",
		Args: between(0, 1, "at most one GROUP"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			switch {
			case len(args) > 0:
			case trash:
				return usage("name a group, for example: svcfs ls --trash team", "ls --trash wants a GROUP")
			case show.ref:
				return usage("name a group, for example: svcfs ls --ref team", "ls --ref wants a GROUP")
			default:
				return a.listGroups(ctx, c, show.long)
			}
			list, err := listOf(ctx, c.Group(sdk.GroupID(args[0])))
			if err != nil {
				return err
			}
			if trash {
				return a.printTrash(list.Trash(), show)
			}
			current, paths := list.Current()
			return a.printFiles(current, paths, show)
		}),
		ValidArgsFunction: a.completeGroup,
	}
	cmd.Flags().BoolVarP(&show.long, "long", "l", false,
		"also size, uploader and time, * of a program, and the target of a link; "+
			"of groups role, owner and how long files are kept")
	cmd.Flags().BoolVar(&trash, "trash", false, "list the removed files of GROUP that can be brought back; with -l "+
		"also size, who removed them and until when they stay")
	cmd.Flags().BoolVar(&show.ref, "ref", false,
		"the reference of each file before its name; with --notify it goes into the clipboard")
	return a.offerNotify(cmd, func(ctx context.Context, path string) (desktop.Message, error) {
		if !show.ref || trash || show.long {
			return desktop.Message{}, usage("for example: svcfs ls --ref --notify PATH",
				"ls --notify tells the reference of a file alone")
		}
		return a.answerReference(ctx, path)
	})
}

// columns are what svcfs ls prints beside the names of files.
type columns struct{ long, ref bool }

// row is a row of a table of files.
func (c columns) row(e *sdk.Entry, name string, long ...string) []string {
	var row []string
	if c.ref {
		row = append(row, escapeName(string(e.Ref)))
	}
	if c.long {
		row = append(row, long...)
	}
	return append(row, name)
}

// printTrash lists the newest version of each name in the trash.
func (a *app) printTrash(l view.Listing, show columns) error {
	current, paths := l.Current()
	if a.asJSON {
		return a.printEntriesJSON(current, paths)
	}
	var rows [][]string
	for i, e := range current {
		rows = append(rows, show.row(&e, paths[i], sizeText(e), escapeName(string(e.Deleted.By)),
			untilText(e.Deleted.Until)))
	}
	a.printTable(rows)
	return nil
}

func untilText(until time.Time) string {
	if until.IsZero() {
		return "until the owner decides"
	}
	return "until " + timeText(until)
}

func (a *app) printFiles(entries []sdk.Entry, paths []string, show columns) error {
	if a.asJSON {
		return a.printEntriesJSON(entries, paths)
	}
	rows := make([][]string, 0, len(entries))
	for i, e := range entries {
		name := paths[i]
		if show.long {
			name += attributesMark(&e)
		}
		rows = append(rows, show.row(&e, name, sizeText(e), escapeName(string(e.Uploader)), timeText(e.Time)))
	}
	a.printTable(rows)
	return nil
}

func (a *app) printEntriesJSON(entries []sdk.Entry, paths []string) error {
	list := make([]listedEntry, 0, len(entries))
	for i, e := range entries {
		list = append(list, listed(e, paths[i]))
	}
	return a.printJSON(list)
}
