package tree

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// putLink records a link, as another mount of the account does.
func putLink(w *world, by sdk.AccountID, name, target string) sdk.Entry {
	return w.PutWith("team", by, name, []byte(target), sdk.Attributes{Target: target})
}

// show says what a name is: "-> TARGET" for a link, else the content of the file.
func (m *mounted) show(p string) string {
	n, err := m.lookup(p)
	if err != nil {
		return err.Error()
	}
	f, ok := n.(*File)
	if !ok {
		return "folder"
	}
	if !f.Attr().Link {
		got, err := m.read(p)
		return cmp.Or(got, fmt.Sprint(err))
	}
	target, err := f.Readlink()
	if err != nil {
		return err.Error()
	}
	return "-> " + target
}

func (m *mounted) wantShown(p, want string) {
	m.t.Helper()
	if got := m.show(p); got != want {
		m.t.Errorf("%s is %q, want %q", p, got, want)
	}
}

func (m *mounted) symlink(target, p string) error {
	m.t.Helper()
	at := strings.LastIndexByte(p, '/')
	_, err := m.dir(p[:at]).Symlink(m.t.Context(), target, p[at+1:])
	return err
}

// N6: a link exists at once, and is uploaded later, with its target.
func TestN6LinksWaitLikeEmptyFiles(t *testing.T) {
	w := team()
	m := mount(t, w, alice, ours)
	ok(t, m.symlink("../any/where", "/team/l"))
	m.wantShown("/team/l", "-> ../any/where")
	attr := m.node("/team/l").Attr()
	if attr.Size != int64(len("../any/where")) || attr.Nlink != 1 || attr.Dir || !attr.Link {
		t.Errorf("attributes: %+v", attr)
	}
	if p := m.Pending(); len(p) != 1 || p[0].Path != "/team/l" {
		t.Errorf("pending: %v", p)
	}
	m.wantCharges(0, 0)
	ok(t, m.dir("/team").Fsync(t.Context()))
	m.wantCharges(0, 1)
	e := w.Rows("team")[0]
	if e.Attributes == nil || e.Attributes.Target != "../any/where" || e.Size != 12 {
		t.Errorf("recorded: %+v", e)
	}
	if p := m.Pending(); len(p) != 0 {
		t.Errorf("still pending: %v", p)
	}
	m.refresh()
	m.wantShown("/team/l", "-> ../any/where")
	mount(t, w, alice).wantShown("/team/l", "-> ../any/where")
	m.wantCharges(0, 1)
}

// N6: a link that does not stay costs nothing, and one that is renamed is one save.
func TestN6OneUploadForEachLinkThatStays(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("content"))
	m := mount(t, w, alice, ours)
	dir := m.dir("/team")
	ok(t, m.symlink("a", "/team/gone"))
	ok(t, dir.Unlink(t.Context(), "gone"))
	ok(t, m.symlink("a", "/team/new"))
	ok(t, dir.Rename(t.Context(), "new", dir, "l", false)) // as ln -sf does
	m.wantCharges(0, 1)
	ok(t, m.symlink("b", "/team/new"))
	ok(t, dir.Rename(t.Context(), "new", dir, "l", false))
	ok(t, m.symlink("c", "/team/new"))
	ok(t, dir.Rename(t.Context(), "new", dir, "f", false)) // replaces the file, and is another inode
	m.wantShown("/team/l", "-> b")
	m.wantShown("/team/f", "-> c")
	m.wantCharges(0, 3)
	if left := m.Drain(t.Context()); len(left) > 0 {
		t.Errorf("pending: %v", left)
	}
	m.refresh()
	m.wantNames("/team", "f", "l")
	m.wantCharges(0, 3)
}

// N6: a scratch name makes a link of this mount alone, also where the service has none; a
// real name then needs the service.
func TestN6ScratchLinks(t *testing.T) {
	w := team()
	for _, can := range []bool{false, true} {
		m := mount(t, w, alice, func(c *Config) { c.Ours = can })
		dir := m.dir("/team")
		ok(t, m.symlink("me@here.1234", "/team/.#notes"))
		m.wantShown("/team/.#notes", "-> me@here.1234")
		if p := m.Pending(); len(p) > 0 {
			t.Errorf("pending: %v", p)
		}
		err := dir.Rename(t.Context(), ".#notes", dir, fmt.Sprint("l", can), false)
		if can {
			ok(t, err)
			m.wantCharges(0, 1)
			continue
		}
		wantClass(t, err, ClassByDesign)
		ok(t, dir.Unlink(t.Context(), ".#notes"))
		m.wantCharges(0, 0)
	}
}

