package main

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

// trashedName is what rm and 'restore --trash' print as JSON, one document per name.
type trashedName struct {
	Name     string     `json:"name"`
	Versions int64      `json:"versions"`
	Until    *time.Time `json:"until,omitempty"` // removed: when the keys are destroyed
}

// rm puts names into the trash.
func (a *app) rm(ctx context.Context, g sdk.Group, wanted []string) error {
	list, err := listOf(ctx, g)
	if err != nil {
		return err
	}
	return eachName(g, list, wanted, lives, func(name string, versions []sdk.Entry) error {
		done, err := g.RemoveVersions(ctx, versions)
		if err != nil {
			return err
		}
		if a.asJSON {
			return a.printJSON(trashedName{name, done.Versions, timeOrNil(done.Until)})
		}
		a.ui.printf("removed %s  %s, in the trash %s\n", name, plural(int(done.Versions), "version"),
			untilText(done.Until))
		return nil
	})
}

// restoreFromTrash brings names back from the trash, with all their versions.
func (a *app) restoreFromTrash(ctx context.Context, g sdk.Group, wanted []string) error {
	entries, err := g.Trash(ctx)
	if err != nil {
		return err
	}
	trash := view.Of(entries)
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
func eachName(g sdk.Group, list view.Listing, wanted []string, must func(*sdk.Entry) bool,
	change func(name string, versions []sdk.Entry) error) error {
	chosen := make([][]sdk.Entry, len(wanted))
	for i, what := range wanted {
		found, err := versionsOf(g.ID, list, what, must)
		if err != nil {
			return err
		}
		name := found[0].Named().Recorded // a reference stands for its name
		for _, e := range list.Entries {
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
