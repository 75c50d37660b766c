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

// showing is where a file was before a listing, with the folders above it.
type showing struct {
	f  *File
	at []showingAt
}

// showingAt is one name on the way from a file up to its group.
type showingAt struct {
	dir  *Dir
	name string
	n    Node
}

// before notes what names show that a listing is about to touch. Nothing is told of the first
// listing, nor where the service does not announce changes: looks are few there. Needs Tree.mu.
func (t *Tree) before(g *group, entries []sdk.Entry) map[string]showing {
	if !g.loaded || !t.watched.Load() {
		return nil
	}
	list := make(map[string]showing)
	for i := range entries {
		list[recordedName(&entries[i])] = showing{}
		if known := g.byRef[entries[i].Ref]; known != nil {
			list[recordedName(known)] = showing{}
		}
	}
	for raw := range list {
		if v := g.names[raw]; v != nil && v.shown != nil && v.shown.dir != nil {
			list[raw] = showing{v.shown, wayUp(v.shown)}
		}
	}
	return list
}

// wayUp returns the names from a file up to its group. Needs Tree.mu.
func wayUp(f *File) []showingAt {
	way := []showingAt{{f.dir, f.name, f}}
	for d := f.dir; d.kind == dirFolder && d.parent != nil; d = d.parent {
		way = append(way, showingAt{d.parent, d.name, d})
	}
	return way
}

// changedByOthers compares with what showed before a listing. made is the last
// generation of that time. Of folders that came or went, only the topmost counts: nobody
// can watch what is beneath a new one. Needs Tree.mu.
func (t *Tree) changedByOthers(g *group, was map[string]showing, made uint64) []notice {
	type place struct {
		dir  *Dir
		name string
	}
	changes := make(map[place]*Change)
	at := func(dir *Dir, name string) *Change {
		p := place{dir, name}
		if changes[p] == nil {
			changes[p] = &Change{Dir: dir, Name: name}
		}
		return changes[p]
	}
	for raw, before := range was {
		var now *File
		if v := g.names[raw]; v != nil {
			now = v.shown
		}
		if now == before.f {
			continue
		}
		if before.f != nil && before.f.dir == nil {
			top := before.at[0]
			for _, up := range before.at[1:] {
				if d, ok := up.n.(*Dir); ok && d.parent == nil {
					top = up
				}
			}
			at(top.dir, top.name).Gone = top.n
		}
		if now != nil && now.dir != nil && now.gen > made {
			way := wayUp(now)
			top := way[0]
			for _, up := range way[1:] {
				if d, ok := up.n.(*Dir); ok && d.gen > made {
					top = up
				}
			}
			at(top.dir, top.name).Now = top.n
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
