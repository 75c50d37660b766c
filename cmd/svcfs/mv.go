package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/view"
)

func (a *app) mvCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mv GROUP REF|NAME|FOLDER NEWNAME",
		Short: "Give a file or folder another name; content and references stay",
		Long: `Give a file or folder another name; content and references stay. NAME means all
versions of that name, REF means one version, FOLDER means all files beneath it, whole
or not at all. A name that is in use is refused. Only the uploader of a file and the
owner of the group may rename the file, and only where the service can rename files,
or folders. One command renames at most 10,000 versions in a folder.`,
		Example: "  svcfs mv team draft.txt final.txt\n  svcfs mv team notes.txt archive/2026/notes.txt\n" +
			"  svcfs mv team drafts archive/drafts",
		Args: exactly(3, "a GROUP, a REF, NAME or FOLDER, and a NEWNAME"),
		PreRunE: first(func(args []string) error {
			return checkNewName(strings.TrimSuffix(args[2], "/")) // of a folder
		}),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			return a.mv(ctx, g, args[1], args[2])
		}),
		ValidArgsFunction: a.completeGroupThen(a.completeName),
	}
}

func (a *app) mv(ctx context.Context, g sdk.Group, what, name string) error {
	list, err := listOf(ctx, g)
	if err != nil {
		return err
	}
	versions, err := versionsOf(g.ID, list, what, lives)
	if err != nil {
		if folder, is := list.Folder(strings.TrimSuffix(what, "/")); is {
			return a.mvFolder(ctx, g, list, folder, strings.TrimSuffix(name, "/"))
		}
		return err
	}
	if err := checkNewName(name); err != nil {
		return err
	}
	if _, isUsed := list.Newest(name); isUsed {
		return inUse(name, "file")
	}
	for _, e := range versions {
		if _, err := g.Rename(ctx, e.Ref, name); err != nil {
			return err
		}
		if !a.asJSON {
			continue
		}
		f := changedFile{Name: shownName(&e), NewName: names.Show(name, string(e.Ref)), CID: e.Ref,
			FileHash: hashText(e.Hash)}
		if err := a.printJSON(f); err != nil {
			return err
		}
	}
	if !a.asJSON {
		newest := &versions[len(versions)-1]
		a.ui.printf("renamed %s to %s, with %s\n", shownName(newest), names.Show(name, string(newest.Ref)),
			plural(len(versions), "version"))
	}
	return nil
}

func inUse(name, what string) error {
	return refuse(exitOther, "choose another name, or remove that "+what+" first",
		errors.New(escapeName(name)+" is in use"))
}

// renamedFolder is what mv prints as JSON for a folder.
type renamedFolder struct {
	Folder    string `json:"folder"`
	NewFolder string `json:"new_folder"`
	Versions  int64  `json:"versions"`
}

// mvFolder renames all that lives beneath a recorded folder, or nothing.
func (a *app) mvFolder(ctx context.Context, g sdk.Group, list view.Listing, folder, to string) error {
	if _, isUsed := list.Newest(to); isUsed {
		return inUse(to, "file")
	}
	if _, isUsed := list.Folder(to); isUsed && !strings.HasPrefix(to, folder+"/") {
		return inUse(to, "folder")
	}
	var seen sdk.Seq
	for _, e := range list.Entries {
		if strings.HasPrefix(e.Name, folder+"/") {
			seen = max(seen, e.ChangedSeq)
		}
	}
	done, err := g.RenameFolder(ctx, folder, to, seen)
	if err != nil {
		return err
	}
	shown, now := names.Show(folder, ""), names.Show(to, "")
	if a.asJSON {
		return a.printJSON(renamedFolder{shown, now, done.Versions})
	}
	a.ui.printf("renamed %s to %s, with %s of files\n", shown, now, plural(int(done.Versions), "version"))
	return nil
}
