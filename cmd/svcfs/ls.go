package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

func (a *app) lsCommand() *cobra.Command {
	var long, trash bool
	cmd := &cobra.Command{
		Use:     "ls [GROUP]",
		Short:   "List the files of a group, or the groups of this account",
		Example: "  svcfs ls\n  svcfs ls -l team\n  svcfs ls team --json\n  svcfs ls --trash team",
		Args:    between(0, 1, "at most one GROUP"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			if trash && len(args) == 0 {
				return usage("name a group, for example: svcfs ls --trash team", "ls --trash wants a GROUP")
			}
			if len(args) == 0 {
				return a.listGroups(ctx, c, long)
			}
			entries, err := allEntries(ctx, c.Group(sdk.GroupID(args[0])))
			if err != nil {
				return err
			}
			if trash {
				return a.printTrash(trashListingOf(entries), long)
			}
			current, paths := listingOf(entries).current()
			return a.printFiles(current, paths, long)
		}),
		ValidArgsFunction: a.completeGroup,
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "also size, uploader and time, * of a program, and the target of a link; of groups role, owner and how long files are kept")
	cmd.Flags().BoolVar(&trash, "trash", false, "list the removed files of GROUP that can be brought back; with -l also size, who removed them and until when they stay")
	return cmd
}

// printTrash lists the newest version of each name in the trash.
func (a *app) printTrash(l listing, long bool) error {
	current, paths := l.current()
	if a.asJSON || !long {
		return a.printFiles(current, paths, false)
	}
	var rows [][]string
	for i, e := range current {
		rows = append(rows, []string{sizeText(e), escapeName(string(e.Deleted.By)), untilText(e.Deleted.Until), paths[i]})
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

func (a *app) printFiles(entries []sdk.Entry, paths []string, long bool) error {
	if a.asJSON {
		return a.printEntriesJSON(entries, paths)
	}
	rows := make([][]string, 0, len(entries))
	for i, e := range entries {
		name := paths[i]
		if long {
			name += attributesMark(&e)
			rows = append(rows, []string{sizeText(e), escapeName(string(e.Uploader)), timeText(e.Time), name})
		} else {
			rows = append(rows, []string{name})
		}
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
