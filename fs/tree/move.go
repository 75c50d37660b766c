package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/svcfs/svcfs/fs/tree/content"
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
	from, wanted := join(d.Path(), name), join(to.Path(), newName)
	err := d.rename(ctx, name, to, newName, noReplace)
	if !to.isScratch(newName) { // else it is a backup, or still temporary
		d.t.errors.Renamed(from, wanted, err)
	}
	return err
}

func (d *Dir) rename(ctx context.Context, name string, to *Dir, newName string, noReplace bool) error {
	if d.kind == dirHistory && d.past.trash {
		return d.bringBack(ctx, name, to, newName)
	}
	if err := d.changeable(ctx, "rename", name); err != nil {
		return err
	}
	if err := to.changeable(ctx, "rename", newName); err != nil {
		return err
	}
	if d.group == nil || to.group == nil {
		return d.refuse(ClassByDesign, "rename", name, "groups have the name they were registered under",
			"Make another group: svcfs group create NAME")
	}
	n, err := d.existing("rename", name)
	if err != nil {
		return err
	}
	if to.group.waste && !d.group.waste && holdsUploads(n) {
		return d.throwAway(ctx, name, n, to, newName)
	}
	target := to.child(newName)
	if target != nil && noReplace {
		return plain(ClassExist, "rename", join(to.Path(), newName), "the name exists")
	}
	if n == target {
		return nil
	}
	if dir, ok := n.(*Dir); ok {
		return d.renameFolder(ctx, dir, to, newName)
	}
	if _, ok := target.(*Dir); ok {
		return plain(ClassIsDir, "rename", join(to.Path(), newName), "a folder has this name")
	}
	replaced, _ := target.(*File)
	return d.renameFile(ctx, name, n.(*File), to, newName, replaced)
}

// renameFile renames f once no save of f, or of the file that it replaces, is under way.
func (d *Dir) renameFile(ctx context.Context, name string, f *File, to *Dir, newName string, replaced *File) error {
	files := []*File{f}
	if replaced != nil {
		files = append(files, replaced)
	}
	leave, err := d.t.enterNames(ctx, to, files...)
	if err != nil {
		return d.failed("rename", name, err)
	}
	defer leave()
	err = f.whileItWaits(ctx, func() error {
		if replaced != nil && !f.now.IsStaged() {
			if err := replaced.settleWaiting(ctx, true); err != nil {
				return err
			}
		}
		return f.moveTo(ctx, &link{d, names.Component(name)}, to, newName)
	})
	if err != nil {
		return d.failed("rename", name, err)
	}
	if replaced != nil {
		replaced.dropUnused()
	}
	f.keep()
	return nil
}

// Link gives a scratch file another name (N5). A real name records the content
// under it, as renaming would: one save, one charge (W7); the scratch names stay
// until they are unlinked. A staged file with a real name may be given scratch
// names. An uploaded file has one name.
func (d *Dir) Link(ctx context.Context, f *File, name string) error {
	from := f.Path()
	err := d.link(ctx, f, name)
	if !d.isScratch(name) {
		d.t.errors.Renamed(from, join(d.Path(), name), err)
	}
	return err
}

func (d *Dir) link(ctx context.Context, f *File, name string) error {
	if err := d.changeable(ctx, "link", name); err != nil {
		return err
	}
	if d.group == nil || !f.isOf(d.group) {
		return d.refuse(ClassByDesign, "link", name, "a link stays inside its group", "Copy the file instead.")
	}
	if d.child(name) != nil {
		return plain(ClassExist, "link", join(d.Path(), name), "the name exists")
	}
	leave, err := d.t.enterNames(ctx, d, f)
	if err != nil {
		return d.failed("link", name, err)
	}
	defer leave()
	if err := f.moveTo(ctx, nil, d, name); err != nil {
		return d.failed("link", name, err)
	}
	f.keep()
	return nil
}

// enterNames keeps commits of files out, always in the same order. It waits for the renames of folders above them, and
// above to, which may be nil.
func (t *Tree) enterNames(ctx context.Context, to *Dir, files ...*File) (leave func(), err error) {
	slices.SortFunc(files, func(a, b *File) int { return cmp.Compare(a.gen, b.gen) })
	for {
		entered := 0
		leave := func() {
			if to != nil {
				t.mu.Lock()
				for _, f := range files[:entered] {
					delete(t.entering, f)
				}
				t.mu.Unlock()
			}
			for _, f := range files[:entered] {
				f.nameGate().Leave()
			}
		}
		for _, f := range files {
			if err := f.nameGate().Enter(ctx); err != nil {
				leave()
				return nil, err
			}
			entered++
		}
		t.mu.Lock()
		moving := t.movingAbove(to)
		for _, f := range files {
			moving = cmp.Or(moving, t.movingAbove(f.dir))
		}
		if moving == nil && to != nil {
			for _, f := range files {
				t.entering[f] = to
			}
		}
		t.mu.Unlock()
		if moving == nil {
			return leave, nil
		}
		leave()
		if err := moving.Pass(ctx); err != nil {
			return nil, err
		}
	}
}

