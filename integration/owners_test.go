package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// plant uploads files, by recorded name.
func (p *person) plant(files map[string]string) {
	p.w.t.Helper()
	for name, content := range files {
		file := filepath.Join(p.w.dir, "planted")
		write(p.w.t, file, []byte(content))
		p.must("put", "team", file, "--name", name)
	}
}

// repository is what git takes for one, at a place, whose configuration names a
// program that git status runs.
func repository(place, program string) map[string]string {
	return map[string]string{place + "HEAD": "ref: refs/heads/main\n", place + "objects/info/x": "",
		place + "refs/heads/x": "",
		place + "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = /\n\tfsmonitor = " +
			program + "\n"}
}

// Threat 15, A5: git does not run what another account put where it looks for a
// repository: in .git, in a group's or a folder's own files, or in a repository
// that was the user's. With --own-all it does, so that the attack is a real one.
func TestThreat15PlantedRepositoriesRunNothing(t *testing.T) {
	proctest.Need(t, "git")
	w, alice, bob := team(t)
	ran := filepath.Join(w.dir, "ran")
	program := filepath.Join(w.dir, "monitor")
	write(t, program, []byte("#!/bin/sh\ntouch "+ran+"\n"))
	ok(t, os.Chmod(program, 0o700))
	git := func(dir string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = w.env("GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "LC_ALL=C")
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	a := alice.mount("a")
	mine := a.path("team/mine")
	write(t, a.path("team/f"), []byte("x"))
	if out := git(a.path("team"), "init", "-q", "mine"); out != "" {
		t.Fatalf("a repository of one's own: %s", out)
	}
	write(t, filepath.Join(mine, "f"), []byte("x"))
	if out := git(mine, "add", "f") + git(mine, "commit", "-qm", "one") + git(mine, "status", "--short"); out != "" {
		t.Fatalf("working in it: %s", out)
	}
	t.Run("git trusts no repository of another account", func(t *testing.T) {
		bob.plant(repository(".git/", program))
		bob.plant(repository("deep/bare/", program))
		bob.plant(map[string]string{"mine/.git/config": repository("", program)["config"],
			".envrc": "touch " + ran + "\n", "deep/f": "x"})
		alice.must("refresh", a.dir)
		for _, dir := range []string{"team", "team/deep", "team/deep/bare", "team/mine"} {
			out := git(a.path(dir), "status")
			if _, err := os.Stat(ran); err == nil {
				t.Fatalf("%s: git ran the program of another account: %s", dir, out)
			}
			if !strings.Contains(out, "dubious ownership") {
				t.Errorf("%s: git status: %s", dir, out)
			}
		}
		info, err := os.Stat(a.path("team/.envrc"))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner == uint32(os.Getuid()) {
			t.Error(".envrc belongs to the user who mounted")
		}
	})
	t.Run("their files are read and written all the same", func(t *testing.T) {
		if got := string(read(t, a.path("team/.envrc"))); !strings.Contains(got, "touch") {
			t.Errorf("reading: %q", got)
		}
		write(t, a.path("team/.envrc"), []byte("mine"))
		write(t, a.path("team/deep/new"), []byte("mine"))
	})
	t.Run("with --own-all it would", func(t *testing.T) {
		trusting := alice.mount("b", "--own-all")
		if out := git(trusting.path("team"), "status"); strings.Contains(out, "dubious") {
			t.Errorf("--own-all: %s", out)
		}
		if _, err := os.Stat(ran); err != nil {
			t.Error("--own-all: git did not run it, so that this test shows nothing")
		}
	})
}

// Threat 15: direnv obeys an .envrc that its user allowed, and nothing that another
// account put in its place.
func TestThreat15PlantedEnvironmentsRunNothing(t *testing.T) {
	proctest.Need(t, "direnv")
	w, alice, bob := team(t)
	a := alice.mount("a")
	dir := a.path("team/work")
	direnv := func(args ...string) string {
		cmd := exec.Command("direnv", args...)
		cmd.Dir = dir
		cmd.Env = w.env("XDG_DATA_HOME="+w.mkdir("direnv"), "XDG_CONFIG_HOME="+w.mkdir("direnv"))
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	ok(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, ".envrc"), []byte("export MINE=yes\n"))
	if out := direnv("allow") + direnv("export", "bash"); !strings.Contains(out, "MINE=$'yes'") {
		t.Fatalf("one's own: %s", out)
	}
	ran := filepath.Join(w.dir, "ran")
	bob.plant(map[string]string{"work/.envrc": "touch " + ran + "\n"})
	alice.must("refresh", a.dir)
	if out := direnv("export", "bash"); !strings.Contains(out, "is blocked") {
		t.Errorf("another account's: %s", out)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("direnv ran the script of another account")
	}
	if out := direnv("allow") + direnv("export", "bash"); strings.Contains(out, "is blocked") {
		t.Errorf("allowed: %s", out)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Error("direnv does not run it when it is allowed, so that this test shows nothing")
	}
}

// Threat 16: get --all into a home puts no file there that a shell obeys, and
// replaces none that differs.
func TestThreat16GetAllIntoAHome(t *testing.T) {
	w, alice, bob := team(t)
	home := w.mkdir("alice")
	kept := map[string]string{".bashrc": "mine\n", "plan.txt": "my plan\n"}
	for name, content := range kept {
		write(t, filepath.Join(home, name), []byte(content))
	}
	bob.plant(map[string]string{".bashrc": "planted\n", ".ssh/authorized_keys": "planted\n",
		"a/.git/config": "planted\n", "plan.txt": "another plan\n", "report.txt": "report\n"})
	out := alice.must("get", "team", "--all", "-o", home)
	if !strings.Contains(out, "1 file fetched, 0 equal already, 0 failed, 1 kept that differ (--force replaces "+
		"them), 3 hidden left out") {
		t.Error(out)
	}
	var there []string
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if got := strings.Join(there, " "); got != ".bashrc plan.txt report.txt" {
		t.Errorf("the home has %s", got)
	}
	for name, content := range kept {
		if got := string(read(t, filepath.Join(home, name))); got != content {
			t.Errorf("%s: %q", name, got)
		}
	}
	alice.must("get", "team", "--all", "-o", home, "--hidden", "--force")
	if got := string(read(t, filepath.Join(home, ".bashrc"))); got != "planted\n" {
		t.Errorf("asked for: %q", got)
	}
}

// Threat 16: a link of another account is no way to where programs find what they obey:
// neither a link that get --all made before, nor one of the user.
func TestThreat16GetAllOverLinks(t *testing.T) {
	w, alice, bob := team(t)
	home := w.mkdir("alice")
	if err := os.MkdirAll(filepath.Join(home, ".config/mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".config", filepath.Join(home, "settings")); err != nil {
		t.Fatal(err)
	}
	tree := w.mkdir("tree")
	for link, target := range map[string]string{"docs": ".config", "notes": "plain/.ssh"} {
		if err := os.Symlink(target, filepath.Join(tree, link)); err != nil {
			t.Fatal(err)
		}
	}
	bob.must("put", "team", tree, "--name", "x")
	for _, name := range []string{"docs", "notes"} {
		bob.must("mv", "team", "x/"+name, name)
	}
	if out := alice.must("get", "team", "--all", "-o", home); !strings.Contains(out, "2 links left out") {
		t.Error(out)
	}
	alice.must("get", "team", "--all", "-o", home, "--hidden")
	if got, err := os.Readlink(filepath.Join(home, "docs")); err != nil || got != ".config" {
		t.Errorf("asked for: %q, %v", got, err)
	}
	bob.must("rm", "team", "docs")
	bob.plant(map[string]string{"docs/autostart/a.desktop": "planted\n", "settings/fish/config.fish": "planted\n",
		"plain.txt": "plain\n"})
	out, _ := alice.try("get", "team", "--all", "-o", home)
	if !strings.Contains(out, "1 file fetched") || !strings.Contains(out, "2 failed") {
		t.Error(out)
	}
	if entries, err := os.ReadDir(filepath.Join(home, ".config")); err != nil || len(entries) != 1 {
		t.Errorf("the hidden folder has %v, %v", entries, err)
	}
}

// Threat 17, N1: the group that this machine saw first keeps its name, in later
// mounts too; one that looks like it shows its owner, in a mount and in lists.
func TestThreat17LookAlikeGroupsInALaterMount(t *testing.T) {
	w, alice, bob := team(t)
	carol := w.account("carol", "1000")
	names := func(m *mount) string {
		t.Helper()
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return strings.Join(list, " ")
	}
	bob.must("group", "create", "zeta")
	bob.must("group", "add", "zeta", alice.id)
	first := alice.mount("a")
	if got := names(first); got != "team zeta" {
		t.Errorf("at first: %s", got)
	}
	first.unmount()
	for _, group := range []string{"Zeta", "%7Aeta"} { // before the other in the order of letters
		carol.must("group", "create", group)
		carol.must("group", "add", group, alice.id)
	}
	want := "%257Aeta Zeta~carol.svc.testnet team zeta"
	for range 2 {
		m := alice.mount("a")
		if got := names(m); got != want {
			t.Errorf("later: %s, want %s", got, want)
		}
		m.unmount()
	}
	if got := alice.must("group", "list"); !strings.Contains(got, "  Zeta    carol.svc.testnet\n") ||
		!strings.Contains(got, "  zeta    bob.svc.testnet\n") {
		t.Errorf("group list:\n%s", got)
	}
	if got := alice.must("ls", "-l"); !strings.Contains(got, "carol.svc.testnet\n") {
		t.Errorf("ls -l:\n%s", got)
	}
}
