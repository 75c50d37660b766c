package tree

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

const rootIno = 1

type dirKind uint8

const (
	dirRoot    dirKind = iota // the mount itself: one directory per group
	dirGroup                  // a group
	dirFolder                 // a folder inside a group, made of slashes in recorded names
	dirControl                // /.svcfs and GROUP/.svcfs
	dirHistory                // in GROUP/.svcfs: the versions of a name
)

// Dir is a directory inode.
type Dir struct {
	t        *Tree
	ino, gen uint64
	kind     dirKind
	attributes

	// By Tree.mu.
	parent   *Dir // nil for the root, and for a directory that is gone
	name     string
	raw      string // recorded component of a folder
	group    *group // nil for the root and control directories
	children map[string]Node
	hidden   map[string]Node // found by name, not listed
	local    bool            // made by mkdir here: stays while empty
	recorded sdk.Ref         // of the record of a folder, which stays while empty; "" = none
	foreign  bool            // holds, or held, a file of another account: see owner.go
	past     *past           // of a history directory
	seen     int             // group.changes when its children were made
}

// newDir makes a directory that is not yet in its parent. Needs Tree.mu.
func (t *Tree) newDir(parent *Dir, name string, kind dirKind) *Dir {
	d := &Dir{t: t, kind: kind, parent: parent, name: name, children: make(map[string]Node),
		attributes: attributes{mtime: t.started}}
	if parent != nil {
		d.group = parent.group
		if kind == dirFolder {
			d.setChanged(t.now())
		}
	}
	d.gen = t.gens.Add(1)
	d.ino = t.freeInode(d.path(), d.gen)
	return d
}

// freeInode is inodeOf for a new file or folder, unless another had that number in this
// mount: a program may have it open still. Needs Tree.mu.
func (t *Tree) freeInode(path string, gen uint64) uint64 {
	ino := inodeOf(path)
	if _, given := t.given[ino]; given {
		ino = inodeOf(path + "\x00" + strconv.FormatUint(gen, 10))
	}
	return ino
}

// spend keeps the number of name in d from what gets that name after n. Other numbers come
// no second time. Needs Tree.mu.
func (d *Dir) spend(name string, n Node) {
	if ino := inodeOf(join(d.path(), name)); ino == inode(n) {
		d.t.given[ino] = struct{}{}
		d.t.held += givenBytes
	}
}

// inode returns the number of a file or folder.
func inode(n Node) uint64 {
	switch n := n.(type) {
	case *File:
		return n.ino
	case *Dir:
		return n.ino
	}
	return 0
}

// inodeOf gives a path the same inode number in every mount (A4). Nobody can choose a name
// that has the number of another: programs would take the two for one file.
func inodeOf(path string) uint64 {
	sum := sha256.Sum256([]byte(path))
	ino := binary.LittleEndian.Uint64(sum[:])
	if ino <= rootIno || ino == math.MaxUint64 { // the library's own
		ino = rootIno + 1
	}
	return ino
}

// NodeOf returns the file or folder with an inode number, and a name that it has; nil when
// no name shows one. It looks at every name of the mount.
func (t *Tree) NodeOf(ino uint64) Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.root.nodeOf(ino)
}

// nodeOf needs Tree.mu.
func (d *Dir) nodeOf(ino uint64) Node {
	if d.ino == ino {
		return d
	}
	for _, names := range []map[string]Node{d.children, d.hidden} {
		for _, n := range names {
			if beneath, ok := n.(*Dir); ok {
				if found := beneath.nodeOf(ino); found != nil {
					return found
				}
			} else if inode(n) == ino {
				return n
			}
		}
	}
	return nil
}

// Parent returns the folder that shows d, and the name there; nil for the root and a folder
// that is gone.
func (d *Dir) Parent() (*Dir, string) {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return d.parent, d.name
}

// Parent returns the folder that shows the file, and the name there; nil when none does.
func (f *File) Parent() (*Dir, string) {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return f.dir, f.name
}

// Path returns the directory's place below the mount, such as "/team/photos".
func (d *Dir) Path() string {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return d.path()
}

// IsGone reports whether the directory has no name any more.
func (d *Dir) IsGone() bool {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return d.parent == nil && d.kind != dirRoot
}

// path needs Tree.mu.
func (d *Dir) path() string {
	if d.kind == dirRoot {
		return "/"
	}
	var parts []string
	for at := d; at != nil && at.kind != dirRoot; at = at.parent {
		parts = append(parts, at.name)
	}
	slices.Reverse(parts)
	return "/" + strings.Join(parts, "/")
}