// moveTo gives f the name newName in to, in place of from or, where from is nil, beside
// the names it has.
func (f *File) moveTo(ctx context.Context, from *link, to *Dir, newName string) (err error) {
	t := f.t
	m := moved{f: f, from: from, to: to, name: newName}
	var refused *Error
	var there []sdk.Entry // has the name
	var unseen *sdk.Entry // has it, and the program did not know it
	t.change(func() []notice {
		facts := f.moveFacts(from, to, newName)
		m.raw = facts.raw
		if m.plan, refused = facts.plan(); refused != nil {
			return nil
		}
		m.replaced, _ = to.children[names.Component(newName)].(*File)
		switch m.first {
		case firstNothing:
			return m.apply()
		case firstRename, firstReplace:
			m.renamed, there = facts.versions, facts.there
			unseen = to.group.unseen(f, m.raw)
		}
		return nil
	})
	if refused != nil {
		return refused
	}
	var changed []string
	switch m.first {
	case firstReplace:
		changed = []string{recordedName(&m.renamed[0]), m.raw}
	case firstRename:
		changed = []string{recordedName(&m.renamed[0])}
	}
	if wasRead, err := to.group.knowVersions(ctx, changed...); err != nil {
		return err
	} else if wasRead {
		return f.moveTo(ctx, from, to, newName)
	}
	switch m.first {
	case firstNothing:
		return nil
	case firstCommit:
		m.row, err = f.commitAsNamed(ctx, to.group, m.raw)
	case firstReplace:
		if err := t.queue.SettleFirst(ctx, m.renamed, there); err != nil { // nothing is removed before it can succeed
			return err
		}
		if err := to.group.trashVersions(ctx, there); err != nil {
			return err
		}
		fallthrough
	case firstRename:
		m.renamed, err = to.group.renameUploads(ctx, m.renamed, func(string) string { return m.raw })
	}
	if err != nil {
		return err
	}
	t.change(func() []notice {
		notices := m.apply()
		if unseen != nil {
			notices = append(notices, to.group.conflictWith(m.raw, unseen, m.first == firstReplace))
		}
		return notices
	})
	return nil
}

// move holds the facts about a file that is to get a name, as far as the answer depends
// on them.
type move struct {
	gone      bool // it has no name any more, or the folder it goes to has none
	overDir   bool // a folder has the name
	link      bool // the names it has stay
	further   bool // the name it leaves is a link of a file with a real name
	scratch   bool // it has no real name
	staged    bool // it holds changes that are not recorded
	uploaded  bool // it was uploaded
	symlink   bool // it is a symbolic link
	recorded  bool // it was, and others gave it no other name since
	crosses   bool // to another group
	toScratch bool // the name it gets is a scratch name
	back      bool // that name is the recorded one
	newest    bool // the recorded name shows its upload
	overtaken bool // the name it gets has a later upload
	ours      bool // the service renames and removes uploads, and records links
	canDelete bool // the mount removes them

	raw      string        // the name it gets, as it would be recorded
	versions []sdk.Entry   // the living uploads of its recorded name
	there    []sdk.Entry   // the living uploads of the name it gets
	theirs   sdk.AccountID // uploader of a version that the service does not rename for this account; "" = none
}

// plan is how a file gets a name. Nothing has been changed yet.
type plan struct {
	first   ledgerStep
	becomes fileKind // with fileScratch the name it leaves stays free of its uploads (W8)
	aside   bool     // the name is one more beside the main one, and the file stays of its kind
}

// ledgerStep is the record that is needed before a name is given.
type ledgerStep uint8

const (
	firstNothing ledgerStep = iota
	firstCommit             // the content under the new name, if it is not yet
	firstRename             // the new name of every version
	firstReplace            // the removal of what has the name, then the new name of every version
)

