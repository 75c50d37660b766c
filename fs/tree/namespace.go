package tree

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/view"
)

// attach gives n the name in d, as it is shown; nothing else may have that. It is the
// main name of a file, see [Dir.attachLink] for others. It returns the notices for the
// kernel. Needs Tree.mu.
func (d *Dir) attach(name string, n Node) []notice {
	d.children[name] = n
	switch n := n.(type) {
	case *File:
		n.dir, n.name = d, name
		d.group.noteLinks(n)
		return d.disown(d.t.isForeign(n.entry.Load()))
	case *Dir:
		n.parent, n.name = d, name
		n.hold(1)
		d.group.noteLinks(n)
		return d.disown(n.foreign)
	}
	return nil
}

// attachLink gives f a further name. Needs Tree.mu.
func (d *Dir) attachLink(name string, f *File) {
	d.children[name] = f
	f.links = append(f.links, link{d, name})
}

// detach takes the name in d from n, if n still has it. A file that loses its main name
// shows its recorded name no more. It returns the notices for the kernel. Needs
// Tree.mu.
func (d *Dir) detach(name string, n Node) []notice {
	if d.children[name] != n {
		return nil
	}
	delete(d.children, name)
	d.spend(name, n)
	d.group.noteLinks(n)
	switch n := n.(type) {
	case *File:
		if n.dir != d || n.name != name {
			n.links = slices.DeleteFunc(n.links, func(l link) bool { return l == link{d, name} })
			break
		}
		n.unshow()
		n.dir = nil
	case *Dir:
		n.parent = nil
		n.hold(-1)
	}
	return []notice{entryChanged(d, name)}
}

// prune detaches d if it is a folder that was left empty, is not recorded, was not made here and holds nothing that is
// not known, and so on upwards. Needs Tree.mu.
func (d *Dir) prune() (notices []notice) {
	for at := d; at.kind == dirFolder && !at.local && at.recorded == "" && len(at.children) == 0 && at.parent != nil &&
		!at.mayHoldMore(); {
		parent := at.parent
		notices = append(notices, parent.detach(at.name, at)...)
		at = parent
	}
	return notices
}

// drop takes a name from f because a program removes it, or gives it to another file. A
// link takes the place of a main name; without any name f is unlinked. It returns the
// recorded name that f showed, or hid, which is to be placed. Needs Tree.mu.
func (d *Dir) drop(f *File, name string) (*versions, []notice) {
	f.setMoved(d.t.now())
	if slices.Contains(f.links, link{d, name}) {
		notices := d.detach(name, f)
		if f.dir == nil && len(f.links) == 0 { // others took the main name: this was the last
			f.become(fileRemoved)
		}
		return nil, notices
	}
	v := f.shows()
	notices := d.detach(name, f)
	if len(f.links) > 0 {
		f.dir = nil
		f.useLink(0)
		return v, notices
	}
	wasScratch := f.isKind(fileScratch)
	f.become(fileRemoved)
	if e := f.record(); e != nil && wasScratch {
		if hid := f.group.version(recordedName(e)); hid.hidden == e.Ref {
			hid.hidden, v = "", hid
		}
	}
	return v, notices
}

// useLink makes a link the main name of f, and the main name, if it has one, a link.
// Needs Tree.mu.
func (f *File) useLink(i int) {
	to := f.links[i]
	if f.dir != nil {
		f.links[i] = link{f.dir, f.name}
	} else {
		f.links = slices.Delete(f.links, i, i+1)
	}
	f.dir, f.name, f.raw = to.dir, to.name, to.dir.rawPath(to.name)
	f.become(fileScratch)
}

// isLink reports whether the name in d is a further one of f.
func (f *File) isLink(d *Dir, name string) bool {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return slices.Contains(f.links, link{d, name})
}

// shows returns the recorded name that f shows, or nil. Needs Tree.mu.
func (f *File) shows() *versions {
	if f.group == nil {
		return nil
	}
	if v := f.group.names[f.raw]; v != nil && v.shown == f {
		return v
	}
	return nil
}

