package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// renameFolder moves a folder: as it is while nothing beneath it is uploaded, with one
// record where the service can rename folders, else file by file (N5).
func (d *Dir) renameFolder(ctx context.Context, dir, to *Dir, newName string) error {
	t := d.t
	if dir.group != nil {
		if err := dir.group.knowAll(ctx); err != nil {
			return d.failed("rename", dir.name, err)
		}
	}
	if err := dir.settleBeneath(ctx); err != nil {
		return d.failed("rename", dir.name, err)
	}
	end, err := dir.beginMove(ctx, to)
	if err != nil {
		return d.failed("rename", dir.name, err)
	}
	defer end()
	m, err := dir.planMove(ctx, to, newName)
	if err != nil {
		return d.failed("rename", dir.name, err)
	}
	if len(m.uploads) == 0 {
		dir.recordAll(ctx)
		return nil
	}
	err = m.replaces.unrecord(ctx)
	if err == nil {
		err = dir.group.renameBeneath(ctx, m)
	}
	if err != nil {
		t.change(func() []notice {
			dir.local = m.stays
			return dir.prune()
		})
		return d.failed("rename", dir.name, err)
	}
	t.change(func() []notice { return dir.moveTo(to, newName, m) })
	if m.unsure {
		_ = dir.group.list.Refresh(ctx, 0)
	}
	for _, d := range slices.Backward(m.again) {
		d.record(ctx)
	}
	dir.recordAll(ctx)
	return nil
}

// tellPause is how long a rename waits for the tree to be told of a record.
const tellPause = 10 * time.Millisecond

// planMove plans the move of d, once what was saved beneath it before [Dir.beginMove] is recorded. It makes the move
// where nothing beneath is uploaded.
func (d *Dir) planMove(ctx context.Context, to *Dir, newName string) (m *folderMove, err error) {
	for {
		if err := d.settleBeneath(ctx); err != nil {
			return nil, err
		}
		var refused *Error
		d.t.change(func() []notice {
			m = d.moveFacts(to, newName)
			if refused = m.plan(); refused != nil || m.waits() {
				return nil
			}
			if len(m.uploads) == 0 {
				return d.moveTo(to, newName, m)
			}
			m.stays = d.local || len(d.children) == 0 && d.recorded == ""
			d.local = true // a listing may show its files under their new names before it has its own
			return nil
		})
		switch {
		case refused != nil:
			return nil, refused
		case !m.waits():
			return m, nil
		}
		select { // it was recorded meanwhile, and the tree is told in a moment
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(tellPause):
		}
	}
}

// settleBeneath waits until nothing beneath d, or on its way there, is being saved, and nothing that was saved waits to
// be recorded: a record that is made under the old name of a folder would stay there.
func (d *Dir) settleBeneath(ctx context.Context) error {
	var saved []policy.Gate
	d.t.mu.RLock()
	files := d.files(nil)
	for f, to := range d.t.entering {
		if to.isIn(d) {
			files = append(files, f)
		}
	}
	for _, f := range files {
		if gate := f.naming.Load(); gate != nil {
			saved = append(saved, *gate)
		}
	}
	d.t.mu.RUnlock()
	for _, gate := range saved {
		if err := gate.Pass(ctx); err != nil {
			return err
		}
	}
	var waits []sdk.Entry
	d.t.mu.RLock()
	if d.group != nil && d.parent != nil && d.kind == dirFolder {
		waits = d.group.waitsBeneath(d.parent.rawPath(d.raw) + "/")
	}
	d.t.mu.RUnlock()
	if err := d.t.queue.Settle(ctx, waits); err != nil {
		return wrapRemote("", "", err)
	}
	return nil
}

// beginMove keeps saves and other renames beneath d out until end, see [Tree.enterNames].
func (d *Dir) beginMove(ctx context.Context, to *Dir) (end func(), err error) {
	t := d.t
	for {
		t.mu.Lock()
		other := cmp.Or(t.movingAbove(d), t.movingAbove(to))
		if other == nil {
			gate := policy.NewGate(1)
			gate <- struct{}{} // nobody else has it yet
			t.moving[d] = gate
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.moving, d)
				t.mu.Unlock()
				gate.Leave()
			}, nil
		}
		t.mu.Unlock()
		if err := other.Pass(ctx); err != nil {
			return nil, err
		}
	}
}