// plan decides (N5, W7, W8). It looks at nothing but m.
func (m *move) plan() (plan, *Error) {
	switch {
	case m.gone:
		return plan{}, &Error{Class: ClassNotExist, Err: errors.New("the file is gone")}
	case m.overDir:
		return plan{}, &Error{Class: ClassIsDir, Err: errors.New("a folder has this name")}
	case m.symlink && m.link:
		return plan{}, &Error{Class: ClassByDesign, Err: errors.New("a symbolic link has one name"),
			Hint: "Make another link with: ln -s"}
	case m.symlink && !m.toScratch && !m.ours:
		return plan{}, noLinks()
	case m.further && (!m.toScratch || m.crosses), m.link && !m.toScratch && (m.uploaded || !m.scratch), m.link &&
		m.uploaded && !m.scratch:
		return plan{}, &Error{Class: ClassByDesign, Err: errors.New("a file of the ledger has one name"),
			Hint: "Copy the file instead."}
	case m.further, m.link && m.toScratch:
		return plan{aside: true}, nil
	case m.recorded && m.crosses && m.canDelete:
		return plan{}, &Error{Class: ClassCrossDevice, Err: errors.New("groups are sealed with different keys"),
			Hint: "mv copies the file and removes the original."}
	case m.recorded && m.crosses:
		return plan{}, &Error{Class: ClassByDesign,
			Err: errors.New("an uploaded file stays in its group: moving it would buy a copy and could not remove " +
				"the original"),
			Hint: "Copy it, if a second upload is wanted."}
	case m.toScratch:
		return plan{becomes: fileScratch}, nil
	case !m.recorded, m.scratch && m.staged, m.scratch && m.back && !m.newest:
		return plan{first: firstCommit}, nil
	case m.scratch && m.back:
		return plan{}, nil // a backup takes its own name again
	case m.scratch && !m.newest: // the versions are not this file's alone
		return plan{}, keepsName("the name it was uploaded under was saved again since")
	case !m.ours:
		return plan{}, keepsName("the ledger keeps the name a file was uploaded under")
	case len(m.versions) == 0:
		return plan{}, &Error{Class: ClassNotExist, Err: errors.New("the file is gone")}
	case m.theirs != "":
		return plan{}, uploadedBy(m.theirs, "rename")
	case m.overtaken:
		return plan{first: firstReplace}, nil
	default:
		return plan{first: firstRename}, nil
	}
}

func keepsName(why string) *Error {
	return &Error{Class: ClassByDesign, Err: errors.New(why), Hint: "Copy it to the new name, which uploads it again."}
}

// moveFacts gathers the facts before f gets a name. Needs Tree.mu.
func (f *File) moveFacts(from *link, to *Dir, newName string) *move {
	t := f.t
	m := &move{gone: f.isKind(fileRemoved) || from == nil && f.dir == nil || to.parent == nil, link: from == nil,
		scratch: f.isKind(fileScratch), staged: f.now.IsStaged(), uploaded: f.entry.Load() != nil,
		crosses: f.group != to.group,
		symlink: f.IsLink(), toScratch: to.namesScratch(newName), raw: to.rawPath(newName), ours: t.cfg.Ours,
		canDelete: t.cfg.AllowDelete}
	_, m.overDir = to.children[names.Component(newName)].(*Dir)
	m.further = from != nil && !m.scratch && slices.Contains(f.links, *from)
	e := f.record()
	m.recorded = e != nil && !(m.staged && !m.scratch && recordedName(e) != f.raw)
	if !m.recorded {
		return m
	}
	was := f.group.names[recordedName(e)]
	m.versions = livingOf(was)
	m.back, m.newest = m.raw == recordedName(e), t.isNewest(e)
	m.overtaken = to.group.names[m.raw].isLaterThan(was)
	m.theirs = f.group.uploaderOf(m.versions)
	m.there = livingOf(to.group.names[m.raw])
	m.canDelete = m.canDelete || m.ours && m.theirs == ""
	return m
}

// isLaterThan reports whether v shows a later upload than other. Either may be nil, or
// show nothing.
func (v *versions) isLaterThan(other *versions) bool {
	if v == nil || other == nil {
		return false
	}
	a, b := v.newest(), other.newest()
	return a != nil && b != nil && a.Seq > b.Seq
}

// moved is a move that is planned, with the outcome of its first step.
type moved struct {
	f    *File
	from *link // nil: it keeps its names
	to   *Dir
	name string // as a program wrote it
	raw  string // as it was recorded
	plan
	row     *sdk.Entry  // the record of its content under the name, if one was needed
	renamed []sdk.Entry // its uploads, once the service has renamed them

	replaced *File // had the name
}

