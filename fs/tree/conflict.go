package tree

import (
	"errors"

	"github.com/svcfs/svcfs/sdk"
)

// A save says which version of its name it replaces. Where others saved the name meanwhile, the service refuses it, and
// it is recorded under a name of its own (W11, O7).

// setAside shows a save under a name of its own, and the name that it was made under as others saved it. A program that
// has the file f open goes on with it under the new name; f may be nil. Needs Tree.mu.
func (g *group) setAside(f *File, row *sdk.Entry, was string) (notices []notice) {
	touched := map[*versions]bool{g.version(was): true}
	g.mergeSave(touched, *row)
	if v := g.version(recordedName(row)); f != nil && f.isKind(fileReal) {
		named := f.dir != nil || len(f.links) == 0 // else its other names stay, and a new file shows this one
		if f.dir != nil {
			notices = f.dir.detach(f.name, f)
		}
		f.raw = v.raw
		f.take(row)
		if v.shown == nil && named {
			v.shown = f
			dir, name := g.slot(v.raw, string(row.Ref))
			notices = append(notices, dir.attach(name, f)...)
		}
	}
	notices = append(notices, g.placeAll(touched)...)
	path := g.dir.path()
	return append(notices, g.dir.t.noted(&Error{Class: ClassConflict, Op: "save", Path: join(path, was),
		Err: errors.New("somebody else saved this name meanwhile; the save from here is recorded as '" +
			join(path, row.Name) + "'" + g.notForTwo(was, f)),
		Hint: "See both, and settle it, with: svcfs conflicts"}), func(Kernel) { g.list.Begin() })
}
