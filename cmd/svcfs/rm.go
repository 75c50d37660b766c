package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

func (a *app) rmCommand() *cobra.Command {
	var trash bool
	cmd := &cobra.Command{
		Use:   "rm GROUP REF|NAME...",
		Short: "Destroy the key of files, so that nobody can read them again",
		Long: `Destroy the key of files, so that nobody can read the files again. Their records stay
in the ledger as deleted. NAME means all versions of that name, also those in the
trash; REF means one version. Only the uploader of a file and the owner of the group
may remove the file, and only where the service can remove files. Nobody can undo this.

With --trash no key is destroyed: all versions of NAME go to the trash of the group.
'svcfs undelete' brings them back until their time in the trash ends, which 'svcfs
group trash' shows. Then the keys are destroyed.`,
		Example: "  svcfs rm team old-report.pdf\n  svcfs rm team notes/a.txt notes/b.txt\n  svcfs rm --trash team draft.txt",
		Args:    between(2, -1, "a GROUP and at least one REF or NAME"),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			if trash {
				return a.rmToTrash(ctx, g, args[1:])
			}
			return a.rm(ctx, g, args[1:])
		}),
		ValidArgsFunction: a.completeGroupThen(a.completeName),
	}
	cmd.Flags().BoolVar(&trash, "trash", false, "put all versions of each NAME into the trash of the group, from where they can be brought back")
	return cmd
}

// changedFile is what rm and mv print as JSON, one document per version.
type changedFile struct {
	Name     string  `json:"name"`
	NewName  string  `json:"new_name,omitempty"`
	CID      sdk.Ref `json:"cid"`
	FileHash string  `json:"file_hash"`
	Pending  bool    `json:"pending,omitempty"` // deleted later
}

func (a *app) rm(ctx context.Context, g sdk.Group, wanted []string) error {
	entries, err := allEntries(ctx, g)
	if err != nil {
		return err
	}
	mayGo := func(e *sdk.Entry) bool { return lives(e) || inTrash(e) }
	chosen := make([][]sdk.Entry, len(wanted)) // all are found before the first is destroyed
	for i, what := range wanted {
		if chosen[i], err = versionsOf(g.ID, entries, what, mayGo); err != nil {
			return err
		}
	}
	var waits error // the service deletes some later: the others go on
	for _, versions := range chosen {
		if err := a.rmVersions(ctx, g, versions); errors.Is(err, sdk.ErrPending) {
			waits = err
		} else if err != nil {
			return err
		}
	}
	return waits
}

// rmVersions destroys the keys of the versions of one name. It passes over versions in
// the trash that this account may not destroy, unless there are no others: nobody sees
// them under the name.
func (a *app) rmVersions(ctx context.Context, g sdk.Group, versions []sdk.Entry) error {
	var waits, refused error
	left := 0
	for _, e := range versions {
		verb := "deleted"
		err := g.Delete(ctx, e.Ref)
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
		if err := a.printChanged(changedFile{Name: shownName(&e), CID: e.Ref, FileHash: hashText(e.Hash), Pending: verb == "waits"}, verb); err != nil {
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
func versionsOf(group sdk.GroupID, entries []sdk.Entry, what string, must func(*sdk.Entry) bool) ([]sdk.Entry, error) {
	var versions []sdk.Entry
	list := listingOf(entries)
	gone, name := false, list.Resolve(what)
	if _, lives := list.Newest(name); !lives { // a removed file that is shown so comes after a living one
		name = trashListingOf(entries).Resolve(what)
	}
	for _, e := range entries {
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
	return nil, refuse(exitNotFound, "see what there is with: svcfs ls "+escapeName(string(group)), fmt.Errorf(text, escapeName(what), escapeName(string(group))))
}

func (a *app) printChanged(f changedFile, verb string) error {
	if a.asJSON {
		return a.printJSON(f)
	}
	a.ui.printf("%s %s  %s\n", verb, f.Name, escapeText(string(f.CID)))
	return nil
}
