package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// largeTeam is a group that is read in parts, without a list.
func largeTeam(t *testing.T) (*testkit.Server, sdk.Group) {
	t.Helper()
	s := testkit.Start(t, testkit.Ours)
	g := s.Client(t, s.Account("alice", "1000"), func(cfg *sdk.Config) { cfg.SmallGroup = -1 }).Group("team")
	_, err := g.Register(t.Context())
	for _, name := range []string{"a", "a-b/c", "docs/x", "docs/x", "docs/deep/y", "docs/deep/er/z",
		"docs/.hidden"} {
		if err == nil {
			_, err = g.Put(t.Context(), name, strings.NewReader(name))
		}
	}
	if err == nil {
		_, err = g.MakeFolder(t.Context(), "docs/made")
	}
	ok(t, err)
	return s, g
}

func lists(s *testkit.Server) int { return s.Hits(wire.PathTools + wire.OpGetGroupTransactions) }

// What is at some paths looks as in the whole list, and takes no whole list; where it may look otherwise, or nothing is
// there, the whole list is needed.
func TestPartsShowWhatTheWholeListDoes(t *testing.T) {
	t.Parallel()
	s, g := largeTeam(t)
	whole, err := listOf(t.Context(), g)
	ok(t, err)
	rows := func(l listing, paths []string, show columns) (rows [][]string) {
		for _, path := range paths {
			c, ok := l.choose(path)
			if !ok && !l.hasFolder(path) {
				t.Errorf("%q is not there", path)
			}
			rows = append(rows, l.rows(c, path, "", show)...)
		}
		return rows
	}
	before := lists(s)
	for _, paths := range [][]string{{""}, {"docs"}, {"docs/deep"}, {"docs/made"}, {"docs/x"}, {"a", "docs"},
		{"docs", "docs/deep"}, {"", "docs"}, {"*"}, {"do*"}, {"docs/*"}, {"*/deep"}, {"*/d*/?"}, {"d[o]cs/x", "a"}} {
		for _, show := range []columns{{long: true, ref: true}, {all: true, ref: true}} {
			part, ok, err := partList(t.Context(), g, paths, show.all)
			if !ok || err != nil {
				t.Fatalf("%q: %v, %v", paths, ok, err)
			}
			if got, want := fmt.Sprint(rows(part, paths, show)), fmt.Sprint(rows(whole, paths, show)); got != want {
				t.Errorf("%q is shown as\n%s, want\n%s", paths, got, want)
			}
		}
	}
	if n := lists(s) - before; n != 0 {
		t.Errorf("%d lists", n)
	}
	_, err = g.Put(t.Context(), "odd/b%41", strings.NewReader("odd"))
	ok(t, err)
	for _, paths := range [][]string{{"none"}, {"docs", "docs/none"}, {"odd"}, {"docs//x"}, {"no*"}, {"odd/*"}} {
		if part, ok, err := partList(t.Context(), g, paths, false); ok || err != nil {
			t.Errorf("%q: %v, %v", paths, part, err)
		}
	}
}

// find finds in parts what it finds in the whole list, in the same order, and asks for no folder that a pattern leaves
// out.
func TestFindInParts(t *testing.T) {
	t.Parallel()
	s, g := largeTeam(t)
	check := func(odd int) {
		t.Helper()
		whole, err := listOf(t.Context(), g)
		ok(t, err)
		for _, search := range []search{{}, {kind: "d"}, {name: "?"}, {kind: "d", name: "d*"}, {uploader: "bob"},
			{path: "docs/*"}} {
			for _, paths := range [][]string{{""}, {"docs"}, {"docs/deep", "a"}, {"docs/made"}, {"do*"}, {"*/deep"}} {
				want, err := whole.findIn(g.ID, paths, &search)
				ok(t, err)
				before := lists(s)
				got, err := searchIn(t.Context(), g, paths, &search)
				ok(t, err)
				text := func(list []found) string {
					return fmt.Sprint(each(list, func(f found) string { return fmt.Sprint(f.path, f.entry == nil) }))
				}
				if text(got) != text(want) {
					t.Errorf("%+v in %q finds\n%s, want\n%s", search, paths, text(got), text(want))
				}
				if n := lists(s) - before; n > odd {
					t.Errorf("%q took %d lists", paths, n)
				}
			}
		}
	}
	check(0)
	before := s.Hits(wire.PathTools + wire.OpGetNames)
	_, err := searchIn(t.Context(), g, []string{"docs/m*"}, &search{})
	ok(t, err)
	if n := s.Hits(wire.PathTools+wire.OpGetNames) - before; n != 3 { // whether it is a name, docs, and docs/made
		t.Errorf("%d requests", n)
	}
	_, err = g.Put(t.Context(), "odd/b%41", strings.NewReader("odd"))
	ok(t, err)
	check(1)
}

// A shell is offered what is in the folder that is typed.
func TestCompletionInParts(t *testing.T) {
	t.Parallel()
	s, g := largeTeam(t)
	before := lists(s)
	for typed, want := range map[string]string{"": "[a a-b/ docs/]", "do": "[a a-b/ docs/]",
		"docs/": "[docs/.hidden docs/deep/ docs/made/ docs/x]", "docs/deep/y": "[docs/deep/er/ docs/deep/y]"} {
		if got, err := pathsIn(t.Context(), g, typed); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
	}
	if n := lists(s) - before; n != 0 {
		t.Errorf("%d lists", n)
	}
}
