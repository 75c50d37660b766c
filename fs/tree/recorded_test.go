package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
)

func (m *mounted) mkdir(in, name string) {
	m.t.Helper()
	_, err := m.dir(in).Mkdir(m.t.Context(), name)
	ok(m.t, err)
}

func wantFolders(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := w.Folders("team"); !slices.Equal(got, want) {
		t.Errorf("recorded: %q, want %q", got, want)
	}
}

// N5: where the service records folders, an empty one is in every mount, also after it lost its last file,
// until it is removed.
func TestN5FoldersAreRecorded(t *testing.T) {
	w := team()
	m, other := mount(t, w, alice, ours), mount(t, w, bob, ours)
	other.wantNames("/team")
	m.mkdir("/team", "refs")
	m.mkdir("/team/refs", "heads")
	m.mkdir("/team/refs", "a\x01b") // shown with an escape
	wantFolders(t, w, "refs", "refs/a\x01b", "refs/heads")
	ok(t, m.save("/team/refs/heads/main", "x"))
	other.refresh()
	other.wantNames("/team/refs/heads", "main")
	ok(t, m.dir("/team/refs/heads").Unlink(t.Context(), "main"))
	other.refresh()
	for _, m := range []*mounted{m, other, mount(t, w, bob, ours)} {
		for range 2 {
			m.wantNames("/team", "refs")
			m.wantNames("/team/refs", "a%01b", "heads")
			m.wantNames("/team/refs/heads")
			m.refresh()
		}
	}
	ino := m.node("/team/refs/heads").Attr().Ino
	if again := mount(t, w, alice, ours).node("/team/refs/heads").Attr().Ino; again != ino {
		t.Errorf("the next mount gives the folder the number %d, this one %d", again, ino)
	}
	wantClass(t, m.dir("/team").Rmdir(t.Context(), "refs"), ClassNotEmpty)
	ok(t, m.dir("/team/refs").Rmdir(t.Context(), "heads"))
	ok(t, m.dir("/team/refs").Rmdir(t.Context(), "a%01b"))
	wantFolders(t, w, "refs")
	for range 2 {
		m.wantNames("/team/refs")
		m.refresh()
	}
	other.refresh()
	other.wantNames("/team/refs")
	ok(t, m.dir("/team").Rmdir(t.Context(), "refs"))
	m.mkdir("/team", "refs")
	other.refresh()
	other.wantNames("/team", "refs")
	if w.Begun("make folder") != 4 || w.Begun("remove folder") != 3 {
		t.Errorf("%d requests make folders, %d remove some", w.Begun("make folder"), w.Begun("remove folder"))
	}
}

// N5: a folder with a scratch name, or beneath one, is not recorded until it gets a name that is none.
func TestN5ScratchFoldersAreNotRecorded(t *testing.T) {
	w := team()
	m := mount(t, w, alice, ours)
	for _, name := range []string{"new.tmp", "x~", ".Trash-1000", "kept"} {
		m.mkdir("/team", name)
	}
	m.mkdir("/team/new.tmp", "sub")
	m.mkdir("/team/new.tmp/sub", "deep")
	wantFolders(t, w, "kept")
	ok(t, m.rename("new.tmp", "new"))
	wantFolders(t, w, "kept", "new", "new/sub", "new/sub/deep")
	ok(t, m.rename("new", "newer"))
	if w.Begun("rename folder") != 1 {
		t.Errorf("%d renames of folders", w.Begun("rename folder"))
	}
	wantFolders(t, w, "kept", "newer", "newer/sub", "newer/sub/deep")
	m.wantNames("/team", ".Trash-1000", "kept", "newer", "x~")
	m.refresh()
	m.wantNames("/team", ".Trash-1000", "kept", "newer", "x~")
	m.wantNames("/team/newer/sub", "deep")
}

