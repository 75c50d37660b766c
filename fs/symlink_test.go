package fs

import (
	"errors"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

func links(p *plan) { p.Ours = true }

// putLink uploads a symbolic link as bob, which the mount then has seen.
func (m *mount) putLink(name, target string) {
	m.t.Helper()
	m.must(order{Do: "link", Group: "team", Name: name, Data: []byte(target)})
	m.refresh()
	m.must(order{Do: "settle"})
}

// show says what a name is without following it.
func (m *mount) show(name string) string {
	m.t.Helper()
	info, err := os.Lstat(m.path(name))
	if err != nil {
		return err.Error()
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return info.Mode().Type().String()
	}
	target, err := os.Readlink(m.path(name))
	if err != nil {
		return err.Error()
	}
	return "-> " + target
}

// N6: links do what those of other filesystems do.
func TestN6LinksOnTheMount(t *testing.T) {
	m := mounting(t, links)
	ok(t, os.Mkdir(m.path("team/d"), 0o700))
	m.write("team/d/f", "content")
	for name, target := range map[string]string{"rel": "d/f", "dir": "d", "abs": m.path("team/d/f"), "out": "/etc",
		"none": "nowhere", "d/up": "../d/f"} {
		ok(t, os.Symlink(target, m.path("team/"+name)))
		if got := m.show("team/" + name); got != "-> "+target {
			t.Errorf("%s is %q", name, got)
		}
	}
	wantErrno(t, "again", os.Symlink("x", m.path("team/rel")), unix.EEXIST)
	for _, name := range []string{"rel", "abs", "d/up", "dir/f", "dir/up"} {
		if got := m.read("team/" + name); got != "content" {
			t.Errorf("%s holds %q", name, got)
		}
	}
	var st unix.Stat_t
	ok(t, unix.Lstat(m.path("team/rel"), &st))
	if st.Mode != unix.S_IFLNK|0o777 || st.Size != 3 || st.Nlink != 1 {
		t.Errorf("lstat: mode %o, size %d, %d links", st.Mode, st.Size, st.Nlink)
	}
	entries, err := os.ReadDir(m.path("team"))
	ok(t, err)
	for _, e := range entries {
		if isLink := e.Type() == iofs.ModeSymlink; isLink != (e.Name() != "d") {
			t.Errorf("%s is listed as %v", e.Name(), e.Type())
		}
	}
	_, err = unix.Open(m.path("team/rel"), unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	wantErrno(t, "O_NOFOLLOW", err, unix.ELOOP)
	_, err = unix.Open(m.path("team/none"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	wantErrno(t, "O_EXCL at a link", err, unix.EEXIST)
	wantErrno(t, "a hard link of a link", os.Link(m.path("team/rel"), m.path("team/second")), unix.EPERM)
	wantErrno(t, "an attribute of a link", unix.Lsetxattr(m.path("team/rel"), "user.x", []byte("y"), 0), unix.EPERM)
	if n, err := unix.Llistxattr(m.path("team/rel"), make([]byte, 100)); n != 0 || err != nil {
		t.Errorf("attributes of a link: %d, %v", n, err)
	}
	ok(t, os.Lchown(m.path("team/rel"), os.Getuid(), os.Getgid()))
	ok(t, unix.Lutimes(m.path("team/rel"), []unix.Timeval{{Sec: 1000}, {Sec: 2000}}))
	if info, err := os.Lstat(m.path("team/rel")); err != nil || !info.ModTime().Equal(time.Unix(2000, 0)) {
		t.Errorf("times of a link: %v, %v", info.ModTime(), err)
	}
	m.write("team/none", "made through the link")
	if got := m.read("team/nowhere"); got != "made through the link" || m.show("team/none") != "-> nowhere" {
		t.Errorf("through a dangling link: %q", got)
	}

	ok(t, os.Rename(m.path("team/rel"), m.path("team/moved")))
	ok(t, os.Symlink("d/f", m.path("team/rel")))
	m.write("team/new", "in its place")
	ok(t, os.Rename(m.path("team/new"), m.path("team/rel"))) // replaces the link, not what it leads to
	if got := m.read("team/d/f") + m.read("team/rel") + m.show("team/moved"); got != "contentin its place-> d/f" {
		t.Errorf("after renames: %q", got)
	}
	ok(t, os.Remove(m.path("team/dir")))
	if m.show("team/d") != "d---------" {
		t.Errorf("removing a link took the folder: %s", m.show("team/d"))
	}
	ok(t, os.Symlink("../d", m.path("team/d/loop")))
	ok(t, os.Symlink("self", m.path("team/self")))
	_, err = os.Stat(m.path("team/self"))
	wantErrno(t, "a loop", err, unix.ELOOP)
	ok(t, os.Mkdir(m.path("team/gone"), 0o700))
	ok(t, os.Symlink("../d", m.path("team/gone/d")))
	if out, err := exec.Command("rm", "-r", m.path("team/gone")).CombinedOutput(); err != nil {
		t.Errorf("rm -r: %s", out)
	}
	if got := m.read("team/d/f"); got != "content" {
		t.Errorf("rm -r followed a link: %q", got)
	}
}

// N6: at the hosted service links are refused, but those of this mount alone.
func TestN6WithoutTheExtension(t *testing.T) {
	m := mounting(t)
	wantErrno(t, "symlink", os.Symlink("f", m.path("team/l")), unix.EPERM)
	if text := m.read(".svcfs/errors"); !strings.Contains(text, "\t/team/l\tsymlink\trefused by design\t") {
		t.Errorf("errors: %q", text)
	}
	ok(t, os.Symlink("me@here.123", m.path("team/.#f")))
	if got := m.show("team/.#f"); got != "-> me@here.123" {
		t.Errorf("the lock of an editor: %q", got)
	}
	m.wantCharges(0, 0)
}

// N6: what others make of a name shows, whatever the kernel remembers of it.
func TestN6FileBecomesLinkOnAMount(t *testing.T) {
	m := mounting(t, links, func(p *plan) { p.Options.Timeout = time.Hour })
	m.put("f", "content")
	m.put("n", "a file")
	m.refresh()
	if got := m.read("team/n"); got != "a file" {
		t.Fatalf("n holds %q", got)
	}
	open, err := os.Open(m.path("team/n"))
	ok(t, err)
	defer open.Close()
	m.putLink("n", "f")
	if got := m.show("team/n") + m.read("team/n"); got != "-> fcontent" {
		t.Errorf("a link now: %q", got)
	}
	old := make([]byte, 6)
	if _, err := open.Read(old); err != nil || string(old) != "a file" {
		t.Errorf("the open file: %q, %v", old, err)
	}
	m.put("n", "a file again")
	m.refresh()
	m.must(order{Do: "settle"})
	if got := m.show("team/n") + m.read("team/n"); got != "----------a file again" {
		t.Errorf("a file again: %q", got)
	}
}

// N6, threat 47: no link of others leads a program out of the group, also when a name on its way
// changes under the kernel.
func TestThreat47LinksOfOthersOnAMount(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(secret, []byte("secret"), 0o600))
	m := mounting(t, links, func(p *plan) { p.Options.Timeout = time.Hour })
	m.put("d/f", "content")
	up := strings.Repeat("../", strings.Count(m.path("team"), "/")) + strings.TrimPrefix(secret, "/")
	for name, target := range map[string]string{"absolute": secret, "up": up, "d/up": "../" + up,
		"group": "../team/d/f", "control": ".svcfs/members"} {
		m.putLink(name, target)
		if got := m.show("team/"+name) + m.read("team/"+name); got != "----------"+target {
			t.Errorf("%s: %q", name, got)
		}
		value := make([]byte, 200)
		n, err := unix.Getxattr(m.path("team/"+name), "user.svcfs.link", value)
		if err != nil || !strings.HasPrefix(string(value[:n]), "not shown as a link: the target ") {
			t.Errorf("%s: the reason is %q, %v", name, value[:max(n, 0)], err)
		}
	}
	m.putLink("good", "d/f")
	m.putLink("folder", "d")
	m.putLink("sneaky", "here/"+filepath.Base(secret))
	for _, name := range []string{"good", "folder/f"} {
		if got := m.read("team/" + name); got != "content" {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if got := m.show("team/sneaky"); got != "-> here/secret" {
		t.Errorf("a dangling link: %q", got)
	}
	m.wantCharges(1, 0)
	ok(t, os.Symlink(filepath.Dir(secret), m.path("team/here"))) // our own leads anywhere
	if got := m.read("team/here/secret"); got != "secret" {
		t.Errorf("our own link: %q", got)
	}
	if got := m.read("team/sneaky"); got != "here/secret" { // before the kernel got a notice, or after
		t.Errorf("their link over ours: %q", got)
	}
	into := t.TempDir()
	ok(t, os.Remove(m.path("team/here")))
	for _, copier := range [][]string{{"cp", "-rL"}, {"cp", "-a"}, {"rsync", "-aL"}, {"rsync", "-a"}} {
		t.Run(strings.Join(copier, " "), func(t *testing.T) {
			proctest.Need(t, copier[0])
			to := filepath.Join(into, strings.Join(copier, ""))
			if out, err := exec.Command(copier[0], append(copier[1:], m.path("team")+"/",
				to)...).CombinedOutput(); err != nil && !strings.Contains(string(out), "sneaky") {
				t.Errorf("%v: %s", copier, out)
			}
			if out, _ := exec.Command("grep", "-rlx", "secret", to).Output(); len(out) > 0 {
				t.Errorf("%v carried the secret to %s", copier, out)
			}
		})
	}
	ok(t, os.Symlink(filepath.Dir(secret), m.path("team/here")))
	m.must(order{Do: "member", Group: "team"})
	m.refresh()
	if _, err := os.Readlink(m.path("team/good")); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EKEYREVOKED) {
		t.Errorf("after the revocation: %v", err)
	}
}

// N6, E: a link whose upload fails stays pending.
func TestN6FailedLinkOnAMount(t *testing.T) {
	m := mounting(t, links)
	broke := sdk.ErrInsufficient
	m.must(order{Do: "fail", Name: "upload", Kind: &broke})
	ok(t, os.Symlink("f", m.path("team/l")))
	dir, err := os.Open(m.path("team"))
	ok(t, err)
	defer dir.Close()
	wantErrno(t, "fsync of the folder", dir.Sync(), unix.EDQUOT)
	if text := m.read(".svcfs/pending"); !strings.Contains(text, "\t/team/l\t") {
		t.Errorf("pending: %q", text)
	}
	m.must(order{Do: "fail", Name: "upload"})
	ok(t, dir.Sync())
	if text := m.read(".svcfs/pending"); text != "" {
		t.Errorf("pending: %q", text)
	}
	m.wantCharges(0, 1)
}
