package tree

import (
	"context"
	"slices"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// Link gives a scratch file another name (N5). A real name records the content
// under it, as renaming would: one save, one charge (W7); the scratch names stay
// until they are unlinked. A staged file with a real name may be given scratch
// names. An uploaded file has one name.
func (d *Dir) Link(ctx context.Context, f *File, name string) error {
	if err := d.changeable("link", name); err != nil {
		return err
	}
	if d.group == nil || !f.isOf(d.group) {
		return d.refuse(ClassByDesign, "link", name, "a link stays inside its group", "Copy the file instead.")
	}
	if err := d.t.use(ctx, d.group, -1); err != nil {
		return d.failed("link", name, err)
	}
	if d.child(name) != nil {
		return plain(ClassExist, "link", join(d.Path(), name), "the name exists")
	}
	if err := f.nameGate().enter(ctx); err != nil {
		return d.failed("link", name, err)
	}
	defer f.nameGate().leave()
	real, scratch := !d.isScratch(name), f.scratch.Load()
	if uploaded := f.entry.Load() != nil; uploaded && (real || !scratch) || real && !scratch {
		return d.refuse(ClassByDesign, "link", name, "a file of the ledger has one name", "Copy the file instead.")
	}
	d.t.mu.RLock()
	raw := d.rawPath(name)
	d.t.mu.RUnlock()
	var row *sdk.Entry
	if real {
		var err error
		if row, err = f.commitAs(ctx, commitNow, d.group, raw); err != nil {
			return f.failed("link", err)
		}
	}
	notices, linked := d.t.addName(f, d, name, row)
	if !linked {
		return plain(ClassNotExist, "link", join(d.Path(), name), "the file is gone")
	}
	d.t.tell(notices)
	return nil
}

// addName hangs f under one more name. With a row it is the recorded one: then
// the name f had becomes a link.
func (t *Tree) addName(f *File, d *Dir, name string, row *sdk.Entry) ([]notice, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.dir == nil || d.parent == nil {
		return nil, false
	}
	shown := names.Component(name)
	d.children[shown] = f
	d.mtime = t.now()
	if row == nil {
		f.links = append(f.links, link{d, shown})
		return nil, true
	}
	f.links = append(f.links, link{f.dir, f.name})
	f.dir, f.name, f.raw = d, shown, row.Name
	f.scratch.Store(false)
	return t.record(f, d.group, f.raw, row), true
}

// isLink reports whether name in d is a further name of f.
func (t *Tree) isLink(f *File, d *Dir, name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Contains(f.links, link{d, names.Component(name)})
}

// dropName takes one name from f; with the last one it is unlinked. What it hid
// or kept from showing shows again. Needs Tree.mu.
func (t *Tree) dropName(f *File, d *Dir, shown string) []notice {
	i := slices.Index(f.links, link{d, shown})
	if i < 0 && len(f.links) == 0 {
		f.unlinked = true
		return append(t.detach(f), t.release(f)...)
	}
	if d.children[shown] == Node(f) {
		delete(d.children, shown)
	}
	d.mtime = t.now()
	notices := []notice{{dir: d, name: shown}}
	if i >= 0 {
		f.links = slices.Delete(f.links, i, i+1)
		return notices
	}
	v := f.versions()
	t.promote(f)
	if v != nil && v.shown == f {
		v.shown = nil
		notices = append(notices, t.place(f.group, v)...)
	}
	return notices
}

// promote makes the oldest link the main name of f, in place of one that goes.
// Needs Tree.mu.
func (t *Tree) promote(f *File) {
	to := f.links[0]
	f.links = f.links[1:]
	f.dir, f.name, f.raw = to.dir, to.name, to.dir.rawPath(to.name)
	f.scratch.Store(true)
}
