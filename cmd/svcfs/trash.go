package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// trashedName is what rm and 'restore --trash' print as JSON, one document per name.
type trashedName struct {
	Name     string     `json:"name"`
	Versions int64      `json:"versions"`
	Until    *time.Time `json:"until,omitempty"` // removed: when the keys are destroyed
}

// rm puts names into the trash.
func (a *app) rm(ctx context.Context, g sdk.Group, wanted []string) error {
	entries, err := allEntries(ctx, g)
	if err != nil {
		return err
	}
	return eachName(g, entries, wanted, lives, func(name string, versions []sdk.Entry) error {
		done, err := g.RemoveVersions(ctx, versions)
		if err != nil {
			return err
		}
		if a.asJSON {
			return a.printJSON(trashedName{name, done.Versions, timeOrNil(done.Until)})
		}
		a.ui.printf("removed %s  %s, in the trash %s\n", name, plural(int(done.Versions), "version"), untilText(done.Until))
		return nil
	})
}

// restoreFromTrash brings names back from the trash, with all their versions.
func (a *app) restoreFromTrash(ctx context.Context, g sdk.Group, wanted []string) error {
	trash, err := g.Trash(ctx)
	if err != nil {
		return err
	}
	for _, what := range wanted {
		if _, err := versionsOf(g.ID, trash, what, inTrash); err != nil {
			group := escapeName(string(g.ID))
			return refuse(exitNotFound, "see what can be brought back with: svcfs ls --trash "+group,
				fmt.Errorf("%s is not in the trash of group %s", escapeName(what), group))
		}
	}
	return eachName(g, trash, wanted, inTrash, func(name string, versions []sdk.Entry) error {
		done, err := g.RestoreVersions(ctx, versions)
		if err != nil {
			return err
		}
		if a.asJSON {
			return a.printJSON(trashedName{Name: name, Versions: done.Versions})
		}
		a.ui.printf("brought back %s  %s\n", name, plural(int(done.Versions), "version"))
		return nil
	})
}

// eachName passes each name on with all of its versions that are as they must be. All
// are found before the first is changed.
func eachName(g sdk.Group, entries []sdk.Entry, wanted []string, must func(*sdk.Entry) bool, change func(name string, versions []sdk.Entry) error) error {
	chosen := make([][]sdk.Entry, len(wanted))
	for i, what := range wanted {
		found, err := versionsOf(g.ID, entries, what, must)
		if err != nil {
			return err
		}
		name := found[0].Named().Recorded // a reference stands for its name
		for _, e := range entries {
			if must(&e) && e.Named().Recorded == name {
				chosen[i] = append(chosen[i], e)
			}
		}
	}
	for _, versions := range chosen {
		if err := change(shownName(&versions[len(versions)-1]), versions); err != nil {
			return err
		}
	}
	return nil
}

// groupTrash is what 'group trash' prints as JSON.
type groupTrash struct {
	Group string `json:"group_id"`
	Days  int64  `json:"days"`
	Who   string `json:"who"`
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
	Held  int64  `json:"held,omitempty"`
}

func (a *app) groupTrashCommand() *cobra.Command {
	var days int64
	var who string
	cmd := &cobra.Command{
		Use:   "trash GROUP",
		Short: "Show or set how long removed files of a group can be brought back, and who removes files",
		Long: `Show how long removed files of a group can be brought back, who removes files, and
how much is in the trash. The owner sets both: --days is for what is removed from
then on; with --who writers every writer removes and brings back files of others,
and such a file stays in the trash until the owner destroys it with 'svcfs rm
--destroy'.`,
		Example: "  svcfs group trash team\n  svcfs group trash team --days 90\n  svcfs group trash team --who writers",
		Args:    exactly(1, "one GROUP"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			if days != 0 || who != "" {
				if _, err := g.SetTrash(ctx, days, who); err != nil {
					return err
				}
			}
			t, err := g.TrashSettings(ctx)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(groupTrash{args[0], t.Days, t.Who, t.Files, t.Bytes, t.Held})
			}
			remover := "who uploaded it and the owner remove a file"
			if t.Who == sdk.TrashWriters {
				remover = "every writer removes files"
			}
			a.ui.printf("removed files can be brought back for %s; %s\n", plural(int(t.Days), "day"), remover)
			a.ui.printf("%s in the trash, %d bytes\n", plural(int(t.Files), "version"), t.Bytes)
			if t.Held > 0 {
				a.ui.printf("held until the owner destroys or brings back: %s\n", plural(int(t.Held), "version"))
			}
			return nil
		}),
		ValidArgsFunction: a.completeGroup,
	}
	cmd.PreRunE = first(func([]string) error {
		if cmd.Flags().Changed("days") && (days < 1 || days > wire.MaxTrashDays) {
			return usage(fmt.Sprintf("give 1 to %d; svcfs rm --destroy destroys a file at once", wire.MaxTrashDays), fmt.Sprintf("--days %d", days))
		}
		return nil
	})
	cmd.Flags().Int64Var(&days, "days", 0, "how long files that are removed from now on can be brought back, 1 to 3650")
	cmd.Flags().StringVar(&who, "who", "", "who removes files: uploader (and the owner) or writers (all of them)")
	_ = cmd.RegisterFlagCompletionFunc("who", cobra.FixedCompletions([]string{sdk.TrashUploader, sdk.TrashWriters}, cobra.ShellCompDirectiveNoFileComp)) // exists
	return cmd
}
