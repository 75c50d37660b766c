package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// N6, threat 47: what a member links is a link to others only inside the group, in mounts and to
// commands, and each link that stays is one upload.
func TestThreat47LinksOnARealService(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	secret := filepath.Join(w.mkdir("home"), "secret")
	write(t, secret, []byte("secret\n"))
	up := strings.Repeat("../", strings.Count(b.path("team"), "/")) + secret[1:]
	ok(t, os.Mkdir(b.path("team/d"), 0o700))
	write(t, b.path("team/d/f"), []byte("content\n"))
	targets := map[string]string{"good": "d/f", "d/back": "../d/f", "folder": "d", "absolute": secret, "up": up,
		"over": "good"}
	for name, target := range targets {
		ok(t, os.Symlink(target, b.path("team", name)))
	}
	shell(t, b.dir, "sync team team/d")
	if _, uploads := b.charges(); uploads != 1+len(targets) {
		t.Errorf("%d uploads", uploads)
	}
	for name, target := range targets {
		safe := name == "good" || name == "d/back" || name == "folder"
		proctest.Eventually(t, "alice sees "+name,
			func() bool { _, err := os.Lstat(a.path("team", name)); return err == nil })
		got, err := os.Readlink(a.path("team", name))
		if safe && (got != target || err != nil) || !safe && err == nil {
			t.Errorf("%s leads alice to %q, %v", name, got, err)
		}
		if !safe && string(read(t, a.path("team", name))) != target {
			t.Errorf("%s holds %q", name, read(t, a.path("team", name)))
		}
		if got, err := os.Readlink(b.path("team", name)); got != target || err != nil {
			t.Errorf("%s leads bob, who made it, to %q, %v", name, got, err)
		}
	}
	if got := string(read(t, a.path("team/folder/back"))); got != "content\n" {
		t.Errorf("through two links: %q", got)
	}
	value := make([]byte, 100)
	if n, err := unix.Getxattr(a.path("team/up"), "user.svcfs.link", value); err != nil ||
		string(value[:n]) != "not shown as a link: the target leaves the group" {
		t.Errorf("the reason: %q, %v", value[:max(n, 0)], err)
	}
	out := w.mkdir("out")
	proctest.Need(t, "rsync")
	shell(t, out, "cp -rL "+a.path("team")+" mount; rsync -aL "+a.path("team")+"/ rsync; "+
		"tar -C "+a.path("team")+" -chf - . | tar -xf - -C "+w.mkdir("out/tar"))
	alice.must("get", "team", "--all", "-o", filepath.Join(out, "get"))
	if found := shell(t, out, "grep -rlx secret mount rsync tar get || true"); found != "" {
		t.Errorf("the secret is in %s", found)
	}
	if r, _ := a.charges(); r != 1 {
		t.Errorf("%d retrievals by the mount, for one file", r)
	}
	ok(t, os.Symlink(secret, a.path("team/mine"))) // one's own lead anywhere, also in a later mount
	a.unmount()
	a = alice.mount("a")
	if got := string(read(t, a.path("team/mine"))); got != "secret\n" {
		t.Errorf("alice's own link: %q", got)
	}
}