// apply gives the file its name. Needs Tree.mu.
func (m *moved) apply() (notices []notice) {
	f, to := m.f, m.to
	shown := names.Component(m.name)
	if m.row != nil || m.renamed != nil {
		to = to.remade(m.raw)
	}
	left, was := m.detachOldName()
	var freed *versions
	if old, ok := to.children[shown].(*File); ok && old != f {
		freed, _ = to.drop(old, shown) // the kernel knows of this name
	}
	if m.replaced != nil && m.replaced != f && m.replaced.dir == nil && m.replaced.isKind(fileReal) {
		_, _ = to.drop(m.replaced, shown) // a listing took the name from it already
	}
	to.setChanged(m.f.t.now())
	if m.row == nil { // else the record is newer
		f.setMoved(m.f.t.now())
	}
	if m.aside {
		to.attachLink(shown, f)
	} else {
		f.group, f.raw = to.group, to.rawPath(m.name)
		f.become(m.becomes)
		ref := m.raw
		if e := f.entry.Load(); e != nil {
			ref = string(e.Ref)
		}
		// a folder may have got the name while the file was recorded (N3)
		notices = to.attach(names.Free(shown, ref, func(name string) bool { return to.children[name] == nil }), f)
	}
	if m.becomes == fileReal && !m.aside {
		notices = append(notices, m.show()...)
	}
	if left != nil {
		notices = append(notices, was.place(left)...)
	}
	if freed != nil {
		notices = append(notices, to.group.place(freed)...)
	}
	if m.renamed != nil { // as in every other mount
		notices = append(notices, m.from.dir.prune()...)
	}
	return notices
}

// detachOldName takes from the file of a move the name it does not keep. It returns the
// recorded name that is to be placed again, and its group. Needs Tree.mu.
func (m *moved) detachOldName() (*versions, *group) {
	f := m.f
	if m.from == nil {
		if !m.aside { // the real name becomes the main one
			f.links = append(f.links, link{f.dir, f.name})
			f.dir = nil
		}
		return nil, nil
	}
	if i := slices.Index(f.links, *m.from); i >= 0 && !m.aside {
		f.useLink(i)
	}
	at, shown := link{f.dir, f.name}, f.shows()
	if m.aside {
		at, shown = *m.from, nil
	}
	if at.dir != nil {
		at.dir.detach(at.name, f) // the kernel knows
		at.dir.setChanged(m.f.t.now())
	}
	if shown == nil || m.becomes == fileReal || f.entry.Load() == nil {
		return shown, f.group
	}
	if newest := shown.newest(); newest != nil { // else it was deleted, or renamed by others
		shown.hidden = newest.Ref
	}
	return nil, nil
}

// show makes the recorded name of a moved file show it. Needs Tree.mu.
func (m *moved) show() []notice {
	g, v := m.f.group, m.f.group.version(m.f.raw)
	v.shown, v.hidden = m.f, ""
	switch {
	case m.row != nil:
		return g.saved(m.f, m.f.raw, m.row)
	case m.renamed != nil:
		return g.placeAll(g.mergeOwn(m.renamed))
	default:
		return g.place(v)
	}
}

// remade returns d, or makes it again if it vanished with its last file, which others
// deleted or renamed while raw was recorded beneath it. Needs Tree.mu.
func (d *Dir) remade(raw string) *Dir {
	top := d
	for top.kind == dirFolder && top.parent != nil {
		top = top.parent
	}
	if top.kind != dirFolder {
		return d
	}
	again, _ := d.group.slot(raw, "")
	return again
}

// record returns the newest form of the record f was made from. Needs Tree.mu.
func (f *File) record() *sdk.Entry {
	e := f.entry.Load()
	if e == nil {
		return nil
	}
	if now := f.group.entry(e.Ref); now != nil {
		return now
	}
	return f.group.recordedSince(e)
}

// isNewest reports whether its name shows e. Needs Tree.mu.
func (t *Tree) isNewest(e *sdk.Entry) bool {
	g := t.groups[e.Group]
	if g == nil || g.names[recordedName(e)] == nil {
		return false
	}
	newest := g.names[recordedName(e)].newest()
	return newest != nil && newest.Ref == e.Ref
}

// commitAsNamed records the content of f under a name. A backup whose name was saved
// again since is a version once more: its content is needed for that.
func (f *File) commitAsNamed(ctx context.Context, g *group, raw string) (*sdk.Entry, error) {
	if e := f.entry.Load(); e != nil && !f.now.IsStaged() {
		h := f.newHandle(OpenFlags{Read: true, Write: true})
		defer h.Release()
		if err := f.load(ctx, h); err != nil {
			return nil, err
		}
		if err := f.restage(ctx); err != nil {
			return nil, err
		}
	}
	return f.commitAs(ctx, commitNow, g, raw)
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
	if f.now.Is(content.Copied) {
		f.move(content.Changed)
	}
	return nil
}