// movingAbove returns the gate of a rename of d, which may be nil, or of a folder above it; nil = there is none. Needs
// Tree.mu.
func (t *Tree) movingAbove(d *Dir) policy.Gate {
	for at := d; at != nil && len(t.moving) > 0; at = at.parent {
		if gate := t.moving[at]; gate != nil {
			return gate
		}
	}
	return nil
}

// renameBeneath has the service rename the uploads beneath a folder.
func (g *group) renameBeneath(ctx context.Context, m *folderMove) error {
	t := g.dir.t
	if !m.whole {
		return g.renameOneByOne(ctx, m)
	}
	var seen sdk.Seq
	var price sdk.Amount
	one := t.spent.PriceOf(sdk.EventRenamed, sdk.Amount{})
	for i := range m.uploads {
		seen = max(seen, m.uploads[i].ChangedSeq)
		var ok bool
		if price, ok = price.Add(one); !ok {
			return &Error{Class: ClassBudget, Err: errors.New("the price of renaming so many files is beyond all " +
				"budgets")}
		}
	}
	err := t.spent.Charge(price, func() (sdk.Amount, error) {
		done, err := t.remote.RenameFolder(ctx, g.id, strings.TrimSuffix(m.old, "/"), strings.TrimSuffix(m.new, "/"),
			seen)
		m.seq, m.number = done.Seq, done.Number
		return done.Fee, err
	})
	switch sdk.KindOf(err) {
	case sdk.ErrConflict, sdk.ErrNotFound, sdk.ErrNotAuthorized: // others changed one of the folders
		_ = g.list.Refresh(ctx, 0)
		t.mu.RLock()
		theirs := g.uploaderOf(g.beneath(m.old))
		t.mu.RUnlock()
		if theirs != "" {
			return uploadedBy(theirs, "rename")
		}
	}
	return err
}

// renameOneByOne has the service rename the uploads beneath a folder, one by one. Recorded folders
// lose their records, and get new ones where they go.
func (g *group) renameOneByOne(ctx context.Context, m *folderMove) error {
	var files []sdk.Entry
	var folders []*Dir
	g.dir.t.mu.RLock()
	for _, e := range m.uploads {
		if !e.Folder {
			files = append(files, e)
		} else if d := g.folders[e.Ref]; d != nil {
			folders = append(folders, d)
		}
	}
	// what is beneath first
	slices.SortFunc(folders, func(a, b *Dir) int { return cmp.Compare(len(b.ownPath()), len(a.ownPath())) })
	g.dir.t.mu.RUnlock()
	m.uploads, m.again = files, folders
	rows, err := g.renameUploads(ctx, files, m.rename)
	if err != nil {
		return err
	}
	m.rows = rows
	for _, d := range folders {
		if err := d.unrecord(ctx); err != nil {
			return err
		}
	}
	return nil
}

// beneath returns the living uploads whose names begin with a prefix, and the recorded folders
// there. Needs Tree.mu.
func (g *group) beneath(prefix string) (list []sdk.Entry) {
	rows, _ := g.view.Beneath(strings.TrimSuffix(prefix, "/"))
	for _, e := range rows {
		list = append(list, *e)
	}
	return append(list, g.waitsBeneath(prefix)...)
}

// folderMove holds the facts about a folder that is to get a name, as far as the answer
// depends on them.
type folderMove struct {
	fixed     bool // it is a group, or belongs to one's control directory
	crosses   bool // to another group
	gone      bool // it has no name any more, or the folder it goes to has none
	beneath   bool // it would go to a folder beneath itself
	overFile  bool // a file has the name
	overFull  bool // a folder has the name, and is not empty
	tooDeep   bool // a path beneath would be too long
	overtaken bool // a file beneath would get a name that has a later upload
	ours      bool // the service renames uploads
	canRemove bool // the mount removes what is beneath
	whole     bool // it renames all of these with one record

	uploads []sdk.Entry // living, beneath the folder, in the order of the ledger, and recorded folders
	// an empty folder that has the name, and a record of its own beside that of the folder; nil = none
	replaces *Dir
	theirs   sdk.AccountID // uploader of one that the service does not rename for this account; "" = none
	again    []*Dir        // recorded folders that lost their records, and get new ones
	rows     []sdk.Entry   // uploads, once the service has renamed them one by one
	seq      sdk.Seq       // of the record, once the service made one for all
	number   int64         // of that record
	stays    bool          // it is local again when the service fails in the middle
	unsure   bool          // others may have changed uploads between what is known and that record
	old, new string        // prefixes of the recorded names beneath, before and after
}