// unshow has the recorded name of f show it no more. Needs Tree.mu.
func (f *File) unshow() {
	if v := f.shows(); v != nil {
		v.shown = nil
		f.group.forgetEmpty(v)
	}
}

// versions are the uploads of one recorded name, and the file that shows the
// newest of them.
type versions struct {
	raw     string
	entries []*sdk.Entry // records, ascending; deleted ones stay
	waiting []*sdk.Entry // after these: saves from here that have no record yet, see [save.Entry]
	shown   *File        // nil when none lives, or when hidden
	// hidden: a program renamed the file to a scratch name in this mount (W8),
	// so the name is free here until a newer upload arrives.
	hidden sdk.Ref // "" when none is
	// saved is the last upload of this name by this mount, and base the upload that it
	// was made from: an upload by others between the two is a conflict (W11).
	saved, base sdk.Seq
	unsure      []sdk.Digest // contents of the last saves since then that got no answer
}

// overtook returns an upload by another account that the last save of this mount did not
// know of, and reports each upload once. Needs Tree.mu.
func (v *versions) overtook(own map[sdk.Ref]struct{}) *sdk.Entry {
	for _, e := range v.entries {
		if _, ours := own[e.Ref]; !ours && e.Seq > v.base && e.Seq < v.saved {
			v.base = v.saved
			return e
		}
	}
	return nil
}

// conflict notifies the second of two writers (W11). Needs Tree.mu.
func (g *group) conflict(v *versions) []notice {
	e := v.overtook(g.own)
	if e == nil {
		return nil
	}
	return []notice{g.conflictWith(v.raw, e, false)}
}

// conflictWith tells of another upload of a name, and whether it went to the trash. Needs Tree.mu.
func (g *group) conflictWith(raw string, e *sdk.Entry, inTrash bool) notice {
	became, where := "both are kept, and the newest is shown", "/history/"
	if inTrash {
		became, where = "it is in the trash, and what was saved here is shown", "/trash/"
	}
	return g.dir.t.noted(&Error{Class: ClassConflict, Op: "close", Path: join(g.dir.path(), raw),
		Err: errors.New(string(e.Uploader) + " uploaded this name while it was changed here; " + became +
			g.notForTwo(raw, g.version(raw).shown)),
		Hint: "Compare with the others: ls -l '" + g.dir.t.cfg.Mountpoint +
			join(g.dir.path(), names.Control+where+report.OneLine(raw)) + "'"})
}

// age is where in the ledger the name came to be.
func (v *versions) age() (oldest sdk.Seq) {
	if len(v.entries) == 0 && len(v.waiting) > 0 {
		return v.waiting[0].Seq
	}
	for i, e := range v.entries {
		if at := sdk.Seq(e.Named().Age); i == 0 || at < oldest {
			oldest = at
		}
	}
	return oldest
}

// recordedName returns the name e is listed under. A name is a path: slashes divide
// folders.
func recordedName(e *sdk.Entry) string { return e.Named().Recorded }

// newest returns the newest save that is not deleted, or nil.
func (v *versions) newest() *sdk.Entry {
	if n := len(v.waiting); n > 0 {
		return v.waiting[n-1]
	}
	return v.newestRecord()
}

// newestRecord is newest without what waits to be recorded.
func (v *versions) newestRecord() *sdk.Entry {
	for _, e := range slices.Backward(v.entries) {
		if e.Deleted == nil {
			return e
		}
	}
	return nil
}

// merge takes rows of files and folders into the view of the group, and marks the names that they touch: two when
// a file was renamed. It returns the folders among them. Needs Tree.mu.
func (g *group) merge(touched map[*versions]bool, rows ...sdk.Entry) (folders []*sdk.Entry) {
	return g.mergeChanges(touched, g.apply(rows...))
}

// apply takes rows into the view. Needs Tree.mu.
func (g *group) apply(rows ...sdk.Entry) []view.Change {
	if p := g.part.Load(); p != nil {
		return p.Own(rows...)
	}
	return g.view.Apply(rows...)
}

