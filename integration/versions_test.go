package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// N4: older versions that the owner of the group keeps no longer leave the history. Who has
// one open reads it to the end, and a program that holds references of a client without
// versions loses none.
func TestN4ThinnedOnAMount(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	for i, text := range []string{"one", "two", "three", "four"} {
		m := a
		if i%2 == 1 {
			m = b
		}
		shell(t, m.path("team"), "echo "+text+" >doc; echo x >once"+text)
		alice.must("refresh", a.dir)
		bob.must("refresh", b.dir)
	}
	history := func(m *mount) []string {
		t.Helper()
		entries, err := os.ReadDir(m.path("team/.svcfs/history/doc"))
		ok(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	before := history(b)
	if len(before) != 4 {
		t.Fatalf("the history is %q", before)
	}
	oldest := filepath.Join(b.path("team/.svcfs/history/doc"), before[0])
	open, err := os.Open(oldest)
	ok(t, err)
	defer open.Close()
	out := alice.must("group", "config", "team", "versions", "2", "--dry-run")
	if !strings.Contains(out, "2 versions of 1 file, ") {
		t.Errorf("it would take %s", out)
	}
	alice.must("group", "config", "team", "versions", "2", "--yes")
	if out, err := w.svcd("retention", "--destruction-delay", "0"); err != nil || out != "files: 2 deleted\n" {
		t.Errorf("svcd retention says %q, %v", out, err)
	}
	alice.must("refresh", a.dir)
	bob.must("refresh", b.dir)
	for _, m := range []*mount{a, b} {
		if after := history(m); strings.Join(after, " ") != strings.Join(before[2:], " ") {
			t.Errorf("the history is %q, want %q", after, before[2:])
		}
		if got := shell(t, m.path("team"),
			"cat doc; cat .svcfs/history/doc/*; ls | wc -l"); got != "four\nthree\nfour\n5\n" {
			t.Errorf("the mount shows %q", got)
		}
	}
	got := make([]byte, 10)
	if n, err := open.ReadAt(got, 0); string(got[:n]) != "one\n" {
		t.Errorf("who has it open reads %q, %v", got[:n], err)
	}
	if _, err := os.Open(oldest); !os.IsNotExist(err) {
		t.Errorf("a version that is gone is opened: %v", err)
	}
	if errs, err := os.ReadFile(b.path(".svcfs/errors")); err != nil || len(errs) > 0 {
		t.Errorf("errors: %s, %v", errs, err)
	}
}
