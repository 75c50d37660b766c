package main

import (
	"os"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// Threat 16: whoever follows a link of another account stays in the folder, whatever links
// are on the way, of the listing or of the disk.
func TestThreat16LinksOfOthers(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	ok(t, err)
	defer root.Close()
	ok(t, root.MkdirAll("a/b/c", 0o700))
	ok(t, root.Symlink("..", "a/b/up"))
	ok(t, root.Symlink("/tmp", "out"))
	g := &getting{dir: root, links: map[string]bool{"listed": true, "a/new": true}}
	for _, tc := range []struct{ link, target, want string }{
		{"l", "f", ""},
		{"l", "./a//b/f", ""},
		{"a/b/l", "../../f", ""},
		{"a/b/l", "../..", ""},
		{"none/none/l", "../../f", ""},
		{"l", "/etc/passwd", "absolute"},
		{"l", "..", "outside"},
		{"l", "./../f", "outside"},
		{"a/b/l", "../../../f", "outside"},
		{"l", "a/../f", "goes up again"},
		{"l", "a/b/../../../f", "goes up again"},
		{"l", "out/f", "over the link out"},
		{"l", "out", "over the link out"},
		{"a/l", "../out/f", "over the link out"},
		{"l", "listed", "over the link listed"},
		{"l", "a/new/f", "over the link a/new"},
		{"l", ".ssh/id", "hidden"},
		{"a/b/l", "../../.git", "hidden"},
		{"a/b/l", "../.", ""},
		{"a/b/up/l", "../f", "over the link a/b/up"},
		{"a/new/l", "f", "over the link a/new"},
	} {
		if got := g.leadsOut(tc.link, tc.target); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s -> %s: %q, want %q", tc.link, tc.target, got, tc.want)
		}
	}
}

// Threat 16: no program of another account becomes executable.
func TestThreat16ProgramsOfOthers(t *testing.T) {
	e := sdk.Entry{Uploader: "alice", Attributes: &sdk.Attributes{Executable: true}}
	if marksOf(&e, "bob").executable || !marksOf(&e, "alice").executable {
		t.Errorf("of others %+v, own %+v", marksOf(&e, "bob"), marksOf(&e, "alice"))
	}
}
