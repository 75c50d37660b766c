package tree

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

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

// moveFolder gives dir its new name, with the uploads that were renamed.
func (d *Dir) moveFolder(dir, to *Dir, newName string, target Node, renamed []sdk.Entry, rename func(old string) string) ([]notice, error) {
	t := d.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := mayMoveFolder(dir, to, newName, target); err != nil {
		return nil, err
	}
	shown := names.Component(newName)
	if there, ok := to.children[shown].(*Dir); ok {
		if Node(there) != target { // a listing has made it meanwhile
			dir.takeOver(there)
		}
		to.detach(shown, there)
	}
	files := dir.files(nil)
	for _, f := range files {
		if v := f.shows(); v != nil {
			v.shown = nil
		}
	}
	d.detach(dir.name, dir)
	dir.raw, dir.local = newName, true
	notices := to.attach(shown, dir)
	for _, f := range files {
		f.raw = f.dir.rawPath(f.raw[strings.LastIndexByte(f.raw, '/')+1:])
		if f.isKind(fileReal) {
			f.group.version(f.raw).shown = f
		}
	}
	return append(notices, t.placeAll(dir.group, dir.group.mergeRenamed(renamed, rename))...), nil
}

// takeOver takes what is in another folder into d. Needs Tree.mu.
func (d *Dir) takeOver(other *Dir) {
	d.foreign = d.foreign || other.foreign
	for name, n := range other.children {
		mine := d.children[name]
		if theirs, ok := n.(*Dir); ok && mine != nil {
			if mine, ok := mine.(*Dir); ok {
				mine.takeOver(theirs)
				continue
			}
		}
		other.detach(name, n)
		if mine == nil { // else it is being changed here, and gets the record
			d.attach(name, n)
		}
	}
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
