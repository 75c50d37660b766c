package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

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
		Foreign: d.isForeign(),
		Unsure:  d.kind == dirGroup && !d.group.list.IsListed() || !d.foreign && d.mayHoldOthers()}, time.Time{})
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
		if err := d.useName(ctx, name); err != nil {
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
	err := d.lookAgain(ctx)
	if err == nil {
		err = d.know(ctx, name) // what it told may make the name unknown
	}
	if err != nil {
		return nil, d.failed("look up", name, err)
	}
	if n := d.child(name); n != nil {
		return n, nil
	}
	return nil, absent
}

// useName makes sure that d, which is in a group, shows what is under a name.
func (d *Dir) useName(ctx context.Context, name string) error {
	err := d.know(ctx, name)
	if err == nil && d.needsAll(name) {
		err = d.group.knowAll(ctx)
	}
	if err != nil {
		return err
	}
	d.knowTarget(ctx, name)
	return d.group.use(ctx, -1)
}

// useInside makes sure that d, which is in a group, shows what is directly in it, as it was lately.
func (d *Dir) useInside(ctx context.Context) error {
	err := d.knowInside(ctx)
	if err == nil && d.needsAll("") {
		err = d.group.knowAll(ctx)
	}
	if err == nil {
		err = d.group.use(ctx, missInterval)
	}
	if err == nil {
		err = d.knowInside(ctx) // what it told may make the folder unknown
	}
	return err
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
		if err := d.useInside(ctx); err != nil {
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
	if err := d.useName(ctx, name); err != nil {
		return d.failed(op, name, err)
	}
	if d.isTooDeep(name) {
		return d.failed(op, name, tooDeep())
	}
	return nil
}

// existing returns the node of name.
func (d *Dir) existing(op, name string) (Node, error) {
	if n := d.child(name); n != nil {
		return n, nil
	}
	return nil, plain(ClassNotExist, op, join(d.Path(), name), "no such file")
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
		if d.t.unrecorded.kept.has(f) {
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
		if !f.IsLink() && !f.now.Is(content.Waiting) && !f.isClosedEmpty() {
			continue
		}
		if err := f.commit(ctx, commitNow); err != nil {
			return f.failed("fsync", err)
		}
	}
	return nil
}

// isClosedEmpty reports whether the file is empty, no program writes it, and that is a whole save.
func (f *File) isClosedEmpty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Attr().Size == 0 && f.writers == 0 && f.half == nil
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
