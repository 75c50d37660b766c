package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// beneath lists the files and folders below a folder, which end with a slash.
func beneath(t *testing.T, dir string) []string {
	t.Helper()
	list, err := walked(dir)
	if errors.Is(err, os.ErrNotExist) { // another mount removed a folder between the list of its parent and its own
		list, err = walked(dir)
	}
	ok(t, err)
	return list
}

func walked(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if e.Name() == ".svcfs" {
			return filepath.SkipDir
		}
		name := strings.TrimPrefix(path, dir+"/")
		if e.IsDir() {
			name += "/"
		}
		list = append(list, name)
		return nil
	})
	return list, err
}

// kinds are the kinds of the records of a group.
func (p *person) kinds(group string) (list []string) {
	p.w.t.Helper()
	c := &crashing{world: p.w, t: p.w.t, alice: p}
	c.login()
	status, out := c.tool("get_group_transactions",
		map[string]any{"group_id": group, "kinds": "all", "layouts": []string{"svc-ledger-3"}})
	rows, isList := out["result"].([]any)
	if !isList {
		p.w.t.Fatal(status, out)
	}
	for _, row := range rows {
		list = append(list, fmt.Sprint(row.(map[string]any)["kind"]))
	}
	return list
}

// N5: mv of a folder with uploads beneath is one record, and a mount that watches shows it
// at once. Killed while it asks, it leaves the folder under one name as a whole.
func TestN5FolderIsOneRecordOnAMount(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	shell(t, a.path("team"), "mkdir -p d/e/empty; for i in 1 2 3 4 5; do echo $i >d/$i; echo $i >d/e/$i; done; echo "+
		"again >>d/1; mv d n; mv n d; mv d n")
	want := []string{"n/", "n/1", "n/2", "n/3", "n/4", "n/5", "n/e/", "n/e/1", "n/e/2", "n/e/3", "n/e/4", "n/e/5",
		"n/e/empty/"}
	proctest.Eventually(t, "the other mount shows the new names",
		func() bool { return slices.Equal(beneath(t, b.path("team")), want) })
	if got := string(read(t, b.path("team/n/1"))); got != "1\nagain\n" {
		t.Errorf("reads %q", got)
	}
	renames := func() (list []string) {
		return slices.DeleteFunc(alice.kinds("team"),
			func(kind string) bool { return !strings.HasPrefix(kind, "rename") })
	}
	if got := renames(); !slices.Equal(got, []string{"rename_folder", "rename_folder", "rename_folder"}) {
		t.Errorf("the ledger has %v", got)
	}
	for i, names := range [][2]string{{"n", "m"}, {"m", "k"}} {
		renamed := make(chan error, 1)
		go func() { renamed <- os.Rename(a.path("team", names[0]), a.path("team", names[1])) }()
		if i == 1 {
			<-renamed
		}
		a.kill()
		if i == 0 {
			<-renamed
		}
		a = alice.mount("a")
		if got := beneath(t, a.path("team")); len(got) != len(want) {
			t.Errorf("after a kill there are %q", got)
		} else if strings.Join(got, " ") != strings.ReplaceAll(strings.Join(want, " "), "n/", got[0]) {
			t.Errorf("after a kill there are %q", got)
		} else {
			ok(t, os.Rename(a.path("team", got[0]), a.path("team", "m")))
		}
	}
	if out, err := w.svcd("audit"); err != nil {
		t.Errorf("audit: %v %s", err, out)
	}
}

// N5: an empty folder is in every mount, at once and in the next one, until its maker or the owner of the group
// removes it, for free; also when a mount was killed.
func TestN5RecordedFoldersOnAMount(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	shell(t, b.path("team"), "mkdir -p mail/cur mail/new x.tmp/y")
	want := []string{"mail/", "mail/cur/", "mail/new/"}
	proctest.Eventually(t, "the other mount shows the folders",
		func() bool { return slices.Equal(beneath(t, a.path("team")), want) })
	a.kill()
	a = alice.mount("a")
	if got := beneath(t, a.path("team")); !slices.Equal(got, want) {
		t.Errorf("a new mount shows %q", got)
	}
	if _, uploads := a.charges(); uploads != 0 {
		t.Errorf("%d uploads", uploads)
	}
	shell(t, a.path("team"), "rmdir mail/new; mkdir mine")
	want = []string{"mail/", "mail/cur/", "mine/", "x.tmp/", "x.tmp/y/"}
	proctest.Eventually(t, "the other mount shows what is left",
		func() bool { return slices.Equal(beneath(t, b.path("team")), want) })
	if err := os.Remove(b.path("team/mine")); !errors.Is(err, syscall.EPERM) {
		t.Errorf("another account's folder: %v", err)
	}
	if out, err := w.svcd("audit"); err != nil {
		t.Errorf("audit: %v %s", err, out)
	}
}

// W8: mv takes folders to another group, where the mount may remove what is beneath: all of
// it, also empty folders, and nothing stays behind but in the trash.
func TestW8MvTakesFoldersToAnotherGroup(t *testing.T) {
	_, alice, bob := team(t)
	alice.must("group", "create", "other")
	alice.must("group", "add", "other", bob.id)
	a := alice.mount("a")
	shell(t, a.path("team"), "mkdir -p dir/e/f dir/empty/deeper; echo 1 >dir/1; echo 2 >dir/e/2; echo 3 >dir/e/f/3; "+
		"echo more >>dir/e/2; : >dir/none; sync dir/none; mkdir bare")
	want := beneath(t, a.path("team"))
	out := shell(t, a.dir, "mv team/dir other/; mv team/bare other; ls -A team | grep -v '^.svcfs$' || true")
	if out != "" {
		t.Errorf("mv leaves %q", out)
	}
	if got := beneath(t, a.path("other")); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	shell(t, a.path("other"), "sync dir dir/none; test \"$(cat dir/1 dir/e/2 dir/e/f/3)\" = \"$(printf "+
		"'1\\n2\\nmore\\n3')\"")
	b := bob.mount("b")
	if got := beneath(t, b.path("other")); !slices.Equal(got, want) {
		t.Errorf("others see %q", got)
	}
	if got := beneath(t, b.path("team")); len(got) != 0 {
		t.Errorf("others see where it was: %q", got)
	}
	t.Run("what others uploaded stays", func(t *testing.T) {
		if out := shell(t, b.dir, "mv other/dir team/ 2>&1 && echo moved || true"); !strings.Contains(out,
			"Operation not permitted") {
			t.Errorf("mv says %q", out)
		}
		if got := beneath(t, b.path("other")); len(got) != len(want) {
			t.Errorf("left are %q", got)
		}
	})
	if got := strings.Fields(alice.must("ls", "--trash", "team")); !slices.Equal(got,
		[]string{"dir/1", "dir/e/2", "dir/e/f/3", "dir/none"}) {
		t.Errorf("the trash holds %q", got)
	}
}
