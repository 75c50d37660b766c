package view

import (
	"slices"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// Listing is the files of a group at one moment, under the names that a mount shows.
type Listing struct {
	*names.Listing
	Entries []sdk.Entry // removed and ended ones too, in the order of [View.Files]
}

// List returns the files of a view.
func (v *View) List() Listing {
	files := v.Files()
	list := make([]sdk.Entry, len(files))
	for i, e := range files {
		list[i] = *e
	}
	return Listing{names.List(list, (*sdk.Entry).Named), list}
}

// Trash returns the files in the trash, as they would be shown.
func (l Listing) Trash() Listing {
	trash := slices.DeleteFunc(slices.Clone(l.Entries), func(e sdk.Entry) bool {
		return e.Deleted == nil || !e.Deleted.InTrash
	})
	return Listing{names.List(trash, func(e *sdk.Entry) names.File {
		f := e.Named()
		f.Deleted = false
		return f
	}), trash}
}

// Current returns the newest living file of each name, by name, and the path that each is shown under.
func (l Listing) Current() (list []sdk.Entry, paths []string) {
	for _, name := range l.Names() {
		i, _ := l.Newest(name)
		list, paths = append(list, l.Entries[i]), append(paths, l.Shown(name))
	}
	return list, paths
}
