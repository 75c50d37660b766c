package tree

import (
	"context"

	"github.com/svcfs/svcfs/sdk"
)

// Rename moves name to newName in to.
//
// A staged or scratch file that gets a real name is committed under it before
// Rename returns: one save, one charge (W7). An uploaded file may only take a
// scratch name, in this mount, as editors do for a backup, or its own name back;
// any other rename of it is refused (W8). Folders move while nothing beneath
// them is uploaded (N5).
func (d *Dir) Rename(ctx context.Context, name string, to *Dir, newName string, noReplace bool) error {
	if err := d.changeable("rename", name); err != nil {
		return err
	}
	if err := to.changeable("rename", newName); err != nil {
		return err
	}
	if d.group == nil || to.group == nil {
		return d.refuse(ClassByDesign, "rename", name, "groups have the name they were registered under", "")
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
		return d.renameFolder(dir, to, newName, target)
	}
	if _, ok := target.(*Dir); ok {
		return plain(ClassIsDir, "rename", join(to.Path(), newName), "a folder has this name")
	}
	return d.renameFile(ctx, n.(*File), to, newName)
}

func (d *Dir) renameFile(ctx context.Context, f *File, to *Dir, newName string) error {
	t := d.t
	becomesScratch := isScratch(t.cfg.Scratch, newName)
	if err := t.mayRename(f, to, newName, becomesScratch); err != nil {
		return f.failed("rename", err)
	}
	var row *sdk.Entry
	t.mu.RLock()
	raw := to.rawPath(newName)
	t.mu.RUnlock()
	if !becomesScratch {
		var err error
		if row, err = f.commitAs(ctx, commitNow, to.group, raw); err != nil {
			return f.failed("rename", err)
		}
	}
	replaced := t.move(f, to, newName, becomesScratch)
	if row != nil {
		t.adopt(f, to.group, raw, row)
	}
	if replaced != nil {
		replaced.discard()
	}
	return nil
}

// mayRename applies W8.
func (t *Tree) mayRename(f *File, to *Dir, newName string, becomesScratch bool) *Error {
	e := f.entry.Load()
	if e == nil {
		return nil // never uploaded: it may go anywhere
	}
	if f.group != to.group {
		return &Error{Class: ClassByDesign, Err: errText("an uploaded file stays in its group: moving it would buy a copy and could not remove the original"),
			Hint: "Copy it, if a second upload is wanted."}
	}
	if becomesScratch {
		return nil
	}
	if f.scratch.Load() {
		t.mu.RLock()
		back := to.rawPath(newName) == recordedName(e)
		t.mu.RUnlock()
		if back || f.staged.Load() {
			return nil
		}
	}
	return &Error{Class: ClassByDesign, Err: errText("the ledger keeps the name a file was uploaded under"),
		Hint: "Copy it to the new name, which uploads it again."}
}

// move hangs f under its new name and returns the file it replaced.
func (t *Tree) move(f *File, to *Dir, newName string, becomesScratch bool) (replaced *File) {
	t.mu.Lock()
	notices := t.leave(f, becomesScratch)
	shown := showComponent(newName)
	if old, ok := to.children[shown].(*File); ok && old != f {
		replaced = old
		old.dir, old.unlinked = nil, true
	}
	t.carried[f.ino] = true
	f.dir, f.name, f.group, f.raw = to, shown, to.group, to.rawPath(newName)
	f.scratch.Store(becomesScratch)
	to.children[shown] = f
	to.mtime = t.now()
	if !becomesScratch {
		v := f.group.version(f.raw)
		v.shown, v.hidden = f, nil
		notices = append(notices, t.place(f.group, v)...)
	}
	t.mu.Unlock()
	t.tell(notices)
	return replaced
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
		v.hidden = v.newest()
		return nil
	}
	return t.place(f.group, v)
}

// renameFolder moves a folder of this mount: nothing beneath it may be uploaded.
func (d *Dir) renameFolder(dir, to *Dir, newName string, target Node) error {
	if dir.kind != dirFolder || dir.group != to.group {
		return d.refuse(ClassByDesign, "rename", dir.name, "a folder moves only inside its group", "")
	}
	err := d.moveFolder(dir, to, newName, target)
	if err != nil && err.Class == ClassByDesign {
		d.t.Note(err)
	}
	if err != nil {
		return err
	}
	return nil
}

func (d *Dir) moveFolder(dir, to *Dir, newName string, target Node) *Error {
	t := d.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := target.(*Dir); target != nil && (!ok || len(old.children) > 0) {
		if !ok {
			return everyday(ClassNotDir, "rename", join(to.path(), newName), "a file has this name")
		}
		return everyday(ClassNotEmpty, "rename", join(to.path(), newName), "the folder is not empty")
	}
	for at := to; at != nil; at = at.parent {
		if at == dir {
			return everyday(ClassInvalid, "rename", dir.path(), "a folder cannot move into itself")
		}
	}
	files := dir.files(nil)
	for _, f := range files {
		if f.entry.Load() != nil {
			return &Error{Class: ClassByDesign, Op: "rename", Path: dir.path(),
				Err:  errText("files beneath it are uploaded, and the ledger keeps their names"),
				Hint: "Copy the folder to the new name, which uploads the files again."}
		}
		if v := f.versions(); v != nil && v.shown == f {
			v.shown = nil
		}
	}
	delete(d.children, dir.name)
	shown := showComponent(newName)
	dir.parent, dir.name, dir.raw, dir.local = to, shown, newName, true
	to.children[shown] = dir
	for _, f := range files {
		f.raw = f.dir.rawPath(f.name)
		if !f.scratch.Load() {
			f.group.version(f.raw).shown = f
		}
	}
	return nil
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
