package main

import (
	"context"
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

// restoreFromTrash brings names back from the trash of a group, with all their versions, and folders that were empty.
// All are found before the first is brought back.
func (a *app) restoreFromTrash(ctx context.Context, g sdk.Group, paths []string) error {
	trash, err := g.Trash(ctx)
	if err != nil {
		return err
	}
	list := listingOf(trash).trash()
	var found [][]sdk.Entry
	var folders []string
	for _, what := range paths {
		chosen, ok := list.choose(what)
		if !ok {
			empty, err := removedFolders(ctx, g, what)
			if err != nil {
				return err
			}
			folders = append(folders, empty...)
			continue
		}
		chosen.ref = "" // a reference stands for its name
		found = append(found, list.chosen(chosen, inTrash)...)
	}
	for _, versions := range found {
		done, err := g.RestoreVersions(ctx, versions)
		if err != nil {
			return err
		}
		name := shownName(&versions[len(versions)-1])
		if err := a.printRestored(trashedName{Name: name, Versions: done.Versions}); err != nil {
			return err
		}
	}
	for _, folder := range folders {
		if _, err := g.MakeFolder(ctx, folder); err != nil {
			return err
		}
		if err := a.printRestored(trashedName{Name: names.Show(folder, ""), Folder: true}); err != nil {
			return err
		}
	}
	return nil
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
// removed with it. The trash has files alone; that a folder was removed is in the ledger.
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
	group := escapeName(string(g.ID))
	return nil, refuse(exitNotFound, "see what can be brought back with: svcfs ls --trash "+shellWord(group),
		fmt.Errorf("%s is not in the trash of group %s", escapeName(what), group))
}
