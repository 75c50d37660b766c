package tree

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/names"
)

// A symbolic link is a File with a target, which never changes: where a name changes
// between a file and a link, it points at another File. The content of
// a link is its target, so a link is staged, saved, renamed and removed as a file is (N6).
//
// The links of this account lead anywhere. A link that another account uploaded is shown as
// a link only where it cannot lead a program out of the group: see [Dir.fault]. Whether a
// name is a link on the way of another is a matter of what is recorded, not of what is shown, so
// that the answer depends on no order.

// LinkAttribute is the extended attribute with the reason why a link of another account
// is shown as a file.
const LinkAttribute = "user.svcfs.link"

// maxTheirSlashes bounds the work for a link of another account, which is checked often.
const maxTheirSlashes = 128

// targetOf returns the target that was recorded with e, "" if e is no link.
func targetOf(e *sdk.Entry) string {
	if e == nil || e.Attributes == nil {
		return ""
	}
	return e.Attributes.Target
}

func isLink(e *sdk.Entry) bool { return targetOf(e) != "" }

// recordsLink reports whether f is a link to the ledger, or is to be one.
func (f *File) recordsLink() bool { return f.target != "" || targetOf(f.entry.Load()) != "" }

// Symlink makes a symbolic link. Like an empty file it exists in this mount at once, and is
// uploaded a moment later (W5); under a scratch name never (W6).
func (d *Dir) Symlink(ctx context.Context, target, name string) (*File, error) {
	if err := d.changeable(ctx, "symlink", name); err != nil {
		return nil, err
	}
	if refused := d.mayLink(target, name); refused != nil {
		return nil, d.failed("symlink", name, refused)
	}
	var f *File
	var refused *Error
	d.t.change(func() []notice {
		f, refused = d.symlinkHere(target, name)
		return nil
	})
	switch {
	case refused == nil:
	case refused.Class == ClassNoMemory:
		return nil, d.failed("symlink", name, refused)
	default:
		return nil, plain(refused.Class, "symlink", join(d.Path(), name), refused.Err.Error())
	}
	if err := f.commit(ctx, commitOnClose); err != nil { // it waits
		return nil, f.failed("symlink", err)
	}
	return f, nil
}

// mayLink refuses links that the ledger, or the service, does not take.
func (d *Dir) mayLink(target, name string) *Error {
	switch {
	case d.group == nil:
		return &Error{Class: ClassByDesign, Err: errors.New("links live in groups, and this is the list of groups"),
			Hint: "Make the link inside one of the directories."}
	case len(target) > format.MaxTargetBytes:
		return &Error{Class: ClassNameTooLong, Err: errors.New("the target of the link is longer than 4095 bytes")}
	case target == "":
		return &Error{Class: ClassInvalid, Err: errors.New("the target of the link is empty")}
	case !utf8.ValidString(target) || strings.ContainsRune(target, 0):
		return &Error{Class: ClassInvalid, Err: errors.New("the target of the link is not UTF-8 and the ledger holds " +
			"only text"), Hint: "Rename what it points to first, for example with convmv."}
	case !d.t.cfg.Ours && !d.isScratch(name):
		return noLinks()
	}
	return nil
}

func noLinks() *Error {
	return &Error{Class: ClassByDesign, Err: errors.New("the service holds files, not symbolic links"),
		Hint: "Copy the file that is meant, for example with: cp -L"}
}

// symlinkHere gives a new link the name. Needs Tree.mu.
func (d *Dir) symlinkHere(target, name string) (*File, *Error) {
	if d.parent == nil || d.group.gone {
		return nil, &Error{Class: ClassNotExist, Err: errors.New("the folder is gone")}
	}
	if d.find(name) != nil {
		return nil, &Error{Class: ClassExist, Err: errors.New("the name exists")}
	}
	shown := names.Component(name)
	f := d.newFile(shown)
	f.target, f.group, f.raw = target, d.group, d.rawPath(name)
	if d.namesScratch(name) {
		f.become(fileScratch)
	}
	if err := f.stageTarget(); err != nil {
		return nil, wrapRemote("", "", err)
	}
	d.attach(shown, f)
	d.setChanged(d.t.now())
	if f.isKind(fileReal) {
		d.group.version(f.raw).shown = f
	}
	return f, nil
}