// mergeChanges is merge for rows that the view has taken, or dropped. Needs Tree.mu.
func (g *group) mergeChanges(touched map[*versions]bool, changes []view.Change) (folders []*sdk.Entry) {
	for _, c := range changes {
		if was := c.Was; was != nil {
			g.hold(-was.Footprint())
			if !was.Folder {
				v := g.names[recordedName(was)]
				v.entries = slices.DeleteFunc(v.entries, func(e *sdk.Entry) bool { return e == was })
				touched[v] = true
				g.changes++
			}
		}
		now := c.Now
		if now == nil {
			continue
		}
		g.hold(now.Footprint())
		if now.Folder {
			folders = append(folders, now)
			continue
		}
		g.changes++
		v := g.version(recordedName(now))
		at := len(v.entries)
		for at > 0 && v.entries[at-1].Seq > now.Seq {
			at--
		}
		v.entries = slices.Insert(v.entries, at, now)
		touched[v] = true
	}
	if p := g.part.Load(); p != nil {
		g.holdPart(p.Footprint())
		for _, path := range p.Opened() {
			g.dir.t.inDoubt = append(g.dir.t.inDoubt, recordedFolder{g, path})
		}
	}
	for _, c := range changes {
		if c.Now != nil {
			continue
		}
		if c.Was.Folder {
			folders = append(folders, c.Was)
		}
		if g.view.Entry(c.Was.Ref) == nil {
			delete(g.own, c.Was.Ref) // its row is not to come
		}
	}
	return folders
}

// version returns the record of a name, made when it is new. Needs Tree.mu.
func (g *group) version(raw string) *versions {
	v := g.names[raw]
	if v == nil {
		v = &versions{raw: raw}
		g.names[raw] = v
		g.unlearned[v] = struct{}{}
		g.hold(v.footprint())
	}
	return v
}

// forgetEmpty forgets a name that no upload has any more, and no file: a program may make thousands of temporary files,
// and a service could give a file one name after the other. What was saved here under the name still matters while a
// listing may bring what others saved before it (W11), or the save itself, whose answer was lost. Needs Tree.mu.
func (g *group) forgetEmpty(v *versions) {
	if len(v.entries)+len(v.waiting) > 0 || v.shown != nil || v.hidden != "" || v.saved > v.base ||
		len(v.unsure) > 0 || g.names[v.raw] != v {
		return
	}
	delete(g.names, v.raw)
	delete(g.theirLinks, v)
	g.unlearnPast(v)
	g.hold(-v.footprint())
}

// placeMerged places the names that a merge touched, and reports conflicts. Needs
// Tree.mu.
func (g *group) placeMerged(touched map[*versions]bool) []notice {
	notices := g.placeAll(touched)
	for v := range touched {
		notices = append(notices, g.conflict(v)...)
	}
	return notices
}

// placeAll places many names. Names that appear come before names that vanish, so that a
// rename inside a folder does not take the folder away; a file that gets the name of a
// folder comes last. Of names that collide, the older one comes first, and keeps the name
// (N3). Needs Tree.mu.
func (g *group) placeAll(touched map[*versions]bool) (notices []notice) {
	type aged struct {
		*versions
		since sdk.Seq
	}
	ordered := make([]aged, 0, len(touched))
	for v := range touched {
		ordered = append(ordered, aged{v, v.age()})
	}
	slices.SortFunc(ordered, func(a, b aged) int {
		return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.raw, b.raw))
	})
	vacated := make(map[string]bool) // folders that something vanishes from
	for v := range touched {
		if v.newest() != nil || v.shown == nil {
			continue
		}
		for i, c := range v.raw {
			if c == '/' {
				vacated[v.raw[:i]] = true
			}
		}
	}
	for _, pass := range []func(*versions) bool{
		func(v *versions) bool { return v.newest() != nil && !vacated[v.raw] },
		func(v *versions) bool { return v.newest() == nil },
		func(v *versions) bool { return v.newest() != nil && vacated[v.raw] },
	} {
		for _, v := range ordered {
			if pass(v.versions) {
				notices = append(notices, g.place(v.versions)...)
			}
		}
	}
	return notices
}

