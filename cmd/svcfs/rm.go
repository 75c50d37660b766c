package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// rmFlags are the flags of rm.
type rmFlags struct{ destroy, folders, sure bool }

func (a *app) rmCommand() *cobra.Command {
	var f rmFlags
	cmd := &cobra.Command{
		Use:   "rm GROUP NAME... | PLACE...",
		Short: "Remove files: into the trash, or with --destroy for good",
		Long: `Remove files, as rm in a mount does: all versions of NAME, or of the name of a reference,
go to the trash of the group. ` + placeHelp + `
A folder needs -r.

Nobody sees removed files any more, and 'svcfs restore --trash' brings them back until
their time in the trash ends, which 'svcfs group config' shows. Then their keys are
destroyed. The uploader of a file and the owner of the group may remove it, and every
writer where the owner lets every writer.

With --destroy the keys are destroyed at once, so that nobody can read the files again and
nobody can undo it: of all versions of NAME, also of those in the trash, or of the one
version of a reference. Only the uploader and the owner may. For a folder or a pattern the
command asks first; --yes answers. Records stay in the ledger as deleted.`,
		Example: "  svcfs rm team draft.txt\n  svcfs rm team notes/a.txt notes/b.txt\n" +
			"  svcfs rm -r team/drafts\n  svcfs rm team '*.bak'\n  svcfs rm --destroy team old-report.pdf",
		Args: inGroups("a GROUP and at least one NAME"),
		RunE: a.changePlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
			var waits error // the service deletes some later: the others go on
			err := byGroup(places, func(group sdk.GroupID, paths []string) error {
				err := a.rm(ctx, c.Group(group), paths, f)
				if errors.Is(err, sdk.ErrPending) {
					waits, err = err, nil
				}
				return err
			})
			return cmp.Or(err, waits)
		}),
		ValidArgsFunction: a.completePlace,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.folders, "recursive", "r", false, "also folders, with everything in them")
	flags.BoolVar(&f.destroy, "destroy", false, "destroy the keys at once, so that nobody can bring the files back")
	flags.BoolVarP(&f.sure, "yes", "y", false, "with --destroy, do not ask about folders and patterns")
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

// removal is what one argument of rm names.
type removal struct {
	versions [][]sdk.Entry // of each name
	folders  []string      // recorded, the inner ones first
}

// rm removes what paths name in a group. All are found before the first is removed.
func (a *app) rm(ctx context.Context, g sdk.Group, paths []string, f rmFlags) error {
	list, err := listOf(ctx, g)
	if err != nil {
		return err
	}
	must := lives
	if f.destroy {
		must = func(e *sdk.Entry) bool { return lives(e) || inTrash(e) }
	}
	all, asks := make([]removal, len(paths)), 0
	for i, what := range paths {
		found, chosen, err := list.toRemove(g.ID, what, f.destroy, must)
		if err != nil {
			return err
		}
		if chosen.whole && !f.folders {
			return usage("add -r", escapeName(what)+" is, or matches, a folder")
		}
		if all[i] = found; chosen.whole || chosen.many {
			asks += len(found.versions)
		}
	}
	if f.destroy && asks > 0 {
		if err := a.mustAgree(ctx, f.sure, fmt.Sprintf("Shall the keys of %s be destroyed for good?",
			plural(asks, "file"))); err != nil {
			return err
		}
	}
	var waits error
	for _, r := range all {
		err := a.remove(ctx, g, r, f.destroy)
		if errors.Is(err, sdk.ErrPending) {
			waits, err = err, nil
		}
		if err != nil {
			return err
		}
	}
	return waits
}

// toRemove finds what an argument names, with --destroy also in the trash.
func (l listing) toRemove(group sdk.GroupID, what string, destroy bool,
	must func(*sdk.Entry) bool) (r removal, c choice, err error) {
	c, ok := l.choose(what)
	if !ok && destroy {
		c, ok = l.trash().choose(what)
	}
	if !destroy {
		c.ref = "" // a reference stands for its name
	}
	if ok {
		r.versions = l.chosen(c, must)
	}
	for _, f := range slices.Backward(l.folders) {
		path := names.Show(f, "")
		if path == what || strings.HasPrefix(path, what+"/") || c.many && matches(what, path) {
			r.folders, c.whole = append(r.folders, f), true
		}
	}
	if len(r.versions) == 0 && len(r.folders) == 0 {
		return r, c, l.absent(group, what)
	}
	return r, c, nil
}

// remove removes what one argument named: the files of each name, then the folders.
func (a *app) remove(ctx context.Context, g sdk.Group, r removal, destroy bool) error {
	var waits error
	for _, versions := range r.versions {
		err := a.removeName(ctx, g, versions, destroy)
		if errors.Is(err, sdk.ErrPending) {
			waits, err = err, nil
		}
		if err != nil {
			return err
		}
	}
	for _, folder := range r.folders {
		if _, err := g.RemoveFolder(ctx, folder); err != nil && sdk.KindOf(err) != sdk.ErrNotFound {
			return err
		}
	}
	return waits
}

// removeName removes the versions of one name.
func (a *app) removeName(ctx context.Context, g sdk.Group, versions []sdk.Entry, destroy bool) error {
	if destroy {
		return a.destroyVersions(ctx, g, versions)
	}
	done, err := g.RemoveVersions(ctx, versions)
	if err != nil {
		return err
	}
	name := shownName(&versions[len(versions)-1])
	if a.asJSON {
		return a.printJSON(trashedName{Name: name, Versions: done.Versions, Until: timeOrNil(done.Until)})
	}
	a.ui.printf("removed %s  %s, in the trash %s\n", name, plural(int(done.Versions), "version"),
		untilText(done.Until))
	return nil
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

func (a *app) printChanged(f changedFile, verb string) error {
	if a.asJSON {
		return a.printJSON(f)
	}
	a.ui.printf("%s %s  %s\n", verb, f.Name, escapeText(string(f.CID)))
	return nil
}