// stageTarget makes the content of a new link. No other goroutine may have f yet.
func (f *File) stageTarget() error {
	if err := f.addStage(content.Changed); err != nil {
		return err
	}
	if err := f.stage.WriteAt([]byte(f.target), 0); err != nil {
		f.dropStage()
		return err
	}
	f.setSize(int64(len(f.target)))
	return nil
}

// targetBuffer returns the content of a recorded link, without asking the service.
func (g *group) targetBuffer(e *sdk.Entry) (*mem.Buffer, error) {
	t := g.dir.t
	t.mu.RLock()
	now := g.entry(e.Ref)
	t.mu.RUnlock()
	if now != nil && now.Deleted != nil && !now.Deleted.InTrash {
		return nil, &Error{Class: ClassNotExist, Err: errors.New("the file was deleted")}
	}
	target := targetOf(e)
	if sdk.ComputeHash([]byte(target)) != e.Hash {
		return nil, &Error{Class: ClassCorrupt, Err: errors.New("the recorded target of the link differs from its " +
			"hash in the ledger")}
	}
	buf, err := t.contents.Pool.Get(int64(len(target)))
	if err != nil {
		return nil, &Error{Class: ClassNoMemory, Err: err}
	}
	copy(buf.Bytes(), target)
	return buf, nil
}

// Readlink returns the target of a link. Free. A link of another account that has become
// unsafe, and one that no name shows any more, is ClassStale: the kernel looks the name up again, and
// finds a file.
func (f *File) Readlink() (string, error) {
	if f.target == "" {
		return "", plain(ClassInvalid, "readlink", f.Path(), "it is no symbolic link")
	}
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	switch {
	case f.group.gone:
		return "", outOfGroup()
	case !f.t.isForeign(f.entry.Load()):
		return f.target, nil
	case f.dir == nil || f.dir.fault(f.target) != "":
		return "", plain(ClassStale, "readlink", f.name, "the name shows something else by now")
	}
	return f.target, nil
}

// IsLink reports whether f is shown as a symbolic link.
func (f *File) IsLink() bool { return f.target != "" }

// fault returns why a link of another account in d may not be followed, "" if it may. The
// kernel follows a link component by component from d, so the target has to stay in the group at every
// component, and no component may be a link: one of this account may lead anywhere, and
// behind any other ".." is another place than it seems. What does not exist is harmless. Needs Tree.mu.
func (d *Dir) fault(target string) string {
	if strings.HasPrefix(target, "/") {
		return "the target is an absolute path"
	}
	if strings.Count(target, "/") > maxTheirSlashes {
		return "the target has too many components"
	}
	at, missing := d, 0 // missing: components below at that do not exist
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == names.Control:
			return "the target is in a control directory"
		case part == ".." && missing > 0:
			missing--
			continue
		case part == ".." && (at.kind != dirFolder || at.parent == nil):
			return "the target leaves the group"
		case part == "..":
			at = at.parent
			continue
		case !names.IsSafe(part):
			return "the target holds characters that no name shows"
		case missing > 0:
			missing++
			continue
		}
		if p := at.partial(); p != nil && !p.Knows(at.rawPath(part)) {
			return "the target leads over a name that nobody looked at"
		}
		switch next := at.find(part).(type) {
		case *Dir:
			at = next
		case *File:
			if next.recordsLink() {
				return "the target leads over another link"
			}
			missing++
		default:
			if p := at.partial(); p != nil && p.IsFolder(at.rawPath(part)) { // known, and not shown yet
				return "the target leads over a name that nobody looked at"
			}
			missing++
		}
	}
	return ""
}

// shownTarget returns the target with which e is shown in d: "" for a file, and for a link
// that is shown as one. Needs Tree.mu.
func (d *Dir) shownTarget(e *sdk.Entry) string {
	target := targetOf(e)
	if target != "" && d.t.isForeign(e) && d.fault(target) != "" {
		return ""
	}
	return target
}

