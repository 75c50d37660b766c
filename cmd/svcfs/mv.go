package main

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

func (a *app) mvCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mv GROUP NAME... NEWNAME | PLACE... NEWPLACE",
		Short: "Give a file or folder another name; content and references stay",
		Long: `Give a file or folder another name; content and references stay. ` + placeHelp + `
A name means all versions of that name, a reference one version, and a folder all files
beneath it, whole or not at all. A name that is in use is refused. Several files, and
what a pattern matches, go into a folder: then NEWNAME ends with a slash. Only the
uploader of a file and the owner of the group may rename the file, and only where the
service can rename files, or folders. One command renames about 100,000 versions in
a folder: their new names take at most 32 MiB, and 64 bytes for each are counted too.`,
		Example: "  svcfs mv team draft.txt final.txt\n  svcfs mv team notes.txt archive/2026/notes.txt\n" +
			"  svcfs mv team/drafts team/archive/drafts\n  svcfs mv team '*.pdf' papers/",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := inGroups("a GROUP, a NAME and a NEWNAME")(cmd, args); err != nil {
				return err
			}
			places, err := placesOf(args)
			if err == nil && len(places) < 2 {
				err = usage("usage: "+cmd.UseLine(), "svcfs mv wants a NAME and a NEWNAME")
			}
			isElsewhere := func(p place) bool { return p.group != places[0].group }
			if err == nil && slices.ContainsFunc(places, isElsewhere) {
				err = usage("fetch it and put it there: svcfs get, then svcfs put", "a file stays in its group")
			}
			return err
		},
		PreRunE: first(func(args []string) error {
			places, err := placesOf(args)
			if err != nil {
				return err
			}
			return checkNewName(places[len(places)-1].path)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			isInto := strings.HasSuffix(args[len(args)-1], "/")
			return a.changePlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
				last := len(places) - 1
				return byGroup(places[:last], func(group sdk.GroupID, paths []string) error {
					return a.mv(ctx, c.Group(group), paths, places[last].path, isInto)
				})
			})(cmd, args)
		},
		ValidArgsFunction: a.completePlace,
	}
}

// mv renames what paths name in a group; isInto: into the folder to.
func (a *app) mv(ctx context.Context, g sdk.Group, paths []string, to string, isInto bool) error {
	list, err := listOf(ctx, g)
	if err != nil {
		return err
	}
	renames := make(map[string][]sdk.Entry) // by new name
	for _, what := range paths {
		chosen, ok := list.choose(what)
		versions := list.chosen(chosen, lives)
		if !ok || len(versions) == 0 {
			return list.absent(g.ID, what)
		}
		if folder, is := list.Folder(what); is && !chosen.many && len(paths) == 1 && chosen.whole {
			return a.mvFolder(ctx, g, list, folder, to)
		}
		if (len(paths) > 1 || chosen.many) && !isInto {
			return usage("end it with a slash: "+escapeName(to)+"/", "several files go into a folder")
		}
		if chosen.whole {
			return usage("move it by itself", escapeName(what)+" is, or matches, a folder")
		}
		for i, name := range chosen.names {
			at := to
			if isInto {
				at += "/" + path.Base(name)
			}
			if _, isUsed := list.Newest(at); isUsed || renames[at] != nil {
				return inUse(at, "file")
			}
			renames[at] = versions[i]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(renames)) {
		if err := a.mvName(ctx, g, renames[name], name); err != nil {
			return err
		}
	}
	return nil
}

// mvName renames the versions of one name, or none of them.
func (a *app) mvName(ctx context.Context, g sdk.Group, versions []sdk.Entry, name string) error {
	if _, err := g.RenameVersions(ctx, versions, name); err != nil {
		return err
	}
	for _, e := range versions {
		if !a.asJSON {
			break
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
func (a *app) mvFolder(ctx context.Context, g sdk.Group, list listing, folder, to string) error {
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
