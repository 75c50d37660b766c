package tree

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// Rename moves name to newName in to.
//
// A staged or scratch file that gets a real name is committed under it before
// Rename returns: one save, one charge (W7). An uploaded file may take a scratch
// name, in this mount, as editors do for a backup, and its own name back; any
// other name needs a service that renames (W8).
func (d *Dir) Rename(ctx context.Context, name string, to *Dir, newName string, noReplace bool) error {
	if err := d.changeable("rename", name); err != nil {
		return err
	}
	if err := to.changeable("rename", newName); err != nil {
		return err
	}
	if d.group == nil || to.group == nil {
		return d.refuse(ClassByDesign, "rename", name, "groups have the name they were registered under", "Make another group: svcfs group create NAME")
	}
	n, err := d.existing(ctx, "rename", name)
	if err != nil {
		return err
	}
	target := to.child(newName)
	if target != nil && noReplace {
		return plain(ClassExist, "rename", join(to.Path(), newName), "the name exists")
	}
	if n == target {
		return nil
	}
	if dir, ok := n.(*Dir); ok {
		return d.renameFolder(ctx, dir, to, newName, target)
	}
	if _, ok := target.(*Dir); ok {
		return plain(ClassIsDir, "rename", join(to.Path(), newName), "a folder has this name")
	}
	replaced, _ := target.(*File)
	return d.renameFile(ctx, name, n.(*File), to, newName, replaced)
}

// renameFile renames f once no commit of it or of what it replaces is under way.
func (d *Dir) renameFile(ctx context.Context, name string, f *File, to *Dir, newName string, replaced *File) error {
	leave, err := enterBoth(ctx, f, replaced)
	if err != nil {
		return f.failed("rename", err)
	}
	defer leave()
	t := d.t
	if !t.choose(f, d, name) {
		return d.renameLink(f, name, to, newName)
	}
	how, refused := t.mayRename(f, to, newName)
	if refused != nil {
		return f.failed("rename", refused)
	}
	var row *sdk.Entry
	switch how {
	case renameRecords:
		if err := t.renameRecorded(ctx, f, to, newName); err != nil {
			return f.failed("rename", err)
		}
		return nil
	case renameCommits:
		if row, err = f.commitRenamed(ctx, to, newName); err != nil {
			return f.failed("rename", err)
		}
	}
	t.move(f, to, newName, how == renameToScratch, row)
	if replaced != nil {
		replaced.forsake()
	}
	return nil
}

// enterBoth keeps commits of two files out, always in the same order. b may be nil.
func enterBoth(ctx context.Context, a, b *File) (leave func(), err error) {
	if b != nil && b.gen < a.gen {
		a, b = b, a
	}
	first := a.nameGate()
	if err := first.enter(ctx); err != nil {
		return nil, err
	}
	if b == nil {
		return first.leave, nil
	}
	second := b.nameGate()
	if err := second.enter(ctx); err != nil {
		first.leave()
		return nil, err
	}
	return func() { second.leave(); first.leave() }, nil
}

// choose makes name in d the main name of f. It returns false when that is a
// further name of a file with a real one, which stays what it is.
func (t *Tree) choose(f *File, d *Dir, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(f.links, link{d, names.Component(name)})
	if i < 0 {
		return true
	}
	if !f.scratch.Load() {
		return false
	}
	main := link{f.dir, f.name}
	f.dir, f.name, f.raw = d, f.links[i].name, d.rawPath(name)
	f.links[i] = main
	return true
}

// renameLink moves a scratch name of a file that has a real one.
func (d *Dir) renameLink(f *File, name string, to *Dir, newName string) error {
	if !to.isScratch(newName) || d.group != to.group {
		return d.refuse(ClassByDesign, "rename", name, "a file of the ledger has one name", "Copy the file instead.")
	}
	t := d.t
	t.mu.Lock()
	from, shown := link{d, names.Component(name)}, names.Component(newName)
	var notices []notice
	if old, ok := to.children[shown].(*File); ok && old != f {
		notices = t.dropName(old, to, shown)
	}
	f.links[slices.Index(f.links, from)] = link{to, shown}
	delete(d.children, from.name)
	to.children[shown] = f
	d.mtime, to.mtime = t.now(), t.now()
	t.mu.Unlock()
	t.tell(notices)
	return nil
}

type renameHow uint8

const (
	renameToScratch renameHow = iota // in this mount only
	renameCommits                    // the content is recorded under the new name, if it is not yet
	renameBack                       // a backup takes its own name again
	renameRecords                    // the service records the new name
)

