package tree

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/sdk/names"
)

// addWastebasket makes the folder of the root d into which file managers throw away. What
// they write there lives in this mount alone, as under a scratch name (W6).
func (d *Dir) addWastebasket(name string) *Dir {
	t := d.t
	t.mu.Lock()
	defer t.mu.Unlock()
	g := newGroup()
	g.owned, g.waste = true, true
	g.list = t.look.NewList("", g.view, nil)
	g.list.Listed()
	g.dir = t.newDir(d, names.Component(name), dirGroup)
	g.dir.group = g
	d.attach(g.dir.name, g.dir)
	d.setChanged(t.now())
	return g.dir
}

// holdsUploads reports whether n is a folder, or an uploaded file without changes but those that are being saved: the
// trash keeps what is recorded, and changes would be lost.
func holdsUploads(n Node) bool {
	f, isFile := n.(*File)
	return !isFile || f.entry.Load() != nil && f.isKind(fileReal) && !f.now.Is(content.Changed) &&
		!f.now.Is(content.Waiting)
}

// trash puts a file into the trash once it is not being saved. A file with changes is refused with a class.
func (d *Dir) trash(ctx context.Context, name string, unsaved Class) error {
	return d.unlink(ctx, name, (*File).trashUploads, func(f *File) error {
		if holdsUploads(f) {
			return nil
		}
		return d.refuse(unsaved, "rename", name, "the file is not uploaded as it is now", "Remove or save it first.")
	})
}

// throwAway puts an uploaded file, or all files of a folder, into the trash of their
// group when a program moves them to a wastebasket (W9), also in a mount whose unlink
// destroys keys. They do not show there: the group's own trash does.
func (d *Dir) throwAway(ctx context.Context, name string, n Node, to *Dir, newName string) error {
	var err error
	switch n := n.(type) {
	case *File:
		err = d.trash(ctx, name, ClassCrossDevice)
	case *Dir:
		if err = d.group.knowAll(ctx); err == nil {
			err = n.throwAwayAll(ctx)
		}
		if err == nil {
			err = d.Rmdir(ctx, name)
		}
	}
	if err == nil {
		d.t.tell([]notice{entryChanged(to, newName)}) // the kernel moves what it knew as the name
	}
	return err
}

// throwAwayAll empties a folder of the group. It refuses before anything is removed when
// a file beneath it is not uploaded.
func (d *Dir) throwAwayAll(ctx context.Context) error {
	var files, folders []string
	d.t.mu.Lock()
	for _, f := range d.files(nil) {
		if !holdsUploads(f) {
			d.t.mu.Unlock()
			return d.refuse(ClassByDesign, "rename", f.name,
				"the folder holds a file that is not uploaded as it is now", "Remove or save that file first.")
		}
	}
	d.local = d.recorded == ""
	for name, child := range d.children {
		if _, isFolder := child.(*Dir); isFolder {
			folders = append(folders, name)
		} else {
			files = append(files, name)
		}
	}
	d.t.mu.Unlock()
	for _, name := range folders {
		folder, isFolder := d.child(name).(*Dir)
		if !isFolder {
			continue // others removed it meanwhile
		}
		if err := errors.Join(folder.throwAwayAll(ctx), d.Rmdir(ctx, name)); err != nil {
			return err
		}
	}
	for _, name := range files {
		if err := d.trash(ctx, name, ClassByDesign); err != nil {
			return err
		}
	}
	return nil
}
