package tree

import "github.com/svcfs/svcfs/sdk"

// Change is what others made of a name: programs that watch a folder are told of it (R7).
type Change struct {
	Dir  *Dir
	Name string
	Gone Node // had the name; nil = nothing had it
	Now  Node // has it; nil = nothing has it
}

// maxTold is of how many changes in one listing watchers are told. More at once are no news for
// a person.
const maxTold = 100

// recordName is the recorded name of a file, or of a folder.
type recordName struct {
	raw    string
	folder bool
}

func nameOf(e *sdk.Entry) recordName {
	if e.Folder {
		return recordName{e.Name, true}
	}
	return recordName{recordedName(e), false}
}

// showing is where a file or folder was before a listing, with the folders above it; none = nowhere.
type showing []showingAt

// showingAt is one name on the way from a file or folder up to its group.
type showingAt struct {
	dir  *Dir
	name string
	n    Node
}

// before notes what names show that a listing is about to touch. Nothing is told of the first
// listing, nor where the service does not announce changes: looks are few there. Needs Tree.mu.
func (g *group) before(entries []sdk.Entry) map[recordName]showing {
	if !g.list.IsListed() || !g.dir.t.look.Watched() {
		return nil
	}
	list := make(map[recordName]showing)
	for i := range entries {
		list[nameOf(&entries[i])] = nil
		if known := g.view.Entry(entries[i].Ref); known != nil {
			list[nameOf(known)] = nil
		}
	}
	for name := range list {
		list[name] = g.showing(name)
	}
	return list
}

// showing returns the names from what shows a recorded name up to its group. Needs Tree.mu.
func (g *group) showing(name recordName) (way showing) {
	var d *Dir
	if name.folder {
		d = g.folderAt(name.raw)
	} else if v := g.names[name.raw]; v != nil && v.shown != nil && v.shown.dir != nil {
		d = v.shown.dir
		way = showing{{d, v.shown.name, v.shown}}
	}
	for ; d != nil && d.kind == dirFolder && d.parent != nil; d = d.parent {
		way = append(way, showingAt{d.parent, d.name, d})
	}
	return way
}

// isThere reports whether the name still shows the node. Needs Tree.mu.
func (s showingAt) isThere() bool {
	if d, ok := s.n.(*Dir); ok {
		return d.parent != nil
	}
	return s.n.(*File).dir != nil
}

// isNewerThan reports whether the node was made after a generation.
func (s showingAt) isNewerThan(gen uint64) bool {
	if d, ok := s.n.(*Dir); ok {
		return d.gen > gen
	}
	return s.n.(*File).gen > gen
}

// topmost returns the last of the names, beginning with the first, for which is holds.
func (s showing) topmost(is func(showingAt) bool) (top showingAt, found bool) {
	for i, at := range s {
		if is(at) {
			top, found = at, true
		} else if i == 0 {
			return top, false
		}
	}
	return top, found
}

// changedByOthers compares with what showed before a listing. made is the last
// generation of that time. Of folders that came or went, only the topmost counts: nobody
// can watch what is beneath a new one. Needs Tree.mu.
func (g *group) changedByOthers(was map[recordName]showing, made uint64) []notice {
	type place struct {
		dir  *Dir
		name string
	}
	changes := make(map[place]*Change)
	at := func(s showingAt) *Change {
		p := place{s.dir, s.name}
		if changes[p] == nil {
			changes[p] = &Change{Dir: s.dir, Name: s.name}
		}
		return changes[p]
	}
	for name, before := range was {
		if top, gone := before.topmost(func(s showingAt) bool { return !s.isThere() }); gone {
			at(top).Gone = top.n
		}
		if top, came := g.showing(name).topmost(func(s showingAt) bool { return s.isNewerThan(made) }); came {
			at(top).Now = top.n
		}
	}
	list := make([]Change, 0, len(changes))
	for _, c := range changes {
		if len(list) < maxTold {
			list = append(list, *c)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return []notice{func(k Kernel) { k.ChangedByOthers(list) }}
}