// plan decides (N5, W8). It looks at nothing but m.
func (m *folderMove) plan() *Error {
	switch {
	case m.gone && !m.fixed:
		return &Error{Class: ClassNotExist, Err: errors.New("the folder is gone")}
	case m.crosses && !m.fixed && m.canRemove:
		return &Error{Class: ClassCrossDevice, Err: errors.New("groups are sealed with different keys"),
			Hint: "mv copies the folder and removes the original."}
	case m.fixed, m.crosses:
		return &Error{Class: ClassByDesign, Err: errors.New("a folder moves only inside its group, while what is " +
			"beneath it cannot be removed"), Hint: "Copy it, if a second upload of its files is wanted."}
	case m.overFile:
		return &Error{Class: ClassNotDir, Err: errors.New("a file has the new name")}
	case m.overFull:
		return &Error{Class: ClassNotEmpty, Err: errors.New("the folder of the new name is not empty")}
	case m.beneath:
		return &Error{Class: ClassInvalid, Err: errors.New("a folder cannot move into itself")}
	case m.tooDeep:
		return tooDeep()
	case len(m.uploads) == 0:
		return nil
	case !m.ours:
		return &Error{Class: ClassByDesign, Err: errors.New("files beneath it are uploaded, and the ledger keeps " +
			"their names"),
			Hint: "Copy the folder to the new name, which uploads the files again."}
	case m.overtaken:
		return keepsName("a name beneath it was uploaded later than the file that would take it")
	case m.theirs != "":
		return uploadedBy(m.theirs, "rename")
	}
	return nil
}

// waits reports whether some of the uploads have no record yet.
func (m *folderMove) waits() bool {
	return slices.ContainsFunc(m.uploads, func(e sdk.Entry) bool { return isWaiting(&e) })
}

// rename returns the new name of an upload beneath the folder.
func (m *folderMove) rename(name string) string {
	return strings.TrimSuffix(m.new, "/") + strings.TrimPrefix(name, strings.TrimSuffix(m.old, "/"))
}