// N5: mkdir works as ever where the service does not record the folder: then it is in this mount alone.
func TestN5FoldersThatTheServiceDoesNotRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		fail   *sdk.Error
	}{
		"hosted":        {func(*Config) {}, nil},
		"too many":      {ours, &sdk.Error{Op: "make folder", Kind: sdk.ErrTooLarge}},
		"limited":       {ours, &sdk.Error{Op: "make folder", Kind: sdk.ErrRateLimited}},
		"full":          {ours, &sdk.Error{Op: "make folder", Kind: sdk.ErrStorageFull}},
		"a file by now": {ours, &sdk.Error{Op: "make folder", Kind: sdk.ErrConflict}},
		"older":         {ours, &sdk.Error{Op: "make folder", Kind: sdk.ErrUnsupported}},
		"away":          {ours, &sdk.Error{Op: "make folder", Kind: sdk.ErrUnavailable}},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			m := mount(t, w, alice, tc.change)
			m.wantNames("/team")
			if tc.fail != nil {
				w.Fail("make folder", tc.fail)
			}
			m.mkdir("/team", "here")
			m.mkdir("/team/here", "deep")
			if asked, want := w.Begun("make folder"), map[string]int{"hosted": 0, "away": 1}; asked != 2 && asked != want[name] || m.Status().Reachable != (name != "away") {
				t.Errorf("asked %d times, reachable %t", asked, m.Status().Reachable)
			}
			wantFolders(t, w)
			if tc.fail != nil && name == "away" {
				m.mkdir("/team", "another")
				ok(t, m.dir("/team").Rmdir(t.Context(), "another"))
			}
			lines := strings.Count(string(m.errors.Show()), "the folder is in this mount alone")
			if want := map[string]int{"hosted": 0, "away": 2}; lines != 1 && lines != want[name] {
				t.Errorf("the mount says %q", m.errors.Show())
			}
			m.refresh()
			m.wantNames("/team/here", "deep")
			ok(t, m.dir("/team/here").Rmdir(t.Context(), "deep"))
			ok(t, m.rename("here", "there"))
			ok(t, m.dir("/team").Rmdir(t.Context(), "there"))
			if w.Begun("remove folder") != 0 {
				t.Error("the service is asked to remove what it never recorded")
			}
			m.wantNames("/team")
		})
	}
	t.Run("no answer", func(t *testing.T) {
		w := team()
		m := mount(t, w, alice, ours)
		m.wantNames("/team")
		defer w.Stall("make folder")()
		m.mkdir("/team", "here") // returns
		m.wantNames("/team", "here")
	})
	t.Run("the answer is lost", func(t *testing.T) {
		w := team()
		m := mount(t, w, alice, ours)
		m.wantNames("/team")
		_, err := w.As(alice).MakeFolder(t.Context(), "team", "here") // by the first request
		ok(t, err)
		m.mkdir("/team", "here")
		ok(t, m.dir("/team").Rmdir(t.Context(), "here"))
		wantFolders(t, w)
	})
}

// N5: the maker and the owner of the group rename and remove a recorded folder; what others put into it, or
// changed, counts.
func TestN5RecordedFoldersOfOthers(t *testing.T) {
	w := team() // alice owns the group
	m, other := mount(t, w, alice, ours), mount(t, w, bob, ours)
	for _, name := range []string{"a", "b", "c", "e"} {
		m.mkdir("/team", name)
	}
	other.refresh()
	other.wantNames("/team", "a", "b", "c", "e")
	wantClass(t, other.dir("/team").Rmdir(t.Context(), "a"), ClassByDesign)
	wantClass(t, other.rename("a", "d"), ClassByDesign)
	other.mkdir("/team", "bobs")
	ok(t, other.rename("bobs", "his"))
	wantClass(t, other.rename("his", "e"), ClassByDesign) // it would take the place of alice's
	m.refresh()
	w.Put("team", bob, "a/x", []byte("x"))
	wantClass(t, m.dir("/team").Rmdir(t.Context(), "a"), ClassNotEmpty)
	m.wantNames("/team/a", "x")
	_, err := w.As(alice).RemoveFolder(t.Context(), "team", "b") // elsewhere
	ok(t, err)
	ok(t, m.dir("/team").Rmdir(t.Context(), "b"))
	ok(t, m.rename("his", "c")) // the owner: it takes the place of an empty folder
	wantFolders(t, w, "a", "c", "e")
	w.Fail("remove folder", &sdk.Error{Op: "remove folder", Kind: sdk.ErrUnavailable})
	wantClass(t, m.dir("/team").Rmdir(t.Context(), "c"), ClassUnreachable)
	w.Fail("remove folder", nil)
	m.wantNames("/team", "a", "c", "e")
	_, err = w.As(alice).RenameFolder(t.Context(), "team", "e", "f/g", w.Seq())
	ok(t, err)
	for _, m := range []*mounted{m, other} {
		m.refresh()
		m.wantNames("/team", "a", "c", "f")
		m.wantNames("/team/f", "g")
	}
	w.Role("team", bob, sdk.RoleReader)
	other.refresh()
	_, err = other.dir("/team").Mkdir(t.Context(), "new")
	wantClass(t, err, ClassReadOnly)
	wantClass(t, other.dir("/team").Rmdir(t.Context(), "c"), ClassReadOnly)
}