// rawPath returns the recorded name of a file called name in d. Needs Tree.mu.
func (d *Dir) rawPath(name string) string {
	parts := []string{name}
	for at := d; at != nil && at.kind == dirFolder; at = at.parent {
		parts = append(parts, at.raw)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// Attr returns the attributes that stat shows.
func (d *Dir) Attr() Attr {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return d.fill(Attr{Ino: d.ino, Gen: d.gen, Dir: true, ReadOnly: d.isControl() || d.group.isReader(),
		Control: d.isControl(), Nlink: 2,
		Foreign: d.isForeign(), Unsure: d.kind == dirGroup && !d.group.list.IsListed()}, time.Time{})
}

// isControl reports whether d is a .svcfs directory or lies in one.
func (d *Dir) isControl() bool { return d.kind == dirControl || d.kind == dirHistory }

// Lookup finds a name. A name that is not there makes the tree look at the
// ledger once more, at most twice a second. Free.
func (d *Dir) Lookup(ctx context.Context, name string) (Node, error) {
	if len(name) > names.MaxBytes {
		return nil, plain(ClassNameTooLong, "look up", d.Path(), nameTooLong)
	}
	if d.group != nil {
		if err := d.group.use(ctx, -1); err != nil {
			return nil, d.failed("look up", name, err)
		}
	}
	if err := d.prepare(ctx, name); err != nil {
		return nil, d.failed("look up", name, err)
	}
	if n := d.child(name); n != nil {
		if d.kind == dirRoot && name != names.Control {
			d.t.look.Groups.NoteUse()
		}
		return n, nil
	}
	absent := plain(ClassNotExist, "look up", join(d.Path(), name), "no such file")
	if d.isScratch(name) || d.isControl() {
		return nil, absent
	}
	if err := d.lookAgain(ctx); err != nil {
		return nil, d.failed("look up", name, err)
	}
	if n := d.child(name); n != nil {
		return n, nil
	}
	return nil, absent
}

// prepare brings the file of that name in a control directory up to date.
func (d *Dir) prepare(ctx context.Context, name string) error {
	switch {
	case d.kind == dirControl && d.group != nil:
		err := d.group.ask(ctx, name)
		if isAway(err) && d.group.list.IsListed() {
			return nil // as it was, or empty
		}
		return err
	case d.kind == dirHistory:
		d.refreshPast()
	}
	return nil
}

func (d *Dir) lookAgain(ctx context.Context) error {
	if d.group != nil {
		return d.group.use(ctx, missInterval)
	}
	return d.t.look.Groups.Use(ctx, missInterval)
}

// child returns the node of a name as typed or as shown.
func (d *Dir) child(name string) Node {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return d.find(name)
}

// find needs Tree.mu.
func (d *Dir) find(name string) Node {
	if n, ok := d.children[name]; ok {
		return n
	}
	if n, ok := d.hidden[name]; ok {
		return n
	}
	if !names.IsSafe(name) {
		if n, ok := d.children[names.Component(name)]; ok {
			return n
		}
	}
	return nil
}

// Entries returns the listed names in order, after a look at the ledger if the
// last one is older than the refresh interval. Free.
func (d *Dir) Entries(ctx context.Context) ([]DirEntry, error) {
	if d.group != nil {
		if err := d.group.use(ctx, missInterval); err != nil {
			return nil, d.failed("list", "", err)
		}
	}
	if d.kind == dirHistory {
		d.refreshPast()
	}
	if d.kind == dirRoot {
		if err := d.lookAgain(ctx); err != nil {
			return nil, d.failed("list", "", err)
		}
	}
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	list := make([]DirEntry, 0, len(d.children))
	for name, n := range d.children {
		list = append(list, DirEntry{Name: name, Node: n})
	}
	slices.SortFunc(list, func(a, b DirEntry) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// failed notes why an operation on name in d failed.
func (d *Dir) failed(op, name string, err error) error {
	path := d.Path()
	if name != "" {
		path = join(path, name)
	}
	return d.t.fail(op, path, err)
}

// refuse notes a refusal by a rule of ours.
func (d *Dir) refuse(class Class, op, name, text, hint string) error {
	return d.t.fail(op, join(d.Path(), name), &Error{Class: class, Err: errors.New(text), Hint: hint})
}

// Changeable refuses to change anything of a directory in a read-only mount, and
// where this account is a reader.
func (d *Dir) Changeable(op string) error {
	if refused := d.t.readOnlyIn(d.group); refused != nil {
		return d.t.fail(op, d.Path(), refused)
	}
	return nil
}

// changeable refuses changes where nothing may change, and lists the group first if it was
// not listed yet.
func (d *Dir) changeable(ctx context.Context, op, name string) error {
	refused := d.t.readOnlyIn(d.group)
	if refused == nil && d.isControl() {
		refused = controlOnly()
	}
	if refused == nil {
		refused = checkNewName(name)
	}
	if refused != nil {
		return d.failed(op, name, refused)
	}
	if d.group == nil {
		return nil
	}
	if err := d.group.use(ctx, -1); err != nil {
		return d.failed(op, name, err)
	}
	if d.isTooDeep(name) {
		return d.failed(op, name, tooDeep())
	}
	return nil
}

// isTooDeep reports whether a new file called name in d would have a path that the ledger cannot hold.
func (d *Dir) isTooDeep(name string) bool {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return len(d.rawPath(name)) > names.MaxPathBytes && d.find(name) == nil
}

func tooDeep() *Error {
	return &Error{Class: ClassNameTooLong, Err: fmt.Errorf("the path inside the group is longer than %d bytes",
		names.MaxPathBytes), Hint: "Use fewer or shorter folders."}
}

// Create makes a file for writing, or opens the one that is there. Free until
// it is closed.
func (d *Dir) Create(ctx context.Context, name string, exclusive bool, flags OpenFlags) (*File, *Handle, error) {
	if err := d.changeable(ctx, "create", name); err != nil {
		return nil, nil, err
	}
	if d.group == nil {
		return nil, nil, d.refuse(ClassByDesign, "create", name, "files live in groups, and this is the list of groups",
			"Create the file inside one of the directories, or make a group with: svcfs group create NAME")
	}
	f, h, err := d.createHere(name, flags)
	if err != nil || f != nil {
		return f, h, err
	}
	switch n := d.child(name).(type) {
	case *File:
		if exclusive {
			return nil, nil, plain(ClassExist, "create", n.Path(), "the file exists")
		}
		if n.IsLink() { // it was made just now: the kernel follows links itself
			return nil, nil, plain(ClassStale, "create", n.Path(), "it is a symbolic link by now")
		}
		h, err := n.Open(ctx, flags)
		return n, h, err
	case *Dir:
		return nil, nil, plain(ClassIsDir, "create", n.Path(), "a folder has this name")
	default:
		return nil, nil, plain(ClassNotExist, "create", join(d.Path(), name), "the folder is gone")
	}
}

// createHere makes the file unless the name is taken: then all results are nil.
func (d *Dir) createHere(name string, flags OpenFlags) (*File, *Handle, error) {
	t := d.t
	temp := policy.IsTemp(name, flags.Caller)
	t.mu.Lock()
	if d.find(name) != nil || d.parent == nil || d.group.gone {
		t.mu.Unlock()
		return nil, nil, nil
	}
	shown := names.Component(name)
	f := d.newFile(shown)
	f.group, f.raw = d.group, d.rawPath(name)
	if d.namesScratch(name) || temp {
		f.become(fileScratch)
	}
	if err := f.addStage(content.Changed); err != nil {
		t.mu.Unlock()
		return nil, nil, t.fail("create", join(d.Path(), name), err)
	}
	f.maker = processOf(flags.Caller)
	h := f.handleIn(d.group, flags) // before others see the file: what they write and close stays while it is open
	d.attach(shown, f)
	d.setChanged(t.now())
	if f.isKind(fileReal) {
		d.group.version(f.raw).shown = f
	}
	t.mu.Unlock()
	return f, h, nil
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

// Mkdir makes a folder inside a group, free, and records it where the service does so; in the root
// it registers a group where that is allowed, which costs one registration (N5).
func (d *Dir) Mkdir(ctx context.Context, name string) (*Dir, error) {
	if err := d.changeable(ctx, "mkdir", name); err != nil {
		return nil, err
	}
	if d.kind == dirRoot {
		return d.mkGroup(ctx, name)
	}
	made, err := d.mkFolder(name)
	if err == nil {
		made.record(ctx)
	}
	return made, err
}

func (d *Dir) mkFolder(name string) (*Dir, error) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	if d.parent == nil || d.group.gone {
		return nil, plain(ClassNotExist, "mkdir", join(d.path(), name), "the folder is gone")
	}
	if d.find(name) != nil {
		return nil, plain(ClassExist, "mkdir", join(d.path(), name), "the name exists")
	}
	shown := names.Component(name)
	made := d.t.newDir(d, shown, dirFolder)
	made.raw, made.local = name, true
	d.attach(shown, made)
	d.setChanged(d.t.now())
	return made, nil
}

func (d *Dir) mkGroup(ctx context.Context, name string) (*Dir, error) {
	if d.child(name) != nil {
		return nil, plain(ClassExist, "mkdir", join("/", name), "the group exists")
	}
	if d.t.cfg.Ours && policy.IsWastebasket(name) {
		return d.t.addWastebasket(name), nil
	}
	if d.isScratch(name) { // file managers make a wastebasket where there is none
		return nil, d.refuse(ClassByDesign, "mkdir", name,
			"registering a group costs tokens, and this is the name of something temporary",
			"Use: svcfs group create NAME, if a group of this name is meant.")
	}
	if !d.t.cfg.AllowMkdir {
		return nil, d.refuse(ClassByDesign, "mkdir", name,
			"registering a group costs tokens, so mkdir does not do it here",
			"Use: svcfs group create NAME (or mount with --allow-mkdir).")
	}
	err := d.t.spent.Spend("register_group", func() (fee sdk.Amount, err error) {
		return fee, d.t.remote.RegisterGroup(ctx, sdk.GroupID(name))
	})
	if err != nil {
		return nil, d.failed("mkdir", name, err)
	}
	if err := d.t.look.Groups.Refresh(ctx, 0); err != nil {
		return nil, d.failed("mkdir", name, err)
	}
	d.t.mu.RLock()
	made := d.t.groups[sdk.GroupID(name)]
	d.t.mu.RUnlock()
	if made == nil {
		return nil, d.refuse(ClassOther, "mkdir", name, "the group was registered but is not listed yet",
			"Look again in a few seconds.")
	}
	return made.dir, nil
}

// existing returns the node of name.
func (d *Dir) existing(op, name string) (Node, error) {
	if n := d.child(name); n != nil {
		return n, nil
	}
	return nil, plain(ClassNotExist, op, join(d.Path(), name), "no such file")
}

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
	d.t.mu.RLock()
	err = dir.holdsNothing()
	d.t.mu.RUnlock()
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

// Fsync records the empty files, links and attributes that wait in the directory for their
// moment: after it, every name that was closed here is on the ledger (W5, W16).
func (d *Dir) Fsync(ctx context.Context) error {
	d.t.mu.RLock()
	var files, unkept []*File
	for _, n := range d.children {
		f, ok := n.(*File)
		if !ok || !f.isKind(fileReal) {
			continue
		}
		if f.now.IsStaged() {
			files = append(files, f)
		}
		if _, waits := d.t.unkept.Load(f); waits {
			unkept = append(unkept, f)
		}
	}
	d.t.mu.RUnlock()
	for _, f := range unkept {
		if err := f.keepNow(ctx); err != nil {
			return f.failed("fsync", err)
		}
	}
	for _, f := range files {
		if empty := f.Attr().Size == 0; !f.IsLink() && !f.now.Is(content.Waiting) &&
			!(empty && f.now.Is(content.Sending)) {
			continue
		}
		if err := f.commit(ctx, commitNow); err != nil {
			return f.failed("fsync", err)
		}
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
	return d.unlink(ctx, name, remove)
}

// unlink is Unlink with a way to remove uploads.
func (d *Dir) unlink(ctx context.Context, name string, remove func(*File, context.Context) error) error {
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
	if err := f.nameGate().enter(ctx); err != nil {
		return d.failed("unlink", name, err)
	}
	defer f.nameGate().leave()
	if f.entry.Load() != nil && f.isKind(fileReal) && !f.isLink(d, names.Component(name)) {
		if !d.t.cfg.Ours {
			return d.refuse(ClassByDesign, "unlink", name,
				"the file is uploaded, and removing it would destroy its key for everybody",
				"Upload another file of this name to replace what is shown.")
		}
		err := f.whileItWaits(ctx, func() error { return d.removeUploads(ctx, f, remove) })
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

// isScratch reports whether a file called name in d is never uploaded under it.
func (d *Dir) isScratch(name string) bool {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return d.namesScratch(name)
}

// namesScratch is isScratch for a caller that holds Tree.mu.
func (d *Dir) namesScratch(name string) bool {
	if d.group != nil && d.group.waste {
		return true
	}
	if policy.Matches(d.t.cfg.Scratch, name) {
		return true
	}
	for at := d; at != nil && at.kind == dirFolder; at = at.parent {
		if policy.IsGit(at.raw) {
			return policy.Matches(policy.GitNames(), name)
		}
	}
	return false
}

const nameTooLong = "the name is longer than 255 bytes"

// checkNewName refuses names that the ledger cannot hold. name comes from the kernel: it
// has no slash and no NUL.
func checkNewName(name string) *Error {
	if len(name) > names.MaxBytes {
		return &Error{Class: ClassNameTooLong, Err: errors.New(nameTooLong)}
	}
	if !utf8.ValidString(name) {
		return &Error{Class: ClassInvalid, Err: errors.New("the name is not UTF-8 and the ledger holds only text"),
			Hint: "Rename it first, for example with convmv."}
	}
	return nil
}
