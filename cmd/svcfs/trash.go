package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// trashedName is what rm and 'restore --trash' print as JSON, one document per name.
type trashedName struct {
	Name     string     `json:"name"`
	Versions int64      `json:"versions"`
	Until    *time.Time `json:"until,omitempty"`  // removed: when the keys are destroyed
	Folder   bool       `json:"folder,omitempty"` // a folder without files
}

// removedTogether is how long before a folder what was in it can have been removed to come back with it.
const removedTogether = time.Minute

// removedPaths is what a restore brings back: the versions of each file, and the folders that were removed themselves.
type removedPaths struct {
	files   [][]sdk.Entry
	folders []string
}

// restoreFromTrash brings names back from the trash of a group, with all their versions, and folders that were empty.
// All are found before the first is brought back.
func (a *app) restoreFromTrash(ctx context.Context, g sdk.Group, paths []string) error {
	found, err := findRemoved(ctx, g, paths)
	if err != nil {
		return err
	}
	withFiles := make(map[string]bool)
	for _, versions := range found.files {
		done, err := g.RestoreVersions(ctx, versions)
		if err != nil {
			return err
		}
		name := shownName(&versions[len(versions)-1])
		if err := a.printRestored(trashedName{Name: name, Versions: done.Versions}); err != nil {
			return err
		}
		file := versions[0].Name // of another client it may begin with a slash
		for i := strings.LastIndexByte(file, '/'); i > 0; i = strings.LastIndexByte(file[:i], '/') {
			withFiles[file[:i]] = true
		}
	}
	for _, folder := range found.folders {
		if _, err := g.MakeFolder(ctx, folder); errors.Is(err, sdk.ErrConflict) {
			return refuse(exitOther, "give what has its name another one with svcfs mv, then run it again", err)
		} else if err != nil {
			return err
		}
		if withFiles[folder] { // the lines of its files tell of it
			continue
		}
		if err := a.printRestored(trashedName{Name: names.Show(folder, ""), Folder: true}); err != nil {
			return err
		}
	}
	return nil
}

// findRemoved finds what paths stand for in the trash of a group, and each folder of that name with the folders
// that were removed with it.
func findRemoved(ctx context.Context, g sdk.Group, paths []string) (found removedPaths, err error) {
	trash, err := g.Trash(ctx)
	if err != nil {
		return found, err
	}
	list := listingOf(trash).trash()
	for _, what := range paths {
		folders, err := removedFolders(ctx, g, what)
		if err != nil {
			return found, err
		}
		chosen, ok := list.choose(what)
		if !ok && len(folders) == 0 {
			return found, notInTrash(ctx, g, what)
		}
		found.folders = append(found.folders, folders...)
		if ok {
			chosen.ref = "" // a reference stands for its name
			found.files = append(found.files, list.chosen(chosen, inTrash)...)
		}
	}
	return found, nil
}

// notInTrash is the error of what is not in the trash: it may be there, as after an earlier restore.
func notInTrash(ctx context.Context, g sdk.Group, what string) error {
	list, err := listOf(ctx, g)
	if err != nil {
		return err
	}
	group := escapeName(string(g.ID))
	if list.holds(what) {
		return refuse(exitNotFound, "nothing is to be done; see it with: svcfs ls "+shellWord(group),
			fmt.Errorf("%s is there, and not in the trash of group %s", escapeName(what), group))
	}
	return refuse(exitNotFound, "see what can be brought back with: svcfs ls --trash "+shellWord(group),
		fmt.Errorf("%s is not in the trash of group %s", escapeName(what), group))
}

func (a *app) printRestored(t trashedName) error {
	switch {
	case a.asJSON:
		return a.printJSON(t)
	case t.Folder:
		a.ui.printf("brought back %s/\n", t.Name)
	default:
		a.ui.printf("brought back %s  %s\n", t.Name, plural(int(t.Versions), "version"))
	}
	return nil
}

// removedFolders returns the recorded folder that was removed under a path, and behind it those beneath it that were
// removed with it, or none. The trash has files alone; that a folder was removed is in the ledger.
func removedFolders(ctx context.Context, g sdk.Group, what string) (folders []string, err error) {
	entries, err := g.Entries(ctx, sdk.ListOptions{Folders: true})
	if err != nil {
		return nil, err
	}
	removed := make(map[string]time.Time)
	for i := range entries {
		if e := &entries[i]; e.Folder && e.Deleted != nil && e.Deleted.Time.After(removed[e.Name]) {
			removed[e.Name] = e.Deleted.Time
		}
	}
	for _, e := range entries {
		if e.Folder && e.Deleted == nil {
			delete(removed, e.Name)
		}
	}
	for name, at := range removed {
		if names.Show(name, "") != what {
			continue
		}
		for other, then := range removed {
			if other == name || strings.HasPrefix(other, name+"/") && at.Sub(then).Abs() <= removedTogether {
				folders = append(folders, other)
			}
		}
		slices.Sort(folders)
		return folders, nil
	}
	return nil, nil
}