// N5: a recorded folder that goes file by file, onto a name with earlier uploads, is recorded there. While a folder
// holds uploads for others, it is not removed.
func TestN5RecordedFolderGoesFileByFile(t *testing.T) {
	w := team()
	w.Put("team", alice, "n/a", []byte("earlier"))
	m := mount(t, w, alice, ours)
	m.mkdir("/team", "d")
	m.mkdir("/team/d", "empty")
	ok(t, m.save("/team/d/a", "later"))
	ok(t, m.dir("/team/n").Rename(t.Context(), "a", m.dir("/team"), "a~", false))
	ok(t, m.dir("/team").Rmdir(t.Context(), "n"))
	ok(t, m.rename("d", "n"))
	if w.Begun("rename folder") != 0 || w.Begun("rename") != 1 {
		t.Errorf("%d requests for the folder, %d for files", w.Begun("rename folder"), w.Begun("rename"))
	}
	wantFolders(t, w, "n", "n/empty")
	for range 2 {
		m.wantContent("/team/n/a", "later")
		m.wantNames("/team/n", "a", "empty")
		m.refresh()
	}
	ok(t, m.dir("/team/n").Rmdir(t.Context(), "empty"))
	ok(t, m.dir("/team/n").Rename(t.Context(), "a", m.dir("/team"), "b~", false))
	wantClass(t, m.dir("/team").Rmdir(t.Context(), "n"), ClassNotEmpty)
}

// N3: at the first listing a file has the name that a recorded folder has too, whatever their age.
func TestN3FileWinsOverARecordedFolder(t *testing.T) {
	w := team()
	_, err := w.As(bob).MakeFolder(t.Context(), "team", "report.pdf")
	ok(t, err)
	running := mount(t, w, alice, ours)
	running.wantNames("/team", "report.pdf")
	w.Put("team", alice, "report.pdf", []byte("x"))
	m := mount(t, w, alice, ours)
	if n := m.node("/team/report.pdf"); n.Attr().Dir {
		t.Error("the folder has the name")
	}
	if got := m.names("/team"); len(got) != 2 {
		t.Errorf("listed %q", got)
	}
	running.refresh()
	if n := running.node("/team/report.pdf"); !n.Attr().Dir {
		t.Error("the folder lost its name in a mount that runs")
	}
}

// A5: a folder that another account recorded belongs to another user, and so do those above it.
func TestA5RecordedFoldersOfOthers(t *testing.T) {
	w := team()
	m := mount(t, w, alice, ours)
	m.mkdir("/team", "mine")
	m.mkdir("/team", "src")
	for _, folder := range []string{"src/.git", "theirs"} {
		_, err := w.As(bob).MakeFolder(t.Context(), "team", folder)
		ok(t, err)
	}
	m.refresh()
	for path, foreign := range map[string]bool{"/team/mine": false, "/team/theirs": true, "/team/src": true, "/team/src/.git": true} {
		if m.node(path).Attr().Foreign != foreign {
			t.Errorf("%s is another account's: %t", path, !foreign)
		}
	}
}

// R7: who watches learns of folders that others record and remove.
func TestR7RecordedFolders(t *testing.T) {
	w := treetest.NewWorld()
	w.Member("g", alice, bob)
	m, events := told(t, w)
	k := &toldKernel{}
	m.SetKernel(k)
	m.wantNames("/g")
	events <- sdk.Event{Kind: "of no concern"} // it watches
	_, err := w.As(bob).MakeFolder(t.Context(), "g", "a/b")
	ok(t, err)
	happened := func(kind string) {
		events <- sdk.Event{ChangedSeq: w.Seq(), Kind: kind, Group: "g", Account: bob}
		events <- sdk.Event{Kind: "of no concern"}
		m.look.Wait()
	}
	happened(sdk.EventFolderMade)
	_, err = w.As(bob).RenameFolder(t.Context(), "g", "a", "c", w.Seq())
	ok(t, err)
	happened(sdk.EventFolderRenamed)
	_, err = w.As(bob).RemoveFolder(t.Context(), "g", "c/b")
	ok(t, err)
	happened(sdk.EventFolderRemoved)
	if want := []string{"a comes", "a goes", "c comes", "c goes"}; !slices.Equal(k.said, want) {
		t.Errorf("told %q, want %q", k.said, want)
	}
}

// toldKernel notes what others made of names.
type toldKernel struct {
	noKernel
	said []string
}

func (k *toldKernel) ChangedByOthers(list []Change) {
	var said []string
	for _, c := range list {
		if c.Gone != nil {
			said = append(said, c.Name+" goes")
		}
		if c.Now != nil {
			said = append(said, c.Name+" comes")
		}
	}
	slices.Sort(said)
	k.said = append(k.said, said...)
}
