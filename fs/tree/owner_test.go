package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
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
	w.Put("team", alice, "a/b/mine", []byte("x"))
	m := mount(t, w, alice, ours)
	all := []string{"/team", "/team/a", "/team/a/b", "/team/a/b/mine"}
	m.wantForeign("own files", all)
	gone := w.Put("team", bob, "a/b/theirs", []byte("x"))
	m.refresh()
	m.wantForeign("theirs beside them", append(all, "/team/a/b/theirs"), "/team", "/team/a", "/team/a/b", "/team/a/b/theirs")
	w.Shred("team", gone.Ref)
	m.refresh()
	m.wantForeign("theirs deleted: the folder stays theirs", all, "/team", "/team/a", "/team/a/b")

	again := mount(t, w, alice)
	again.wantForeign("a new mount", all)
	w.Put("team", bob, "a/b/mine", []byte("y"))
	again.refresh()
	again.wantForeign("overwritten by others", all, all...)
	ok(t, again.save("/team/a/b/mine", "z"))
	again.wantForeign("saved here", all, "/team", "/team/a", "/team/a/b")

	theirs := mount(t, w, bob)
	theirs.names("/team/a/b")
	theirs.wantForeign("the group of another account", []string{"/", "/team"}, "/team")
}

// A5: a folder that moves takes along whose it is.
func TestA5FoldersThatMove(t *testing.T) {
	w := team()
	w.Put("team", bob, "theirs/f", []byte("x"))
	w.Put("team", alice, "mine/f", []byte("x"))
	m := mount(t, w, alice, ours)
	m.names("/team")
	m.wantForeign("before", []string{"/team/theirs", "/team/mine"}, "/team/theirs")
	ok(t, m.dir("/team").Rename(t.Context(), "theirs", m.dir("/team/mine"), "moved", false))
	m.wantForeign("moved", []string{"/team/mine", "/team/mine/moved", "/team/mine/moved/f", "/team/mine/f"}, "/team/mine", "/team/mine/moved", "/team/mine/moved/f")

	w.Put("team", alice, "other/f", []byte("x"))
	w.Put("team", bob, "g", []byte("x"))
	m.refresh()
	m.wantForeign("before", []string{"/team/other"})
	ok(t, m.dir("/team").Rename(t.Context(), "g", m.dir("/team/other"), "g", false))
	m.wantForeign("a file moved", []string{"/team/other", "/team/other/f"}, "/team/other")
}

// A5: the owner of a group may change with the first look into it, so before that the
// kernel is not to believe the owner.
func TestA5GroupsNobodyLookedInto(t *testing.T) {
	w := team()
	w.Put("team", bob, "f", []byte("x"))
	m := mount(t, w, alice)
	if attr := m.node("/team").Attr(); attr.Foreign || !attr.Unsure {
		t.Errorf("before: %+v", attr)
	}
	m.names("/team")
	if attr := m.node("/team").Attr(); !attr.Foreign || attr.Unsure {
		t.Errorf("after: %+v", attr)
	}
}

// N3, threat 17: an upload beneath the name of a file does not turn the file into a
// folder, neither in a mount that knows the file nor in a later one, nor with an
// older upload that is renamed. Nor does a file take a folder's name.
func TestThreat17FoldersGiveWayToOlderFiles(t *testing.T) {
	w := team()
	old := w.Put("team", bob, "old", []byte("planted"))
	older := w.Put("team", bob, "older", []byte("planted"))
	expired := w.Put("team", alice, "report.pdf", []byte("first"))
	w.Put("team", alice, "docs/a", []byte("a"))
	before := mount(t, w, alice)
	before.wantContent("/team/report.pdf", "first")
	w.Put("team", bob, "docs", []byte("not docs"))
	w.Put("team", bob, "report.pdf/x", []byte("planted"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(last(w.As(bob).RenameFile(t.Context(), "team", old.Ref, "report.pdf/y")))
	must(last(w.As(bob).RenameFile(t.Context(), "team", older.Ref, "report.pdf/z")))
	must(last(w.As(bob).DeleteFile(t.Context(), "team", older.Ref)))
	w.Put("team", bob, "report.pdf/z", []byte("planted"))
	w.Put("team", alice, "report.pdf", []byte("second"))
	w.Shred("team", expired.Ref)
	w.Edit("team", expired.Ref, func(e *sdk.Entry) { e.Deleted.Reason = wire.ReasonRetentionPolicy })
	before.refresh()
	for range 10 { // the order in which a listing is placed is not that of a map
		for _, m := range []*mounted{before, mount(t, w, alice)} {
			m.wantContent("/team/report.pdf", "second")
			m.wantContent("/team/docs/a", "a")
			if got := m.names("/team"); len(got) != 4 {
				t.Errorf("the group lists %q", got)
			}
			folder := "/team/" + names.WithSuffix("report.pdf", "report.pdf")
			m.wantNames(folder, "x", "y", "z")
			must(m.save(folder+"/x", "changed by alice"))
		}
	}
	if i := slices.IndexFunc(w.Rows("team"), func(e sdk.Entry) bool { return strings.HasPrefix(e.Name, "report~") }); i >= 0 {
		t.Errorf("the name that is shown was recorded: %q", w.Rows("team")[i].Name)
	}
}

// N3, threat 17: a name that was removed reserves nothing, until it is uploaded again.
func TestThreat17ARemovedNameIsNotOlder(t *testing.T) {
	w := team()
	w.Put("team", bob, "plan/x", []byte("planted"))
	ok(t, last(w.As(bob).RemoveVersions(t.Context(), "team", w.Named("team", "plan/x"))))
	deleted := w.Put("team", bob, "plan/y", []byte("planted"))
	ok(t, last(w.As(bob).DeleteFile(t.Context(), "team", deleted.Ref)))
	w.Put("team", alice, "plan", []byte("the plan"))
	w.Put("team", bob, "plan/x", []byte("planted"))
	w.Put("team", bob, "plan/y", []byte("planted"))
	m := mount(t, w, alice, ours)
	m.wantContent("/team/plan", "the plan")
	m.wantNames("/team/"+names.WithSuffix("plan", "plan"), "x", "y")
}

// N3: folders whose names are shown alike stay apart, and so do a file and a folder
// that have the name which another would get.
func TestN3CollisionsOfFolders(t *testing.T) {
	w := team()
	w.Put("team", alice, names.WithSuffix("a", "a"), []byte("0"))
	w.Put("team", alice, "a", []byte("1"))
	w.Put("team", bob, "a/f", []byte("2"))
	w.Put("team", alice, "b%0Ac/f", []byte("3"))
	w.Put("team", bob, "b\nc/f", []byte("4"))
	m := mount(t, w, alice)
	files := allFiles(t, m.dir("/team"), "")
	if len(files) != 5 || !slices.Contains(files, "a") || !slices.Contains(files, names.WithSuffix("a", "a")) || !slices.Contains(files, "b%0Ac/f") {
		t.Fatalf("files: %q", files)
	}
	m.wantContent("/team/b%0Ac/f", "3")
	for _, f := range files {
		ok(t, m.save("/team/"+f, "saved"))
	}
	names := make(map[string]int)
	for _, e := range w.Rows("team") {
		names[e.Name]++
	}
	for name, n := range names {
		if n != 2 {
			t.Errorf("%q was recorded %d times", name, n)
		}
	}
}
