package tree

import (
	"context"

	"github.com/svcfs/svcfs/sdk/names"
)

// Rmdir removes an empty folder, and its record if it has one.
func (d *Dir) Rmdir(ctx context.Context, name string) error {
	if err := d.changeable(ctx, "rmdir", name); err != nil {
		return err
	}
	n, err := d.existing("rmdir", name)
	if err != nil {
		return err
	}
	dir, ok := n.(*Dir)
	switch {
	case !ok:
		return plain(ClassNotDir, "rmdir", join(d.Path(), name), "it is a file")
	case dir.kind != dirFolder:
		return d.refuse(ClassByDesign, "rmdir", name, "a group is not removed by removing its directory",
			"Its owner can revoke its members: svcfs group revoke")
	}
	if err := dir.knowInside(ctx); err != nil {
		return d.failed("rmdir", name, err)
	}
	d.t.mu.RLock()
	err = dir.holdsNothing()
	others := dir.recorded == "" && dir.mayHoldMore() // others recorded it
	d.t.mu.RUnlock()
	if err == nil && others {
		err = d.group.knowAll(ctx)
	}
	if err != nil {
		return err
	}
	if err := dir.unrecord(ctx); err != nil {
		return d.failed("rmdir", name, err)
	}
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	if err := dir.holdsNothing(); err != nil { // by now
		return err
	}
	d.detach(dir.name, dir)
	d.setChanged(d.t.now())
	return nil
}

// holdsNothing refuses the removal of a folder that holds something. Needs Tree.mu.
func (d *Dir) holdsNothing() error {
	if len(d.children) > 0 {
		return plain(ClassNotEmpty, "rmdir", d.path(), "the folder is not empty")
	}
	return nil
}

// Unlink removes a name. Staged and scratch files go with their last name; a handle
// that is open keeps the file until it is closed. An uploaded file is refused at
// once (W9).
func (d *Dir) Unlink(ctx context.Context, name string) error {
	remove := (*File).trashUploads
	if d.t.cfg.AllowDelete {
		remove = (*File).deleteUploads
	}
	return d.unlink(ctx, name, remove, func(*File) error { return nil })
}

// unlink is Unlink with a way to remove uploads, of files that may be removed.
func (d *Dir) unlink(ctx context.Context, name string, remove func(*File, context.Context) error,
	may func(*File) error) error {
	if err := d.changeable(ctx, "unlink", name); err != nil {
		return err
	}
	n, err := d.existing("unlink", name)
	if err != nil {
		return err
	}
	f, ok := n.(*File)
	if !ok {
		return plain(ClassIsDir, "unlink", join(d.Path(), name), "it is a folder")
	}
	leave, err := d.t.enterNames(ctx, nil, f)
	if err != nil {
		return d.failed("unlink", name, err)
	}
	if d.child(name) != n { // others saved the name meanwhile
		leave()
		return d.unlink(ctx, name, remove, may)
	}
	defer leave()
	if err := may(f); err != nil {
		return err
	}
	if f.entry.Load() != nil && f.isKind(fileReal) && !f.isLink(d, names.Component(name)) {
		if !d.t.cfg.Ours {
			return d.refuse(ClassByDesign, "unlink", name,
				"the file is uploaded, and removing it would destroy its key for everybody",
				"Upload another file of this name to replace what is shown.")
		}
		_, err := f.group.knowVersions(ctx, f.rawName())
		if err == nil {
			err = f.whileItWaits(ctx, func() error { return d.removeUploads(ctx, f, remove) })
		}
		if err != nil {
			return d.failed("unlink", name, err)
		}
	}
	d.unlinkHere(f, names.Component(name))
	d.setChanged(d.t.now())
	f.dropUnused()
	return nil
}

// removeUploads takes the uploads of f from everybody; the folder stays.
func (d *Dir) removeUploads(ctx context.Context, f *File, remove func(*File, context.Context) error) error {
	d.t.mu.Lock()
	wasLocal := d.local
	d.local = d.recorded == ""
	d.t.mu.Unlock()
	err := remove(f, ctx)
	if err != nil {
		d.t.mu.Lock()
		d.local = wasLocal || len(d.children) == 0 && d.recorded == ""
		d.t.mu.Unlock()
	}
	return err
}

// unlinkHere takes the name shown in d from f. An upload that f hid (W8), or whose name f had,
// shows again. A folder stays until it is removed itself, as programs expect that
// remove a tree.
func (d *Dir) unlinkHere(f *File, shown string) {
	d.t.change(func() []notice {
		d.local = d.recorded == ""
		v, notices := d.drop(f, shown)
		d.setChanged(d.t.now())
		if v != nil {
			notices = append(notices, f.group.place(v)...)
		}
		return notices
	})
}