func TestN6Refusals(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, alice, ours)
	for what, tc := range map[string]struct {
		target, path string
		want         Class
		line         bool
	}{
		"too long":       {strings.Repeat("x", 4096), "/team/l", ClassNameTooLong, true},
		"no text":        {"\xff", "/team/l", ClassInvalid, true},
		"NUL":            {"a\x00b", "/team/l", ClassInvalid, true},
		"empty":          {"", "/team/l", ClassInvalid, true},
		"taken":          {"x", "/team/f", ClassExist, false},
		"above groups":   {"x", "/l", ClassByDesign, true},
		"control folder": {"x", "/team/.svcfs/l", ClassByDesign, true},
		"long name":      {"x", "/team/" + strings.Repeat("x", 256), ClassNameTooLong, true},
	} {
		before := m.Status().Errors
		wantClass(t, m.symlink(tc.target, tc.path), tc.want)
		if after := m.Status().Errors; (after > before) != tc.line {
			t.Errorf("%s: %d lines", what, after-before)
		}
	}
	ok(t, m.symlink(strings.Repeat("x", 4095), "/team/long"))
	for what, refused := range map[string]struct {
		want   Class
		change func(*Config)
	}{
		"at the hosted service": {ClassByDesign, func(*Config) {}},
		"read-only":             {ClassReadOnly, func(c *Config) { c.Ours, c.ReadOnly = true, true }},
	} {
		m := mount(t, w, alice, refused.change)
		wantClass(t, m.symlink("x", "/team/l"), refused.want)
		if text := string(m.errors.Show()); !strings.Contains(text, "\t/team/l\tsymlink\t") && !strings.Contains(text, "\t/team\tsymlink\t") {
			t.Errorf("%s leaves %q", what, text)
		}
	}
	w.Role("team", alice, sdk.RoleReader)
	wantClass(t, mount(t, w, alice, ours).symlink("x", "/team/l"), ClassReadOnly)
}

// N6: a link has one name and no content of its own to open.
func TestN6LinksAreNotOpened(t *testing.T) {
	w := team()
	m := mount(t, w, alice, ours)
	dir := m.dir("/team")
	for _, name := range []string{"l", "l.tmp"} {
		ok(t, m.symlink("f", "/team/"+name))
		f := m.node("/team/" + name).(*File)
		wantClass(t, dir.Link(t.Context(), f, "second"), ClassByDesign)
		wantClass(t, dir.Link(t.Context(), f, "second.tmp"), ClassByDesign)
		_, err := f.Open(t.Context(), OpenFlags{Read: true})
		wantClass(t, err, ClassInvalid)
		_, _, err = dir.Create(t.Context(), name, false, OpenFlags{Write: true})
		wantClass(t, err, ClassStale) // the kernel follows it instead
		_, _, err = dir.Create(t.Context(), name, true, OpenFlags{Write: true})
		wantClass(t, err, ClassExist)
	}
	ok(t, m.save("/team/f", "x"))
	_, err := m.node("/team/f").(*File).Readlink()
	wantClass(t, err, ClassInvalid)
}

// N6, W16: a link has times of its own, which are recorded beside its target, and no mode.
func TestN6TimesOfLinks(t *testing.T) {
	w := team()
	m := mount(t, w, alice, ours)
	ok(t, m.symlink("f", "/team/l"))
	f := m.node("/team/l").(*File)
	for i, when := range []time.Time{time.Unix(1000, 1), time.Unix(2000, 2)} { // with the save, and after it
		f.SetMode(0o755)
		f.SetTimes(when)
		ok(t, m.dir("/team").Fsync(t.Context()))
		ok(t, f.keepNow(t.Context()))
		want := sdk.Attributes{Target: "f", ModTime: when}
		if a := w.Rows("team")[0].Attributes; a == nil || !a.Equal(want) {
			t.Errorf("%d: recorded %+v, want %+v", i, a, want)
		}
	}
	later := mount(t, w, alice)
	later.wantShown("/team/l", "-> f")
	if attr := later.node("/team/l").Attr(); !attr.Mtime.Equal(time.Unix(2000, 2)) || attr.HasMode || attr.Executable {
		t.Errorf("in a later mount: %+v", attr)
	}
	m.wantCharges(0, 1)
}

