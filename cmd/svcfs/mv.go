package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

func (a *app) mvCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mv GROUP REF|NAME NEWNAME",
		Short: "Give a file another name; its content and reference stay",
		Long: `Give a file another name; its content and reference stay. NAME means all versions of
that name, REF means one version. A name that is in use is refused. Only the uploader
of a file and the owner of the group may rename the file, and only where the service
can rename files.`,
		Example: "  svcfs mv team draft.txt final.txt\n  svcfs mv team notes.txt archive/2026/notes.txt",
		Args:    exactly(3, "a GROUP, a REF or NAME, and a NEWNAME"),
		PreRunE: first(func(args []string) error {
			if args[2] == "" {
				return usage("give a name", "the new name is empty")
			}
			return nil
		}),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			return a.mv(ctx, g, args[1], args[2])
		}),
		ValidArgsFunction: a.completeGroupThen(a.completeName),
	}
}

func (a *app) mv(ctx context.Context, g sdk.Group, what, name string) error {
	entries, err := allEntries(ctx, g)
	if err != nil {
		return err
	}
	versions, err := versionsOf(g.ID, entries, what, lives)
	if err != nil {
		return err
	}
	if _, isUsed := listingOf(entries).Newest(name); isUsed {
		return refuse(exitOther, "choose another name, or remove that file first", errors.New(escapeName(name)+" is in use"))
	}
	for _, e := range versions {
		if err := g.Rename(ctx, e.Ref, name); err != nil {
			return err
		}
		f := changedFile{Name: shownName(&e), NewName: names.Show(name, string(e.Ref)), CID: e.Ref, FileHash: e.Hash.String()}
		if err := a.printChanged(f, "renamed"); err != nil {
			return err
		}
	}
	return nil
}