// moveFacts gathers the facts before a folder gets a name. Needs Tree.mu.
func (d *Dir) moveFacts(to *Dir, newName string) *folderMove {
	m := &folderMove{fixed: d.kind != dirFolder, crosses: d.group != to.group, gone: d.parent == nil ||
		to.parent == nil, ours: d.t.cfg.Ours}
	if m.fixed || m.gone {
		return m
	}
	if m.crosses {
		uploads := d.group.beneath(d.parent.rawPath(d.raw) + "/")
		m.canRemove = len(uploads) == 0 || d.t.cfg.Ours && d.group.uploaderOf(uploads) == ""
		return m
	}
	switch target := to.find(newName).(type) {
	case *File:
		m.overFile = true
	case *Dir:
		m.overFull = len(target.children) > 0
		if d.recorded != "" && target.recorded != "" {
			m.replaces = target
		}
	}
	m.beneath = to.isIn(d)
	g := d.group
	m.old, m.new = d.parent.rawPath(d.raw)+"/", to.rawPath(newName)+"/"
	m.whole = chain.IsFolderMove(strings.TrimSuffix(m.old, "/"), strings.TrimSuffix(m.new, "/"))
	m.uploads = g.beneath(m.old)
	var moves int64 // bytes
	for i := range m.uploads {
		e := &m.uploads[i]
		moves += chain.MoveBytes(m.rename(e.Name))
		if !e.Folder {
			m.tooDeep = m.tooDeep || len(m.rename(e.Name)) > names.MaxPathBytes
			there := g.names[m.rename(e.Name)]
			m.overtaken = m.overtaken || there.isLaterThan(g.names[e.Name])
			m.whole = m.whole && (there == nil || there.newest() == nil)
		}
	}
	for _, f := range d.files(nil) {
		m.tooDeep = m.tooDeep || len(m.rename(f.raw)) > names.MaxPathBytes
	}
	m.whole = m.whole && moves <= chain.MaxMoveBytes
	slices.SortFunc(m.uploads, func(a, b sdk.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	m.theirs = g.uploaderOf(m.uploads)
	return m
}

// moveTo gives the folder its new name, once the service has renamed the uploads
// beneath it. Needs Tree.mu.
func (d *Dir) moveTo(to *Dir, newName string, m *folderMove) []notice {
	t := d.t
	g, to := d.group, to.remade(strings.TrimSuffix(m.new, "/"))
	if to.isIn(d) { // another rename was faster
		return g.placeAll(g.mergeMoved(m))
	}
	if d.parent != nil {
		d.carry()
		d.parent.setChanged(t.now())
		d.parent.detach(d.name, d) // the kernel knows
	}
	to.setChanged(t.now())
	d.setMoved(t.now())
	shown := names.Component(newName)
	if there, ok := to.children[shown].(*Dir); ok {
		d.takeOver(there) // a listing may have put files there meanwhile
		to.detach(shown, there)
	}
	files := d.files(nil)
	for _, f := range files {
		f.unshow()
	}
	d.raw, d.local = newName, d.recorded == ""
	notices := to.attach(names.Free(shown, newName, func(name string) bool { return to.children[name] == nil }), d)
	for _, f := range files {
		f.raw = f.dir.rawPath(f.raw[strings.LastIndexByte(f.raw, '/')+1:])
		if f.isKind(fileReal) {
			f.group.version(f.raw).shown = f
		}
	}
	for _, e := range m.uploads { // a name that a backup left free stays free
		if v := g.names[e.Name]; v != nil && v.hidden == e.Ref {
			v.hidden, g.version(m.rename(e.Name)).hidden = "", e.Ref
		}
	}
	return append(notices, g.placeAll(g.mergeMoved(m))...)
}

// mergeMoved merges the names of uploads that moved with their folder. The record of that does not name them: its
// number is theirs only where every record before it is known. Else a listing tells. Needs Tree.mu.
func (g *group) mergeMoved(m *folderMove) map[*versions]bool {
	if m.number == 0 {
		return g.mergeOwn(m.rows)
	}
	m.unsure = !g.view.KnowsUpTo(m.number - 1)
	var rows []sdk.Entry
	for _, e := range g.beneath(m.old) { // others may have renamed some of m.uploads meanwhile
		if e.Number < m.number {
			e.Name, e.ChangedSeq, e.Number, e.NamedNumber = m.rename(e.Name), m.seq, m.number, 0
			if m.unsure {
				e.Number = 0
			}
			rows = append(rows, e)
		}
	}
	return g.mergeOwn(rows)
}

// isIn reports whether d is the other folder, or lies beneath it. Needs Tree.mu.
func (d *Dir) isIn(other *Dir) bool {
	for at := d; at != nil; at = at.parent {
		if at == other {
			return true
		}
	}
	return false
}

// carry notes that what is beneath a folder keeps its inode numbers while the folder moves, or
// goes. Needs Tree.mu.
func (d *Dir) carry() {
	for name, n := range d.children {
		d.spend(name, n)
		if beneath, ok := n.(*Dir); ok {
			beneath.carry()
		}
	}
}

// takeOver moves the entries of another folder into d. Of entries that collide, those of d
// keep their names (N3). Needs Tree.mu.
func (d *Dir) takeOver(other *Dir) {
	d.foreign = d.foreign || other.foreign
	if ref := other.recorded; ref != "" {
		other.recorded = ""
		d.setRecorded(ref)
	}
	for name, n := range other.children {
		mine, ref := d.children[name], name
		switch n := n.(type) {
		case *Dir:
			if mine, ok := mine.(*Dir); ok {
				mine.takeOver(n)
				continue
			}
			ref = n.raw
		case *File:
			if mine, ok := mine.(*File); ok && mine.isKind(fileReal) { // it is being changed here, and gets the record
				other.detach(name, n)
				continue
			}
			if e := n.entry.Load(); e != nil {
				ref = string(e.Ref)
			}
		}
		other.detach(name, n)
		d.attach(names.Free(name, ref, func(name string) bool { return d.children[name] == nil }), n)
	}
}

// files collects the files whose main names are beneath d. Needs Tree.mu.
func (d *Dir) files(list []*File) []*File {
	for name, n := range d.children {
		switch n := n.(type) {
		case *File:
			if n.dir == d && n.name == name {
				list = append(list, n)
			}
		case *Dir:
			list = n.files(list)
		}
	}
	return list
}
