package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

func (a *app) rmCommand() *cobra.Command {
	var destroy bool
	cmd := &cobra.Command{
		Use:   "rm GROUP REF|NAME...",
		Short: "Remove files: into the trash, or with --destroy for good",
		Long: `Remove files, as rm in a mount does: all versions of NAME, or of the name of REF, go to
the trash of the group. Nobody sees them any more, and 'svcfs restore --trash' brings them
back until their time in the trash ends, which 'svcfs group config' shows. Then their keys
are destroyed. The uploader of a file and the owner of the group may remove it, and every
writer where the owner lets every writer.

With --destroy the keys are destroyed at once, so that nobody can read the files again and
nobody can undo it: of all versions of NAME, also of those in the trash, or of the one
version REF. Only the uploader and the owner may. Records stay in the ledger as deleted.`,
		Example: "  svcfs rm team draft.txt\n  svcfs rm team notes/a.txt notes/b.txt\n" +
			"  svcfs rm --destroy team old-report.pdf",
		Args: between(2, -1, "a GROUP and at least one REF or NAME"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			if destroy {
				return a.destroy(ctx, g, args[1:])
			}
			return a.rm(ctx, g, args[1:])
		}),
		ValidArgsFunction: a.completeGroupThen(a.completeName),
	}
	cmd.Flags().BoolVar(&destroy, "destroy", false, "destroy the keys at once, so that nobody can bring the files back")
	return cmd
}

// changedFile is what 'rm --destroy' and mv print as JSON, one document per version.
type changedFile struct {
	Name     string  `json:"name"`
	NewName  string  `json:"new_name,omitempty"`
	CID      sdk.Ref `json:"cid"`
	FileHash string  `json:"file_hash"`
	Pending  bool    `json:"pending,omitempty"` // deleted later
}

// destroy destroys the keys of files.
func (a *app) destroy(ctx context.Context, g sdk.Group, wanted []string) error {
	list, err := listOf(ctx, g)
	if err != nil {
		return err
	}
	mayGo := func(e *sdk.Entry) bool { return lives(e) || inTrash(e) }
	chosen := make([][]sdk.Entry, len(wanted)) // all are found before the first is destroyed
	for i, what := range wanted {
		if chosen[i], err = versionsOf(g.ID, list, what, mayGo); err != nil {
			return err
		}
	}
	var waits error // the service deletes some later: the others go on
	for _, versions := range chosen {
		if err := a.destroyVersions(ctx, g, versions); errors.Is(err, sdk.ErrPending) {
			waits = err
		} else if err != nil {
			return err
		}
	}
	return waits
}

// destroyVersions destroys the keys of the versions of one name. It passes over versions in
// the trash that this account may not destroy, unless there are no others: nobody sees
// them under the name.
func (a *app) destroyVersions(ctx context.Context, g sdk.Group, versions []sdk.Entry) error {
	var waits, refused error
	left := 0
	for _, e := range versions {
		verb := "deleted"
		_, err := g.Delete(ctx, e.Ref)
		switch {
		case errors.Is(err, sdk.ErrPending):
			waits, verb = err, "waits"
		case errors.Is(err, sdk.ErrNotAuthorized) && inTrash(&e):
			refused = err
			left++
			continue
		case err != nil:
			return err
		}
		if err := a.printChanged(changedFile{Name: shownName(&e), CID: e.Ref, FileHash: hashText(e.Hash),
			Pending: verb == "waits"}, verb); err != nil {
			return err
		}
	}
	if left == len(versions) {
		return refused
	}
	return waits
}

// versionsOf returns the file of a reference, or every version of a name, of those
// that are as they must be.
func versionsOf(group sdk.GroupID, list view.Listing, what string, must func(*sdk.Entry) bool) ([]sdk.Entry, error) {
	var versions []sdk.Entry
	gone, name := false, list.Resolve(what)
	if _, lives := list.Newest(name); !lives { // a removed file that is shown so comes after a living one
		name = list.Trash().Resolve(what)
	}
	for _, e := range list.Entries {
		switch {
		case string(e.Ref) != what && e.Named().Recorded != name:
		case !must(&e):
			gone = gone || e.Deleted != nil
		case string(e.Ref) == what:
			return []sdk.Entry{e}, nil
		default:
			versions = append(versions, e)
		}
	}
	if len(versions) > 0 {
		return versions, nil
	}
	text := "not found: no file of the name or reference %s in group %s"
	if gone {
		text = "%s in group %s was deleted already"
	}
	return nil, refuse(exitNotFound, "see what there is with: svcfs ls "+escapeName(string(group)),
		fmt.Errorf(text, escapeName(what), escapeName(string(group))))
}

func (a *app) printChanged(f changedFile, verb string) error {
	if a.asJSON {
		return a.printJSON(f)
	}
	a.ui.printf("%s %s  %s\n", verb, f.Name, escapeText(string(f.CID)))
	return nil
}
