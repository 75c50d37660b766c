package main

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// trashedName is what rm and 'restore --trash' print as JSON, one document per name.
type trashedName struct {
	Name     string     `json:"name"`
	Versions int64      `json:"versions"`
	Until    *time.Time `json:"until,omitempty"` // removed: when the keys are destroyed
}

// restoreFromTrash brings names back from the trash of a group, with all their versions. All are found before the
// first is brought back.
func (a *app) restoreFromTrash(ctx context.Context, g sdk.Group, paths []string) error {
	trash, err := g.Trash(ctx)
	if err != nil {
		return err
	}
	list := listingOf(trash).trash()
	var found [][]sdk.Entry
	for _, what := range paths {
		chosen, ok := list.choose(what)
		if !ok {
			group := escapeName(string(g.ID))
			return refuse(exitNotFound, "see what can be brought back with: svcfs ls --trash "+group,
				fmt.Errorf("%s is not in the trash of group %s", escapeName(what), group))
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
		if a.asJSON {
			if err := a.printJSON(trashedName{Name: name, Versions: done.Versions}); err != nil {
				return err
			}
			continue
		}
		a.ui.printf("brought back %s  %s\n", name, plural(int(done.Versions), "version"))
	}
	return nil
}
