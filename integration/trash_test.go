package integration

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// W9: in a default mount rm takes a tree away from everybody and destroys nothing; who
// has a file open reads on, and all of it comes back.
func TestW9TrashOnAMount(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	shell(t, b.path("team"), "mkdir -p d/e; echo one >d/f; echo two >d/f; echo deep >d/e/g; echo hers >h")
	alice.must("refresh", a.dir)
	open, err := os.Open(a.path("team/d/f"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	shell(t, a.path("team"), "echo alices >alices")
	bob.must("refresh", b.dir)
	if err := os.Remove(b.path("team/alices")); !errors.Is(err, unix.EPERM) {
		t.Errorf("bob removed what alice uploaded: %v", err)
	}
	if got := shell(t, b.path("team"), "rm -r d; ls"); got != "alices\nh\n" {
		t.Errorf("bob sees %q", got)
	}
	alice.must("refresh", a.dir)
	if _, err := os.Stat(a.path("team/d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("alice still sees it: %v", err)
	}
	got := make([]byte, 10)
	if n, err := open.ReadAt(got, 0); string(got[:n]) != "two\n" {
		t.Errorf("who has it open reads %q, %v", got[:n], err)
	}
	if list := alice.must("ls", "--trash", "team"); list != "d/e/g\nd/f\n" {
		t.Errorf("the trash holds %q", list)
	}
	bob.must("restore", "--trash", "team", "d/f", "d/e/g")
	alice.must("refresh", a.dir)
	bob.must("refresh", b.dir)
	for name, want := range map[string]string{"d/f": "two\n", "d/e/g": "deep\n"} {
		if text := string(read(t, a.path("team/"+name))); text != want {
			t.Errorf("%s reads %q", name, text)
		}
	}
	if got := shell(t, b.path("team"), "rm -r h d; ls .svcfs/trash .svcfs/trash/d; mv .svcfs/trash/h .; mv "+
		".svcfs/trash/d d; cat h d/f d/e/g; ls .svcfs/trash; stat -c %F h d"); got !=
		".svcfs/trash:\nd\nh\n\n.svcfs/trash/d:\ne\nf\nhers\ntwo\ndeep\nregular file\ndirectory\n" {
		t.Errorf("through .svcfs/trash bob sees %q", got)
	}
	t.Run("wastebasket", func(t *testing.T) {
		proctest.Need(t, "gio")
		shell(t, b.path("team"), "gio trash h d")
		if list := bob.must("ls", "--trash", "team"); list != "d/e/g\nd/f\nh\n" {
			t.Errorf("after gio trash the trash holds %q", list)
		}
		if retrieves, uploads := b.charges(); retrieves > 4 || uploads > 4 {
			t.Errorf("a wastebasket costs: %d retrievals, %d uploads", retrieves, uploads)
		}
	})
	if text := a.control("errors"); strings.Contains(text, "corrupt") {
		t.Errorf("the return was taken for a rollback: %s", text)
	}
	if out, err := w.svcd("audit"); err != nil || !strings.Contains(out, "chain intact") {
		t.Errorf("svcd audit: %v\n%s", err, out)
	}
}