// mayRename applies W8.
func (t *Tree) mayRename(f *File, to *Dir, newName string) (renameHow, *Error) {
	toScratch, e := to.isScratch(newName), t.recordOf(f)
	if e != nil && !f.isOf(to.group) {
		if t.cfg.AllowDelete {
			return 0, &Error{Class: ClassCrossDevice, Err: errText("groups are sealed with different keys"), Hint: "mv copies the file and deletes the original."}
		}
		return 0, &Error{Class: ClassByDesign, Err: errText("an uploaded file stays in its group: moving it would buy a copy and could not remove the original"),
			Hint: "Copy it, if a second upload is wanted."}
	}
	switch {
	case toScratch:
		return renameToScratch, nil
	case e == nil: // never uploaded: it may go anywhere
		return renameCommits, nil
	}
	if f.scratch.Load() {
		t.mu.RLock()
		back, newest := to.rawPath(newName) == recordedName(e), t.isNewest(e)
		t.mu.RUnlock()
		switch {
		case f.staged.Load() || back && !newest:
			return renameCommits, nil
		case back:
			return renameBack, nil
		case !newest: // its name was saved again: the versions are not this file's alone
			return 0, keepsName("the name it was uploaded under was saved again since")
		}
	}
	if t.cfg.CanRename {
		return renameRecords, nil
	}
	return 0, keepsName("the ledger keeps the name a file was uploaded under")
}

func keepsName(why string) *Error {
	return &Error{Class: ClassByDesign, Err: errText(why), Hint: "Copy it to the new name, which uploads it again."}
}

// renameRecorded lets the service rename every version of f (W8). Onto a name
// that has newer uploads it cannot: they would go on showing.
func (t *Tree) renameRecorded(ctx context.Context, f *File, to *Dir, newName string) error {
	g, e := to.group, t.recordOf(f)
	if e == nil {
		return &Error{Class: ClassNotExist, Err: errText("the file is gone")}
	}
	t.mu.RLock()
	from, raw := recordedName(e), to.rawPath(newName)
	list, there := livingOf(g.names[from]), livingOf(g.names[raw])
	t.mu.RUnlock()
	if len(list) == 0 {
		return &Error{Class: ClassNotExist, Err: errText("the file is gone")}
	}
	if len(there) > 0 && there[len(there)-1].Seq > list[len(list)-1].Seq {
		return keepsName("the name was uploaded later than the file that would take it")
	}
	if err := t.mayChange(g, list, "rename"); err != nil {
		return err
	}
	done, err := t.renameUploads(ctx, g, list, raw)
	if err != nil {
		t.tell(t.applyRenamed(g, list[:done], func(string) string { return raw }))
		return err
	}
	t.moveRecorded(f, to, newName, raw, list)
	return nil
}

// recordOf returns the record of f as it is now, or nil when it has none, or one
// that others gave another name while the file was changed here.
func (t *Tree) recordOf(f *File) *sdk.Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := f.record()
	if e != nil && f.staged.Load() && !f.scratch.Load() && recordedName(e) != f.raw {
		return nil
	}
	return e
}

// record returns the newest form of the record f was made from. Needs Tree.mu.
func (f *File) record() *sdk.Entry {
	e := f.entry.Load()
	if e == nil {
		return nil
	}
	if now := f.group.byRef[e.Ref]; now != nil {
		return now
	}
	return e
}

// isNewest reports whether e is what its name shows. Needs Tree.mu.
func (t *Tree) isNewest(e *sdk.Entry) bool {
	g := t.groups[e.Group]
	if g == nil || g.names[recordedName(e)] == nil {
		return false
	}
	newest := g.names[recordedName(e)].newest()
	return newest != nil && newest.Ref == e.Ref
}

// commitRenamed records the content of f under a new name. A backup whose name
// was saved again since is a version once more: its content is needed for that.
func (f *File) commitRenamed(ctx context.Context, to *Dir, newName string) (*sdk.Entry, error) {
	if e := f.entry.Load(); e != nil && !f.staged.Load() {
		h := f.newHandle(OpenFlags{Read: true, Write: true})
		defer h.Release()
		if err := f.load(ctx, h); err != nil {
			return nil, err
		}
		if err := f.restage(ctx); err != nil {
			return nil, err
		}
	}
	f.t.mu.RLock()
	raw := to.rawPath(newName)
	f.t.mu.RUnlock()
	return f.commitAs(ctx, commitNow, to.group, raw)
}

// restage makes the committed content one that is to be recorded.
func (f *File) restage(ctx context.Context) error {
	s, err := f.quiet(ctx)
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	if s == nil {
		if err := f.copyIn(); err != nil {
			return err
		}
	}
	f.stage.dirty = true
	return nil
}

