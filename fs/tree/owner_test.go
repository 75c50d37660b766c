package tree

import (
	"slices"
	"testing"
)

// foreign returns what of the paths is another account's.
func (m *mounted) foreign(paths ...string) (list []string) {
	m.t.Helper()
	for _, p := range paths {
		if m.node(p).Attr().Foreign {
			list = append(list, p)
		}
	}
	return list
}

func (m *mounted) wantForeign(what string, paths []string, want ...string) {
	m.t.Helper()
	if got := m.foreign(paths...); !slices.Equal(got, want) {
		m.t.Errorf("%s: of others are %q, want %q", what, got, want)
	}
}

// A5: a file is another account's when that uploaded the newest record, and every
// folder above it, whatever way it came there; a group is its owner's.
func TestA5FilesAndFoldersOfOthers(t *testing.T) {
	w := team()
	w.put("team", alice, "a/b/mine", []byte("x"))
	m := mount(t, w, alice, func(c *Config) { c.CanRename = true })
	all := []string{"/team", "/team/a", "/team/a/b", "/team/a/b/mine"}
	m.wantForeign("own files", all)
	gone := w.put("team", bob, "a/b/theirs", []byte("x"))
	m.refresh()
	m.wantForeign("theirs beside them", append(all, "/team/a/b/theirs"), "/team", "/team/a", "/team/a/b", "/team/a/b/theirs")
	w.shred("team", gone.Ref)
	m.refresh()
	m.wantForeign("theirs deleted: the folder stays theirs", all, "/team", "/team/a", "/team/a/b")

	again := mount(t, w, alice)
	again.wantForeign("a new mount", all)
	w.put("team", bob, "a/b/mine", []byte("y"))
	again.refresh()
	again.wantForeign("overwritten by others", all, all...)
	if err := again.save("/team/a/b/mine", "z"); err != nil {
		t.Fatal(err)
	}
	again.wantForeign("saved here", all, "/team", "/team/a", "/team/a/b")

	theirs := mount(t, w, bob)
	theirs.names("/team/a/b")
	theirs.wantForeign("the group of another account", []string{"/", "/team"}, "/team")
}

// A5: a folder that moves takes along whose it is.
func TestA5FoldersThatMove(t *testing.T) {
	w := team()
	w.put("team", bob, "theirs/f", []byte("x"))
	w.put("team", alice, "mine/f", []byte("x"))
	m := mount(t, w, alice, func(c *Config) { c.CanRename = true })
	m.names("/team")
	m.wantForeign("before", []string{"/team/theirs", "/team/mine"}, "/team/theirs")
	if err := m.dir("/team").Rename(t.Context(), "theirs", m.dir("/team/mine"), "moved", false); err != nil {
		t.Fatal(err)
	}
	m.wantForeign("moved", []string{"/team/mine", "/team/mine/moved", "/team/mine/moved/f", "/team/mine/f"}, "/team/mine", "/team/mine/moved", "/team/mine/moved/f")

	w.put("team", alice, "other/f", []byte("x"))
	w.put("team", bob, "g", []byte("x"))
	m.refresh()
	m.wantForeign("before", []string{"/team/other"})
	if err := m.dir("/team").Rename(t.Context(), "g", m.dir("/team/other"), "g", false); err != nil {
		t.Fatal(err)
	}
	m.wantForeign("a file moved", []string{"/team/other", "/team/other/f"}, "/team/other")
}

// A5: whose a group is may change with the first look into it, and the kernel is
// told not to believe before.
func TestA5GroupsNobodyLookedInto(t *testing.T) {
	w := team()
	w.put("team", bob, "f", []byte("x"))
	m := mount(t, w, alice)
	if attr := m.node("/team").Attr(); attr.Foreign || !attr.Unsure {
		t.Errorf("before: %+v", attr)
	}
	m.names("/team")
	if attr := m.node("/team").Attr(); !attr.Foreign || attr.Unsure {
		t.Errorf("after: %+v", attr)
	}
}