// N6, W2: a link that could not be uploaded stays pending, and is sent later.
func TestN6FailedLinksStayPending(t *testing.T) {
	w := team()
	m := mount(t, w, alice, ours)
	w.Fail("upload", &sdk.Error{Kind: sdk.ErrInsufficient, Err: errors.New("no tokens")})
	ok(t, m.symlink("f", "/team/l"))
	wantClass(t, m.dir("/team").Fsync(t.Context()), ClassBudget)
	if p := m.Pending(); len(p) != 1 || p[0].Error == "" {
		t.Errorf("pending: %+v", p)
	}
	if r := m.Reasons(); len(r) == 0 || r[0].Staged == nil || !r[0].Staged.Link {
		t.Errorf("reasons: %+v", r)
	}
	m.wantShown("/team/l", "-> f")
	w.Fail("upload", nil)
	ok(t, m.dir("/team").Fsync(t.Context()))
	if left := m.Pending(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	m.wantCharges(0, 1)
}

// N6: a name that changes between a file and a link is another inode, here and elsewhere, and
// equal bytes are no reason not to record the change.
func TestN6FileBecomesLinkAndBack(t *testing.T) {
	w := team()
	m, other := mount(t, w, alice, ours), mount(t, w, alice, ours)
	dir := m.dir("/team")
	ok(t, m.save("/team/n", "same"))
	ok(t, m.symlink("same", "/team/l"))
	inos := map[uint64]string{}
	note := func(kind string) {
		t.Helper()
		other.refresh()
		for _, x := range []*mounted{m, other} {
			attr := x.node("/team/n").Attr()
			if was, known := inos[attr.Ino]; known && was != kind {
				t.Errorf("the number of a %s is that of a %s", kind, was)
			}
			inos[attr.Ino] = kind
			if attr.Link != (kind == "link") {
				t.Errorf("shown as another kind than %s: %+v", kind, attr)
			}
		}
	}
	note("file")
	ok(t, dir.Rename(t.Context(), "l", dir, "n", false))
	note("link")
	m.wantCharges(0, 2)
	ok(t, m.save("/team/n.tmp", "same"))
	ok(t, dir.Rename(t.Context(), "n.tmp", dir, "n", false))
	note("file")
	m.wantCharges(0, 3)
	other.wantContent("/team/n", "same")
	for _, name := range other.names("/team/.svcfs/history/n") { // versions are files, and a link's are free
		other.wantContent("/team/.svcfs/history/n/"+name, "same")
	}
	if r, _ := w.Charged(); r > 2 {
		t.Errorf("%d retrievals for two files", r)
	}
}

// N6, W9: a link goes to the trash and comes back as one.
func TestN6LinksInTheTrash(t *testing.T) {
	w := team()
	putLink(w, alice, "d/l", "../f")
	m := mount(t, w, alice, ours)
	m.wantShown("/team/d/l", "-> ../f")
	ok(t, m.dir("/team/d").Unlink(t.Context(), "l"))
	m.wantNames("/team/d")
	ok(t, m.dir("/team/.svcfs/trash/d").Rename(t.Context(), "l", m.dir("/team/d"), "l", false))
	m.wantShown("/team/d/l", "-> ../f")
	m.wantCharges(0, 0)
}

// N6, threat 47: which links of others are shown as links, wherever the folders come from.
func TestThreat47LinksOfOthers(t *testing.T) {
	const file, link = false, true
	for _, tc := range []struct {
		at, target string
		want       bool
		why        string
	}{
		{"l", "f", link, ""},
		{"l", "./d//f", link, ""},
		{"l", "d", link, ""},
		{"l", "d/", link, ""},
		{"l", ".", link, ""},
		{"d/e/l", "../../f", link, ""},
		{"d/e/l", "../..", link, ""},
		{"l", "d/e/../../f", link, ""},
		{"l", "nothing", link, ""},
		{"l", "nothing/../f", link, ""},
		{"l", "f/../f", link, ""}, // the kernel says ENOTDIR
		{"l", "theirs", link, ""},
		{"l", "a%0Ab/f", link, ""}, // as shown
		{"l", "...", link, ""},
		{"l", strings.Repeat("./", 128) + "f", link, ""},
		{"l", strings.Repeat("./", 129) + "f", file, "too many components"},
		{"l", "/etc/passwd", file, "absolute"},
		{"l", "//", file, "absolute"},
		{"l", "..", file, "leaves the group"},
		{"l", "../team/f", file, "leaves the group"},
		{"l", "../../../home/alice/.ssh/id_ed25519", file, "leaves the group"},
		{"d/e/l", "../../../team/f", file, "leaves the group"},
		{"l", "d/../../team/f", file, "leaves the group"},
		{"l", "nothing/../../team/f", file, "leaves the group"},
		{"l", "nothing/../..", file, "leaves the group"},
		{"l", "f/../../x", file, "leaves the group"},
		{"l", "own", file, "another link"},
		{"l", "own/x", file, "another link"},
		{"l", "own/../f", file, "another link"},
		{"l", "own.tmp/x", file, "another link"},
		{"l", "d/../own/x", file, "another link"},
		{"l", "safe", file, "another link"},
		{"l", "safe/../../x", file, "another link"},
		{"l", "unsafe", file, "another link"},
		{"l", "l", file, "another link"},
		{"l", ".svcfs/members", file, "control directory"},
		{"l", "d/../.svcfs", file, "control directory"},
		{"l", "d/.svcfs/x", file, "control directory"},
		{"l", "a\nb/f", file, "characters"},
		{"l", "\u202etxt", file, "characters"},
		{"l", "\x1b[2J", file, "characters"},
	} {
		w := team()
		w.Put("team", alice, "f", []byte("x"))
		w.Put("team", bob, "theirs", []byte("x"))
		w.Put("team", bob, "d/e/f", []byte("x"))
		w.Put("team", bob, "a\nb/f", []byte("x"))
		putLink(w, alice, "own", "/home/alice")
		putLink(w, bob, "safe", "d")
		putLink(w, bob, "unsafe", "/d")
		late := mount(t, w, alice, ours)
		ok(t, late.symlink("/home/alice", "/team/own.tmp"))
		putLink(w, bob, tc.at, tc.target)
		late.refresh()
		want := tc.target
		if tc.want == link {
			want = "-> " + want
		}
		mounts := []*mounted{late}
		if !strings.Contains(tc.target, ".tmp") {
			mounts = append(mounts, mount(t, w, alice, ours))
		}
		for _, m := range mounts {
			m.wantShown("/team/"+tc.at, want)
			why := m.node("/team/" + tc.at).(*File).Xattrs()[LinkAttribute]
			if tc.want == file && !strings.Contains(why, tc.why) || tc.want == link && why != "" {
				t.Errorf("%s in %s: the reason is %q, want %q", tc.target, tc.at, why, tc.why)
			}
			if tc.want == file && m.node("/team/" + tc.at).(*File).Xattrs()["user.svcfs.state"] != "cached" {
				t.Errorf("the target of %s costs", tc.at)
			}
			m.wantCharges(0, 0)
		}
		mount(t, w, bob).wantShown("/team/"+tc.at, "-> "+tc.target) // one's own lead anywhere
	}
}

// N6, threat 47: what is safe is decided anew with every change of names, and once more when the
// kernel asks where a link leads.
func TestThreat47LinksOfOthersWhenNamesChange(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/x", []byte("x"))
	putLink(w, bob, "l", "d/x")
	putLink(w, bob, "deep/er/up", "../../d/x")
	m := mount(t, w, alice, ours)
	dir := m.dir("/team")
	k := &kernelNotes{}
	m.SetKernel(k)
	var known *File
	shown := func(what, want string) {
		t.Helper()
		k.names = nil
		known = m.node("/team/l").(*File)
		m.wantShown("/team/l", want)
		if known.Attr().Link != strings.HasPrefix(want, "->") {
			t.Errorf("%s: shown as the other kind", what)
		}
	}
	changed := func(what string) {
		t.Helper()
		if !strings.Contains(fmt.Sprint(k.names), "/team/l") {
			t.Errorf("%s: the kernel is not told: %v", what, k.names)
		}
		if target, err := known.Readlink(); err == nil {
			t.Errorf("%s: the inode that the kernel knows still leads to %s", what, target)
		}
	}
	shown("at first", "-> d/x")

	ok(t, dir.Rename(t.Context(), "d", dir, "away", false))
	shown("dangling", "-> d/x")
	ok(t, m.symlink("/home/alice", "/team/d")) // a link takes the place of the folder
	changed("a link on the way")
	shown("a link on the way", "d/x")
	ok(t, dir.Unlink(t.Context(), "d"))
	changed("the link is gone")
	shown("the link is gone", "-> d/x")

	planted := putLink(w, bob, "d", "away")
	m.refresh()
	changed("a link of theirs on the way")
	shown("a link of theirs on the way", "d/x")
	ok(t, last(w.As(bob).RenameFile(t.Context(), "team", planted.Ref, "e")))
	m.refresh()
	shown("renamed away", "-> d/x")
	own := putLink(w, alice, "mine", "/home/alice")
	m.refresh()
	shown("beside it", "-> d/x")
	ok(t, last(w.As(alice).RenameFile(t.Context(), "team", own.Ref, "d"))) // the owner of the group
	m.refresh()
	changed("an own link moved there")
	shown("an own link moved there", "d/x")
	w.Put("team", alice, "d", []byte("a file now"))
	m.refresh()
	shown("a file on the way", "-> d/x")

	_, err := dir.Mkdir(t.Context(), "made") // a folder that takes the place brings a link along
	ok(t, err)
	ok(t, m.symlink("/home/alice", "/team/made/secret"))
	putLink(w, bob, "l", "there/secret/x")
	m.refresh()
	shown("no folder there", "-> there/secret/x")
	ok(t, dir.Rename(t.Context(), "made", dir, "there", false))
	changed("a folder with a link there")
	shown("a folder with a link there", "there/secret/x")

	m.wantShown("/team/deep/er/up", "-> ../../d/x") // a folder that moves takes its links out of the group
	ok(t, m.dir("/team/deep").Rename(t.Context(), "er", dir, "up", false))
	m.wantShown("/team/up/up", "../../d/x")
	ok(t, dir.Rename(t.Context(), "up", m.dir("/team/away"), "er", false))
	m.wantShown("/team/away/er/up", "-> ../../d/x")
}

// N6, threat 47: saving or moving a link of others.
func TestThreat47ChangingLinksOfOthers(t *testing.T) {
	w := team()
	putLink(w, bob, "bad", "/etc/passwd")
	putLink(w, bob, "good", "d/f")
	m := mount(t, w, alice, ours)
	dir := m.dir("/team")
	ok(t, dir.Rename(t.Context(), "good", dir, "moved", false))
	m.wantShown("/team/moved", "-> d/f")
	ok(t, dir.Rename(t.Context(), "moved", dir, "moved~", false)) // a backup, of this mount
	m.wantShown("/team/moved~", "-> d/f")
	ok(t, m.symlink("/home/alice", "/team/d"))
	_, err := m.node("/team/moved~").(*File).Readlink()
	wantClass(t, err, ClassStale)

	putLink(w, bob, "over", "bad/../f")
	m.refresh()
	m.wantShown("/team/over", "bad/../f")
	ok(t, m.save("/team/bad", "text")) // an ordinary file from now on, and ours
	m.wantContent("/team/bad", "text")
	m.wantShown("/team/over", "-> bad/../f")
	m.refresh()
	m.wantContent("/team/bad", "text")
	putLink(w, bob, "bad", "d2/f")
	m.refresh()
	m.wantShown("/team/bad", "-> d2/f")
	gone := putLink(w, bob, "gone", "/etc/passwd")
	m.refresh()
	ok(t, dir.Rename(t.Context(), "gone", dir, "gone~", false))
	m.wantContent("/team/gone~", "/etc/passwd")
	w.Shred("team", gone.Ref)
	m.refresh()
	_, err = m.read("/team/gone~")
	wantClass(t, err, ClassNotExist)
	putLink(w, bob, "same", "/etc/passwd") // our own link to the same is another record
	m.refresh()
	ok(t, m.symlink("/etc/passwd", "/team/new"))
	ok(t, dir.Rename(t.Context(), "new", dir, "same", false))
	m.refresh()
	m.wantShown("/team/same", "-> /etc/passwd")
	lying := putLink(w, bob, "lying", "/true")
	w.Edit("team", lying.Ref, func(e *sdk.Entry) { e.Attributes = &sdk.Attributes{Target: "/lie"} })
	m.refresh()
	_, err = m.read("/team/lying")
	wantClass(t, err, ClassCorrupt)
	w.Revoke("team", alice)
	f := m.node("/team/bad").(*File)
	m.refresh()
	if _, err := f.Readlink(); err == nil {
		t.Error("a link of a lost group still leads somewhere")
	}
}

// Threat 47: thousands of links of others hold up nobody.
func TestThreat47ManyLinksOfOthers(t *testing.T) {
	w := team()
	const many = 5_000
	for i := range many {
		putLink(w, bob, fmt.Sprint("d/", i), fmt.Sprint("../d/", i+1)) // each leads over the next
	}
	m := mount(t, w, alice, ours)
	if got := len(m.names("/team/d")); got != many {
		t.Errorf("%d names", got)
	}
	m.wantShown("/team/d/1", "../d/2")
	m.wantShown(fmt.Sprint("/team/d/", many-1), fmt.Sprint("-> ../d/", many))
	for i := range 20 {
		ok(t, m.symlink("x", fmt.Sprint("/team/l", i)))
	}
}

// kernelNotes notes the names that the kernel is to look up again.
type kernelNotes struct {
	noKernel
	names []string
}

func (k *kernelNotes) EntryChanged(d *Dir, name string) { k.names = append(k.names, d.Path()+"/"+name) }