// move hangs f under its new name, in place of what has it. row is what was
// recorded for it under that name, if anything was.
func (t *Tree) move(f *File, to *Dir, newName string, becomesScratch bool, row *sdk.Entry) {
	t.mu.Lock()
	if row != nil {
		to = t.standing(to, recordedName(row))
	}
	notices := t.hang(f, to, newName, becomesScratch)
	switch {
	case row != nil:
		notices = append(notices, t.record(f, f.group, f.raw, row)...)
	case !becomesScratch:
		v := f.group.version(f.raw)
		v.shown, v.hidden = f, ""
		notices = append(notices, t.place(f.group, v)...)
	}
	t.mu.Unlock()
	t.tell(notices)
}

// moveRecorded is move for a file whose uploads the service renamed to raw.
func (t *Tree) moveRecorded(f *File, to *Dir, newName, raw string, renamed []sdk.Entry) {
	t.mu.Lock()
	to = t.standing(to, raw)
	notices := t.hang(f, to, newName, false)
	v := f.group.version(f.raw)
	v.shown, v.hidden = f, ""
	touched := to.group.mergeRenamed(renamed, func(string) string { return raw })
	notices = append(notices, t.placeAll(to.group, touched)...)
	t.mu.Unlock()
	t.tell(notices)
}

// applyRenamed shows uploads under the names that the service gave them.
func (t *Tree) applyRenamed(g *group, renamed []sdk.Entry, rename func(old string) string) []notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.placeAll(g, g.mergeRenamed(renamed, rename))
}

// standing returns d, or the folder in its place when d went with its last file,
// because others deleted or renamed that while raw was recorded beneath it. Needs
// Tree.mu.
func (t *Tree) standing(d *Dir, raw string) *Dir {
	top := d
	for top.kind == dirFolder && top.parent != nil {
		top = top.parent
	}
	if top.kind != dirFolder {
		return d
	}
	again, _ := t.slot(d.group, raw, "")
	return again
}

// hang takes f from its old name and gives it the new one. Needs Tree.mu.
func (t *Tree) hang(f *File, to *Dir, newName string, becomesScratch bool) []notice {
	notices := t.leave(f, becomesScratch)
	shown := names.Component(newName)
	if old, ok := to.children[shown].(*File); ok && old != f {
		notices = append(notices, t.replace(old, to, shown, becomesScratch)...)
	}
	t.carried[f.ino] = true
	f.dir, f.name, f.group, f.raw = to, shown, to.group, to.rawPath(newName)
	f.scratch.Store(becomesScratch)
	to.children[shown] = f
	to.mtime = t.now()
	return append(notices, t.disown(to, t.isForeign(f.entry.Load()))...)
}

// replace takes a name from old because a rename gives it to another file. Needs
// Tree.mu.
func (t *Tree) replace(old *File, to *Dir, shown string, becomesScratch bool) []notice {
	if becomesScratch || old.dir != to || old.name != shown {
		return t.dropName(old, to, shown)
	}
	if len(old.links) > 0 {
		t.promote(old)
		return nil
	}
	old.dir, old.unlinked = nil, true // its record is the one the new file gets
	return nil
}

// leave takes f from its old name. Needs Tree.mu.
func (t *Tree) leave(f *File, becomesScratch bool) []notice {
	dir, name := f.dir, f.name
	if dir != nil && dir.children[name] == Node(f) {
		delete(dir.children, name)
		dir.mtime = t.now()
	}
	v := f.versions()
	if v == nil || v.shown != f {
		return nil
	}
	v.shown = nil
	if e := f.entry.Load(); e != nil && becomesScratch {
		if newest := v.newest(); newest != nil { // else it was deleted, or renamed by others
			v.hidden = newest.Ref
		}
		return nil
	}
	return t.place(f.group, v)
}

// renameFolder moves a folder: as it is while nothing beneath it is uploaded, file
// by file where the service can rename (N5).
func (d *Dir) renameFolder(ctx context.Context, dir, to *Dir, newName string, target Node) error {
	if dir.kind != dirFolder || dir.group != to.group {
		return d.refuse(ClassByDesign, "rename", dir.name, "a folder moves only inside its group", "Copy it, if a second upload of its files is wanted.")
	}
	t := d.t
	t.mu.Lock()
	err := mayMoveFolder(dir, to, newName, target)
	uploads := dir.uploads()
	from, onto := dir.rawPrefix(), to.rawPath(newName)+"/"
	local := dir.local
	dir.local = local || err == nil // a listing may tell of its files' new names before it has its own
	t.mu.Unlock()
	if err != nil {
		return err
	}
	rename := func(old string) string { return onto + strings.TrimPrefix(old, from) }
	if len(uploads) > 0 {
		if done, failed := t.renameBeneath(ctx, dir.group, uploads, rename); failed != nil {
			t.mu.Lock()
			dir.local = local || len(dir.children) == 0
			t.mu.Unlock()
			t.tell(t.applyRenamed(dir.group, uploads[:done], rename)) // show what is true
			return d.failed("rename", dir.name, failed)
		}
	}
	notices, err := d.moveFolder(dir, to, newName, target, uploads, rename)
	t.tell(notices)
	return err
}

