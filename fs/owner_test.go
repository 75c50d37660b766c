package fs

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/integration/proctest"
)

// theirUID is whose the files of other accounts are.
func theirUID() uint32 { return defaultForeignUID(uint32(os.Getuid())) }

// ownerOf returns the owner of a path, as programs ask before they trust the path.
func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// A5: a file of another account is another user's, with every folder above it; a file that
// is saved here is the mounting user's.
func TestA5OwnersOnAMount(t *testing.T) {
	m := mounting(t)
	own := uint32(os.Getuid())
	ok(t, os.MkdirAll(m.path("team/own/deep"), 0o700))
	m.write("team/own/deep/mine", "x")
	for _, path := range []string{"", "team", "team/own", "team/own/deep", "team/own/deep/mine", ".svcfs/status"} {
		if got := ownerOf(t, m.path(path)); got != own {
			t.Errorf("before: %q belongs to %d", path, got)
		}
	}
	m.put("own/deep/theirs", "x")
	m.refresh()
	m.must(order{Do: "settle"}) // the kernel believed the folders' owner
	for path, want := range map[string]uint32{"": own, "team": theirUID(), "team/own": theirUID(),
		"team/own/deep": theirUID(), "team/own/deep/mine": own, "team/own/deep/theirs": theirUID()} {
		if got := ownerOf(t, m.path(path)); got != want {
			t.Errorf("after: %q belongs to %d, want %d", path, got, want)
		}
	}
	m.write("team/own/deep/theirs", "mine now")
	m.put("own/deep/mine", "theirs now")
	m.refresh()
	m.must(order{Do: "settle"})
	if got := ownerOf(t, m.path("team/own/deep/mine")); got != theirUID() {
		t.Errorf("overwritten by another account: it belongs to %d", got)
	}
	proctest.Eventually(t, "saved here", func() bool { return ownerOf(t, m.path("team/own/deep/theirs")) == own })
	if got := ownerOf(t, m.path("team/own/deep")); got != theirUID() {
		t.Errorf("the folder went back to %d", got)
	}
}

// A5: a group is listed before a program sees the owner of its directory.
func TestA5FirstLookIntoAGroup(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Theirs = []string{"HEAD", "config"} })
	before := ownerOf(t, m.path("team"))
	if _, err := os.Lstat(m.path("team/HEAD")); err != nil {
		t.Fatal(err)
	}
	if after := ownerOf(t, m.path("team")); before != uint32(os.Getuid()) || after != theirUID() {
		t.Errorf("belongs to %d, then %d", before, after)
	}
}

// A5: the user to show is chosen, or all is the mounting user's.
func TestA5ForeignUIDAndOwnAll(t *testing.T) {
	for want, opt := range map[uint32]Options{12345: {ForeignUID: 12345}, uint32(os.Getuid()): {OwnAll: true}} {
		m := mounting(t, func(p *plan) { p.Options, p.Theirs = opt, []string{"d/f"} })
		for _, path := range []string{"team/d/f", "team/d", "team"} {
			if got := ownerOf(t, m.path(path)); got != want {
				t.Errorf("%+v: %s belongs to %d", opt, path, got)
			}
		}
	}
}

// A5, W10: access(2) answers by the mode: the owner's bits count for the mounting user, also
// at files of the user nobody. Root reads and writes all, and runs a file that any user
// may run.
func TestA5AccessFollowsTheMode(t *testing.T) {
	const user, read, write, run = 12345, unix.R_OK, unix.W_OK, unix.X_OK
	m := &mounted{opt: Options{UID: user, GID: user, ForeignUID: nobody, Umask: defaultUmask}}
	for _, tc := range []struct {
		uid, mode uint32
		dir       bool
		may       uint32
	}{
		{0, 0o600, false, read | write},
		{0, 0o200, false, read | write},
		{0, 0, false, read | write},
		{0, 0o500, false, read | write | run},
		{0, 0, true, read | write | run},
		{user, 0o600, false, read | write},
		{user, 0o200, false, write},
		{user, 0o077, false, 0},
		{user, 0o500, false, read | run},
		{user, 0o700, true, read | write | run},
		{user, 0o600, true, read | write},
	} {
		for _, foreign := range []bool{false, true} {
			a := tree.Attr{Dir: tc.dir, Foreign: foreign, Mode: tc.mode, HasMode: true}
			ctx := fuse.NewContext(t.Context(), &fuse.Caller{Owner: fuse.Owner{Uid: tc.uid, Gid: tc.uid}})
			for mask := range uint32(8) {
				want := syscall.Errno(0)
				if mask&^tc.may != 0 {
					want = unix.EACCES
				}
				if got := m.access(ctx, a, mask); got != want {
					t.Errorf("user %d, mode %03o, directory %v, of others %v: access %d: %v, want %v", tc.uid, tc.mode,
						tc.dir, foreign, mask, got, want)
				}
			}
		}
	}
}

// A5, W10: as above, asked through the kernel by whoever runs the tests.
func TestA5AccessOnAMount(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Theirs = []string{"d/theirs"} })
	m.write("team/own", "x")
	for _, name := range []string{"own", "d/theirs"} {
		path := m.path("team/" + name)
		for mode, refused := range map[os.FileMode]uint32{0o600: unix.X_OK, 0o200: unix.R_OK | unix.X_OK,
			0o400: unix.R_OK | unix.X_OK} {
			ok(t, errors.Join(os.Chmod(path, mode), unix.Access(path, unix.F_OK)))
			if err := unix.Access(path, refused); !errors.Is(err, unix.EACCES) {
				t.Errorf("%s, mode %03o: access %d: %v", name, mode, refused, err)
			}
		}
		if err := errors.Join(os.Chmod(path, 0o700), unix.Access(path, unix.R_OK|unix.W_OK|unix.X_OK)); err != nil {
			t.Errorf("%s, mode 700: %v", name, err)
		}
	}
}