// linkFault returns why f is shown as a file, "" if it is none, or is shown as a link.
func (f *File) linkFault() string {
	target := targetOf(f.entry.Load())
	if target == "" || f.target != "" {
		return ""
	}
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	if f.dir == nil {
		return ""
	}
	if f.dir.isControl() {
		return "it is a version"
	}
	return f.dir.fault(target)
}

// mostLooks is how many names a link of another account has looked at.
const mostLooks = 8

// knowTarget looks at what a link of others leads over, where the group is known in part, and shows the link as what it
// is then: where that fails, as a file.
func (d *Dir) knowTarget(ctx context.Context, name string) {
	t := d.t
	if d.partial() == nil {
		return
	}
	t.mu.RLock()
	target, way, raw := "", d.pathInGroup(), d.rawPath(name)
	if f, is := d.find(name).(*File); is && t.isForeign(f.entry.Load()) {
		target = targetOf(f.entry.Load())
	}
	t.mu.RUnlock()
	if target == "" {
		return
	}
	if parts := strings.Split(target, "/"); len(parts) <= mostLooks && parts[0] != "" {
		d.group.lookAlong(ctx, way, parts)
	}
	t.mu.RLock()
	f, is := d.find(name).(*File)
	isShown := !is || f.target == d.shownTarget(f.entry.Load())
	t.mu.RUnlock()
	if isShown { // mostly
		return
	}
	t.change(func() []notice {
		if v := d.group.names[raw]; v != nil {
			return d.group.relinkOne(v)
		}
		return nil
	})
}

// lookAlong looks at the names on a way from a folder, until one cannot be looked at alone.
func (g *group) lookAlong(ctx context.Context, way string, parts []string) {
	p := g.part.Load()
	for _, part := range parts {
		if way = path.Join(way, part); way == ".." || strings.HasPrefix(way, "../") {
			return
		}
		if way == "." || p == nil || p.Knows(way) {
			continue
		}
		if !names.IsPlain(part) || names.IsHash(way) || !g.dir.t.look.Reached() || // or the group would be listed
			g.know(ctx, wanted{path: way}) != nil {
			return
		}
	}
}

// noteTheirLink notes that a name is a link of another account. Needs Tree.mu.
func (g *group) noteTheirLink(v *versions) {
	if g.theirLinks == nil {
		g.theirLinks = make(map[*versions]bool)
	}
	g.theirLinks[v] = true
}

// noteLinks notes that links of other accounts in a group may lead elsewhere by now, because
// n got or lost a name: a link, or a folder with something in it. g is nil above the groups. Needs Tree.mu.
func (g *group) noteLinks(n Node) {
	matters := false
	switch n := n.(type) {
	case *File:
		matters = n.recordsLink()
	case *Dir:
		matters = len(n.children) > 0
	}
	if matters && g != nil {
		g.noteLink()
	}
}

// noteLink is noteLinks where a link came or went. Needs Tree.mu.
func (g *group) noteLink() {
	t := g.dir.t
	if g.theirLinks != nil && !slices.Contains(t.relink, g) {
		t.relink = append(t.relink, g)
	}
}

// relinkAll shows the links of other accounts as what they are now, in the groups that
// noteLinks noted. It returns the notices for the kernel. Needs Tree.mu.
func (t *Tree) relinkAll() (notices []notice) {
	for len(t.relink) > 0 {
		g := t.relink[0]
		for v := range g.theirLinks {
			notices = append(notices, g.relinkOne(v)...)
		}
		t.relink = t.relink[1:]
	}
	return notices
}

// relinkOne needs Tree.mu.
func (g *group) relinkOne(v *versions) []notice {
	f, newest := v.shown, v.newest()
	if targetOf(newest) == "" || !g.dir.t.isForeign(newest) {
		delete(g.theirLinks, v)
		return nil
	}
	if f == nil || f.target == f.dir.shownTarget(newest) {
		return nil
	}
	return g.place(v)
}