// renameBeneath lets the service rename the uploads beneath a folder and returns
// how many have their new names. It refuses before anything is changed when one
// of them cannot be.
func (t *Tree) renameBeneath(ctx context.Context, g *group, uploads []sdk.Entry, rename func(old string) string) (done int, err error) {
	if !t.cfg.CanRename {
		return 0, &Error{Class: ClassByDesign, Err: errText("files beneath it are uploaded, and the ledger keeps their names"),
			Hint: "Copy the folder to the new name, which uploads the files again."}
	}
	if err := t.mayChange(g, uploads, "rename"); err != nil {
		return 0, err
	}
	for i := range uploads {
		if _, err := t.renameUploads(ctx, g, uploads[i:i+1], rename(uploads[i].Name)); err != nil {
			return i, err
		}
	}
	return len(uploads), nil
}

// rawPrefix is what recorded names beneath the folder d begin with. Needs Tree.mu.
func (d *Dir) rawPrefix() string { return d.parent.rawPath(d.raw) + "/" }

// uploads returns copies of the living uploads beneath the folder d, in the order
// of the ledger. Needs Tree.mu.
func (d *Dir) uploads() []sdk.Entry {
	var list []sdk.Entry
	prefix := d.rawPrefix()
	for raw, v := range d.group.names {
		if strings.HasPrefix(raw, prefix) {
			list = append(list, livingOf(v)...)
		}
	}
	slices.SortFunc(list, func(a, b sdk.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// mayMoveFolder needs Tree.mu.
func mayMoveFolder(dir, to *Dir, newName string, target Node) error {
	switch old, isDir := target.(*Dir); {
	case target != nil && !isDir:
		return plain(ClassNotDir, "rename", join(to.path(), newName), "a file has this name")
	case isDir && len(old.children) > 0:
		return plain(ClassNotEmpty, "rename", join(to.path(), newName), "the folder is not empty")
	case dir.parent == nil:
		return plain(ClassNotExist, "rename", dir.path(), "the folder is gone")
	}
	for at := to; at != nil; at = at.parent {
		if at == dir {
			return plain(ClassInvalid, "rename", dir.path(), "a folder cannot move into itself")
		}
	}
	return nil
}

// moveFolder hangs dir under its new name, with the uploads that were renamed.
func (d *Dir) moveFolder(dir, to *Dir, newName string, target Node, renamed []sdk.Entry, rename func(old string) string) ([]notice, error) {
	t := d.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := mayMoveFolder(dir, to, newName, target); err != nil {
		return nil, err
	}
	shown := names.Component(newName)
	if made, ok := to.children[shown].(*Dir); ok && Node(made) != target {
		dir.absorb(made)
	}
	files := dir.files(nil)
	for _, f := range files {
		if v := f.versions(); v != nil && v.shown == f {
			v.shown = nil
		}
	}
	delete(d.children, dir.name)
	dir.parent, dir.name, dir.raw, dir.local = to, shown, newName, true
	to.children[shown] = dir
	notices := t.disown(to, dir.foreign)
	for _, f := range files {
		f.raw = f.dir.rawPath(f.raw[strings.LastIndexByte(f.raw, '/')+1:])
		if !f.scratch.Load() {
			f.group.version(f.raw).shown = f
		}
	}
	return append(notices, t.placeAll(dir.group, dir.group.mergeRenamed(renamed, rename))...), nil
}

// absorb takes what a listing has put into a folder that it made under the name d
// is about to get. Needs Tree.mu.
func (d *Dir) absorb(made *Dir) {
	for name, n := range made.children {
		switch n := n.(type) {
		case *File:
			if d.children[name] != nil { // being changed here: it gets the record
				n.dir = nil
				continue
			}
			n.dir, d.children[name] = d, n
		case *Dir:
			if mine, ok := d.children[name].(*Dir); ok {
				mine.absorb(n)
				continue
			}
			n.parent, d.children[name] = d, n
		}
	}
	d.foreign = d.foreign || made.foreign
	made.children, made.parent = make(map[string]Node), nil
}

// files collects the files beneath d. Needs Tree.mu.
func (d *Dir) files(list []*File) []*File {
	for _, n := range d.children {
		switch n := n.(type) {
		case *File:
			list = append(list, n)
		case *Dir:
			list = n.files(list)
		}
	}
	return list
}