// A5, W10: copying tools set the owner that they saw on another file of the mount.
func TestA5ChownToOwnersThatAreShown(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Theirs = []string{"d/f"} })
	if out, err := exec.Command("cp", "-a", m.path("team/d"), m.path("team/copy")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := ownerOf(t, m.path("team/copy/f")); got != uint32(os.Getuid()) {
		t.Errorf("what was saved here belongs to %d", got)
	}
}

// M2, A5: with AllowOther the mounting user still reads, writes and renames files of the
// user nobody. Neither the user's group nor processes of nobody gain by it.
func TestM2AllowOtherWithFilesOfOthers(t *testing.T) {
	proctest.Need(t, "root", "setfattr")
	const user, sameGroup = 12345, 12346
	mountingFor := func(umask uint32) *mount {
		return mounting(t, func(p *plan) {
			p.Options, p.Theirs = Options{AllowOther: true, Umask: umask, UID: user, GID: user},
				[]string{"d/f", "other/g", "d/l -> f"}
			p.Ours, p.Deletes = true, true
		})
	}
	for _, tc := range []struct {
		umask  uint32
		uid    uint32
		script string
		ok     bool
	}{
		{0o077, user, "cat d/f && echo x >>d/f && mv d/f d/new && echo y >d/g && mkdir d/e && rmdir d/e && touch d/new",
			true},
		{0o077, user, "mv d/f other/ && cat other/f && test -w other/g && test -r other/g", true},
		{0o077, nobody, "cat d/f", false},
		{0o066, sameGroup, "cat d/f", false},
		{0o066, sameGroup, "ls d", false},
		{0o066, nobody, "cat d/f", false},
		{0o066, nobody, "ls d", false},
		{0o022, sameGroup, "cat d/f", true},
		{0o022, sameGroup, "echo x >>d/f", false},
		{0o022, nobody, "cat d/f && ls d", true},
		{0o022, nobody, "echo x >>d/f", false},
		{0o022, nobody, "echo x >d/f", false},
		{0o022, nobody, "echo x >d/new", false},
		{0o022, nobody, "mkdir d/new", false},
		{0o022, nobody, "mv d/f d/new", false},
		{0o022, nobody, "ln d/f d/f.tmp", false},
		{0o022, nobody, "chmod 777 d/f", false},
		{0o022, nobody, "chmod 777 d", false},
		{0o022, nobody, "rm -f d/f", false},
		{0o022, nobody, "truncate -s 0 d/f", false},
		{0o077, user, "cat d/l && readlink d/l && mv d/l d/new && cat d/new", true},
		{0o022, sameGroup, "cat d/l && readlink d/l", true},
		{0o066, sameGroup, "cat d/l", false},
		{0o022, nobody, "touch -h d/l", false},
		{0o022, nobody, "mv d/l d/new", false},
	} {
		m := mountingFor(tc.umask)
		cmd := asUID(tc.uid, exec.Command("sh", "-c", tc.script))
		cmd.SysProcAttr.Credential.Gid = map[bool]uint32{true: nobody, false: user}[tc.uid == nobody]
		cmd.Dir = m.path("team")
		if tc.uid == nobody || tc.uid == sameGroup {
			cmd.Args[2] = strings.ReplaceAll(tc.script, " d", " "+m.path("team/d"))
			cmd.Dir = "/"
		}
		out, err := cmd.CombinedOutput()
		if (err == nil) != tc.ok {
			t.Errorf("umask %03o: user %d: %s: %v %s", tc.umask, tc.uid, cmd.Args[2], err, out)
		}
	}
	m := mountingFor(0o066)
	ok(t, unix.Setxattr(m.path("team/d/f"), "user.note", []byte("1"), 0))
	for _, command := range []string{"getfattr -n user.note", "setfattr -n user.note -v 2", "setfattr -x user.note"} {
		cmd := asUID(nobody, exec.Command("sh", "-c", "LC_ALL=C "+command+" "+m.path("team/d/f")))
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied") {
			t.Errorf("%s: %v %s", command, err, out)
		}
	}
	m.must(order{Do: "keep"})
	recorded := m.must(order{Do: "recorded", Group: "team", Name: "d/f"}).Attributes
	if recorded == nil || recorded.XAttrs["user.note"] != "1" {
		t.Errorf("then recorded is %+v", recorded)
	}
}

// M8: no set-id programs and no devices, ever; no programs at all when asked.
func TestM8MountFlags(t *testing.T) {
	for noExec, want := range map[bool]string{false: "rw,nosuid,nodev,relatime",
		true: "rw,nosuid,nodev,noexec,relatime"} {
		m := mounting(t, func(p *plan) { p.Options.NoExec = noExec })
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), " "+m.dir+" "+want+" ") {
			t.Errorf("noexec %t: mounted otherwise:\n%s", noExec, text)
		}
	}
}

// W14: where nothing may change, that is the answer to access lists, too.
func TestW14AccessListsWhereNothingChanges(t *testing.T) {
	w := newWorld()
	shown, err := tree.New(t.Context(), tree.Config{Remote: w, ReadOnly: true})
	ok(t, err)
	defer shown.Close()
	n := node{m: &mounted{tree: shown}, shows: shown.Root()}
	for _, name := range []string{aclName, "security.capability", "user.any"} {
		if got := n.Setxattr(t.Context(), name, []byte("x"), 0); got != unix.EROFS {
			t.Errorf("%s: %v", name, got)
		}
	}
}