// place makes the tree show the newest upload of v. A file with staged content
// keeps showing that until it is committed. An upload that this file did not save is another
// file, with a number of its own (A4). The kernel gets no notice of a name that only appears:
// a late notice would throw a program out of a folder that it has entered by then. Needs
// Tree.mu.
func (g *group) place(v *versions) []notice {
	t := g.dir.t
	if g.gone || v.shown != nil && (v.shown.now.IsStaged() || g.awaits(v)) {
		return nil
	}
	newest := v.newest()
	if newest != nil && newest.Ref == v.hidden {
		return nil
	}
	v.hidden = ""
	old := v.shown
	switch {
	case newest == nil && old == nil:
		g.forgetEmpty(v)
		return nil
	case newest == nil:
		dir := old.dir
		notices := append(dir.detach(old.name, old), dir.prune()...)
		return append(notices, contentChanged(old))
	case old != nil && old.entry.Load() != nil && old.entry.Load().Ref == newest.Ref &&
		old.target == old.dir.shownTarget(newest):
		if old.take(newest) {
			return append(old.dir.disown(t.isForeign(newest)), attributesChanged(old.dir, old.name))
		}
		return old.dir.disown(t.isForeign(newest))
	}
	var dir *Dir
	var name string
	var target string
	var notices []notice
	if old != nil {
		dir, name = old.dir, old.name
		target = dir.shownTarget(newest) // before the name is gone: a link may lead to itself
		notices = dir.detach(name, old)
	} else {
		dir, name = g.slot(v.raw, string(newest.Ref))
		target = dir.shownTarget(newest)
	}
	f := dir.newFile(name)
	f.target = target
	f.group, f.raw = g, v.raw
	if targetOf(newest) != "" && t.isForeign(newest) {
		g.noteTheirLink(v)
	}
	f.setEntry(newest)
	v.shown = f
	return append(dir.attach(name, f), notices...)
}

// awaits reports whether the file that shows v was saved, and its record is about to be merged:
// a listing from before the save knows nothing of it. Needs Tree.mu.
func (g *group) awaits(v *versions) bool {
	e := v.shown.entry.Load()
	if e == nil || e.Name != v.raw || g.entry(e.Ref) != nil {
		return false
	}
	_, saved := g.own[e.Ref]
	return saved
}

// slot finds the directory and the free name for a recorded name, and makes the folders
// on the way (N2, N3). The first file or folder with a name keeps it: a later file gets a
// suffix made of ref, and a later folder one made of its recorded name. Needs Tree.mu.
func (g *group) slot(raw, ref string) (*Dir, string) {
	parts := strings.Split(raw, "/")
	dir := g.dir
	for _, part := range parts[:len(parts)-1] {
		dir = dir.makeFolder(part)
	}
	return dir, names.Free(names.Component(parts[len(parts)-1]), ref, func(name string) bool {
		return dir.children[name] == nil
	})
}

// makeFolder returns the folder of that recorded component in dir, making it.
// Needs Tree.mu.
func (d *Dir) makeFolder(raw string) *Dir {
	there, name := d.folder(raw)
	if there != nil {
		return there
	}
	made := d.t.newDir(d, name, dirFolder)
	made.raw = raw
	d.attach(name, made)
	return made
}

// folder returns the folder of that recorded component in d, or nil and the name that it would
// have. Needs Tree.mu.
func (d *Dir) folder(raw string) (there *Dir, name string) {
	name = names.Free(names.Component(raw), raw, func(name string) bool {
		there, _ = d.children[name].(*Dir)
		if there != nil && there.raw != raw {
			there = nil
		}
		return there != nil || d.children[name] == nil
	})
	return there, name
}
