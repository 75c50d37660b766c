package tree

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

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
		return d.addWastebasket(name), nil
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
