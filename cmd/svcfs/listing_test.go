package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// What lies directly at some paths looks as in the whole list, and takes no whole list; where it may look otherwise, or
// the paths are no paths, the whole list is needed.
func TestFolderListShowsWhatTheWholeListDoes(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g := s.Client(t, s.Account("alice", "1000"), func(cfg *sdk.Config) { cfg.SmallGroup = -1 }).Group("team")
	_, err := g.Register(t.Context())
	for _, name := range []string{"a", "docs/x", "docs/x", "docs/deep/y", "docs/deep/er/z", "odd/b%41"} {
		if err == nil {
			_, err = g.Put(t.Context(), name, strings.NewReader(name))
		}
	}
	if err == nil {
		_, err = g.MakeFolder(t.Context(), "docs/made")
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, err := listOf(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	show := columns{long: true, ref: true}
	rows := func(l listing, paths []string) (rows [][]string) {
		for _, path := range paths {
			c, ok := l.choose(path)
			if !ok && !l.hasFolder(path) {
				t.Errorf("%q is not there", path)
			}
			rows = append(rows, l.rows(c, path, "", show)...)
		}
		return rows
	}
	for _, paths := range [][]string{{""}, {"docs"}, {"docs/deep"}, {"docs/made"}, {"docs/x"},
		{"a", "docs"}, {"docs", "docs/deep"}, {"", "docs"}} {
		part, ok, err := folderList(t.Context(), g, paths)
		if !ok || err != nil {
			t.Fatalf("%q: %v, %v", paths, ok, err)
		}
		if got, want := fmt.Sprint(rows(part, paths)), fmt.Sprint(rows(whole, paths)); got != want {
			t.Errorf("%q is shown as\n%s, want\n%s", paths, got, want)
		}
	}
	for _, paths := range [][]string{{"*"}, {"none"}, {"docs", "docs/none"}, {"odd"}, {"docs//x"}} {
		if part, ok, err := folderList(t.Context(), g, paths); ok || err != nil {
			t.Errorf("%q: %v, %v", paths, part, err)
		}
	}
}
