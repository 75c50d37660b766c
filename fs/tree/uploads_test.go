package tree

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// ours is a service of our dialect.
func ours(c *Config) { c.Ours = true }

func deletes(c *Config) { c.Ours, c.AllowDelete = true, true }
func advises(c *Config) {
	c.Hint = func(err error) string { return "About " + sdk.KindOf(err).Error() + "." }
}

// W8: where the service renames, every version of a file gets the new name.
func TestW8ServiceRenamesAllVersions(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	w.Put("team", alice, "f", []byte("two"))
	w.Put("team", alice, "d/old", []byte("three"))
	m := mount(t, w, alice, ours)
	h := m.open("/team/f", OpenFlags{Read: true, Write: true})
	ok(t, m.rename("f", "g"))
	m.write(h, "TWO!", 0)
	ok(t, h.Flush(t.Context()))
	h.Release()
	for range 2 {
		m.wantNames("/team", "d", "g")
		m.wantContent("/team/g", "TWO!")
		m.refresh()
	}
	for _, e := range w.Rows("team") {
		if e.Name == "f" {
			t.Errorf("%s kept the old name", e.Ref)
		}
	}
	m.wantCharges(1, 1)
	other := mount(t, w, bob)
	other.wantContent("/team/g", "TWO!")
	t.Run("onto an older upload", func(t *testing.T) {
		ok(t, m.dir("/team").Rename(t.Context(), "g", m.dir("/team/d"), "old", false))
		m.wantContent("/team/d/old", "TWO!")
		m.wantNames("/team", "d")
	})
	t.Run("onto a newer upload", func(t *testing.T) {
		ok(t, m.save("/team/newer", "x"))
		ok(t, m.dir("/team/d").Rename(t.Context(), "old", m.dir("/team"), "newer", false))
		m.wantContent("/team/newer", "TWO!")
	})
}

// W8: a backup whose name was saved again does not take the new versions along.
func TestW8BackupDoesNotTakeLaterSavesAlong(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, alice, ours)
	ok(t, m.rename("f", "f~"))
	ok(t, m.save("/team/f", "two"))
	wantClass(t, m.rename("f~", "g"), ClassByDesign)
	m.wantContent("/team/f", "two")
	m.wantContent("/team/f~", "one")
}

// W8: a file is renamed while others open, read and close it.
func TestW8RenameWhileOthersOpen(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, alice, ours)
	f := m.node("/team/f").(*File)
	var all sync.WaitGroup
	all.Go(func() {
		for range 2000 {
			if h, err := f.Open(t.Context(), OpenFlags{Read: true}); err != nil {
				t.Error(err)
			} else {
				h.Release()
			}
		}
	})
	for range 200 {
		ok(t, errors.Join(m.rename("f", "g"), m.rename("g", "f")))
	}
	all.Wait()
	if n := f.groupNow().list.Open.Load(); n != 0 {
		t.Errorf("%d handles are left", n)
	}
}

// N5: a folder is renamed file by file, and staged files go along.
func TestN5ServiceRenamesFolders(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/a", []byte("a"))
	w.Put("team", alice, "d/e/b", []byte("b1"))
	w.Put("team", alice, "d/e/b", []byte("b2"))
	w.Put("team", alice, "deep", []byte("not beneath"))
	m := mount(t, w, alice, ours)
	ok(t, m.save("/team/d/c.tmp", "scratch"))
	h := m.open("/team/d/a", OpenFlags{Read: true})
	defer h.Release()
	ok(t, m.rename("d", "n"))
	for range 2 {
		if got := allFiles(t, m.dir("/team"), ""); !slices.Equal(got, []string{"deep", "n/a", "n/c.tmp", "n/e/b"}) {
			t.Errorf("lists %v", got)
		}
		m.wantContent("/team/n/e/b", "b2")
		m.wantContent("/team/n/c.tmp", "scratch")
		m.refresh()
	}
	if n := m.node("/team/n/a"); n != Node(h.File()) {
		t.Error("an open file is another one after the rename")
	}
	if got := allFiles(t, mount(t, w, bob).dir("/team"), ""); !slices.Equal(got, []string{"deep", "n/a", "n/e/b"}) {
		t.Errorf("others see %v", got)
	}
}

// N5: where the service renames folders, a folder with all its versions is renamed by one
// request; what is only here goes along.
func TestN5FolderIsRenamedByOneRequest(t *testing.T) {
	w := team()
	for _, name := range []string{"d/a", "d/e/b", "d/e/b", "deep"} {
		w.Put("team", alice, name, []byte(name))
	}
	m, other := mount(t, w, alice, ours), mount(t, w, bob)
	m.wantNames("/team", "d", "deep")
	ok(t, m.save("/team/d/c.tmp", "scratch"))
	_, err := m.dir("/team/d").Mkdir(t.Context(), "empty")
	ok(t, err)
	h := m.open("/team/d/a", OpenFlags{Read: true})
	defer h.Release()
	before := w.Seq()
	ok(t, m.rename("d", "n"))
	if w.Begun("rename folder") != 1 || w.Begun("rename") != 0 || w.Seq() != before+1 {
		t.Errorf("%d requests for the folder, %d for files, %d records", w.Begun("rename folder"), w.Begun("rename"), w.Seq()-before)
	}
	for range 2 {
		m.wantFiles("deep", "n/a", "n/c.tmp", "n/e/b")
		m.wantNames("/team/n", "a", "c.tmp", "e", "empty")
		m.refresh()
	}
	if n := m.node("/team/n/a"); n != Node(h.File()) {
		t.Error("an open file is another one after the rename")
	}
	other.refresh()
	other.wantFiles("deep", "n/a", "n/e/b")
}

// N5: a folder goes there, back and there again before the mount looks at the ledger: none of
// the renames is taken for a repetition of an earlier one.
func TestN5FolderThereAndBack(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/a", []byte("a"))
	m := mount(t, w, alice, ours, func(c *Config) { c.RefreshInterval = time.Hour })
	m.wantFiles("d/a")
	for range 3 {
		ok(t, m.rename("d", "n"))
		ok(t, m.rename("n", "d"))
	}
	ok(t, m.rename("d", "n"))
	for range 2 {
		m.wantFiles("n/a")
		m.refresh()
	}
}

// N5: while the service does not answer, a folder keeps its name as a whole, also when
// the answer alone was lost; the next look shows what became of it.
func TestN5FolderIsRenamedAsAWholeOrNot(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/a", []byte("a"))
	w.Put("team", alice, "d/b", []byte("b"))
	m := mount(t, w, alice, ours)
	m.wantFiles("d/a", "d/b")
	w.Fail("rename folder", &sdk.Error{Op: "rename folder", Kind: sdk.ErrUnavailable})
	wantClass(t, m.rename("d", "n"), ClassUnreachable)
	m.wantFiles("d/a", "d/b")
	w.Fail("rename folder", nil)
	if _, err := w.As(alice).RenameFolder(t.Context(), "team", "d", "n", w.Seq()); err != nil { // the service did it
		t.Fatal(err)
	}
	m.wantFiles("d/a", "d/b")
	m.refresh()
	m.wantFiles("n/a", "n/b")
	m.wantNames("/team", "n")
}

// N5: what others uploaded into one of the folders meanwhile, the rename takes along or is
// refused for, as a whole; the mount shows it afterwards.
func TestN5FolderThatOthersChangedMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		as   sdk.AccountID // alice owns the group
		puts sdk.AccountID
		put  string
		how  Class
		then []string
	}{
		"the owner takes theirs along": {alice, bob, "d/theirs", 0, []string{"n/a", "n/theirs"}},
		"a member may not":             {bob, alice, "d/theirs", ClassByDesign, []string{"d/a", "d/theirs"}},
		"a name is in use":             {alice, bob, "n/a", ClassExist, []string{"d/a", "n/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Put("team", tc.as, "d/a", []byte("a"))
			m := mount(t, w, tc.as, ours, func(c *Config) { c.RefreshInterval = time.Hour })
			m.wantFiles("d/a")
			w.Put("team", tc.puts, tc.put, []byte("theirs"))
			if err := m.rename("d", "n"); tc.how == 0 {
				ok(t, err)
				m.refresh()
			} else {
				wantClass(t, err, tc.how)
			}
			m.wantFiles(tc.then...)
		})
	}
}

// N5: a folder goes file by file where one request would do something else: onto a name
// with earlier uploads, which a backup left free, and with files that have no recorded name.
func TestN5FolderGoesFileByFileOntoEarlierUploads(t *testing.T) {
	w := team()
	w.Put("team", alice, "n/a", []byte("earlier"))
	w.Put("team", alice, "d/a", []byte("later"))
	m := mount(t, w, alice, ours)
	ok(t, m.dir("/team/n").Rename(t.Context(), "a", m.dir("/team"), "a~", false))
	ok(t, m.dir("/team").Rmdir(t.Context(), "n"))
	ok(t, m.rename("d", "n"))
	if w.Begun("rename folder") != 0 || w.Begun("rename") != 1 {
		t.Errorf("%d requests for the folder, %d for files", w.Begun("rename folder"), w.Begun("rename"))
	}
	m.wantContent("/team/n/a", "later")
}

// N5, W8: what the service would refuse for one file is refused before any is changed.
func TestW8RenameOfOthersUploadsChangesNothing(t *testing.T) {
	w := team()
	w.Put("team", bob, "d/mine", []byte("a"))
	w.Put("team", alice, "d/theirs", []byte("b"))
	m := mount(t, w, bob, ours)
	wantClass(t, m.rename("d", "n"), ClassByDesign)
	wantClass(t, m.dir("/team/d").Rename(t.Context(), "theirs", m.dir("/team"), "x", false), ClassByDesign)
	if w.Begun("rename") != 0 {
		t.Error("the service was asked to rename")
	}
	if err := m.dir("/team/d").Rename(t.Context(), "mine", m.dir("/team"), "x", false); err != nil {
		t.Error("one's own: ", err)
	}
}

// W9: with deletion allowed, unlink destroys the keys of all versions.
func TestW9UnlinkDeletesWhereAllowed(t *testing.T) {
	w := team()
	w.Put("team", bob, "f", []byte("one"))
	w.Put("team", bob, "f", []byte("two"))
	w.Put("team", alice, "g", []byte("theirs"))
	m := mount(t, w, bob, deletes)
	h := m.open("/team/f", OpenFlags{Read: true})
	defer h.Release()
	ok(t, m.dir("/team").Unlink(t.Context(), "f"))
	wantClass(t, m.dir("/team").Unlink(t.Context(), "g"), ClassByDesign)
	m.wantNames("/team", "g")
	_, err := readAll(t, h)
	wantClass(t, err, ClassRevoked)
	for _, e := range w.Rows("team") {
		if (e.Deleted != nil) != (e.Name == "f") {
			t.Errorf("%s: deleted %v", e.Name, e.Deleted)
		}
	}
	if !w.HasMember("team", alice) || !w.HasMember("team", bob) {
		t.Error("unlink revoked somebody")
	}
	ok(t, m.save("/team/f", "again"))
	m.wantContent("/team/f", "again")
	w.Fail("delete", &sdk.Error{Op: "delete", Kind: sdk.ErrUnavailable})
	wantClass(t, m.dir("/team").Unlink(t.Context(), "f"), ClassUnreachable)
	m.wantContent("/team/f", "again")
}

// W8: mv to another group copies and deletes where it may, and else buys nothing.
func TestW8AcrossGroups(t *testing.T) {
	w := team()
	w.Member("other", alice, bob)
	w.Put("team", alice, "f", []byte("x"))
	for class, change := range map[Class]func(*Config){ClassByDesign: func(*Config) {}, ClassCrossDevice: deletes} {
		m := mount(t, w, alice, change)
		wantClass(t, m.dir("/team").Rename(t.Context(), "f", m.dir("/other"), "f", false), class)
		m.wantCharges(0, 0)
	}
	m := mount(t, w, alice)
	ok(t, m.save("/team/new.tmp", "y"))
	if err := m.dir("/team").Rename(t.Context(), "new.tmp", m.dir("/other"), "new", false); err != nil {
		t.Error("what is not uploaded: ", err)
	}
	m.wantContent("/other/new", "y")
}

// W8: a folder goes to another group by copy and removal, where all beneath it can be
// removed; elsewhere nothing is copied in vain.
func TestW8FoldersAcrossGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		as     sdk.AccountID // alice owns the group
		folder string
		change func(*Config)
		class  Class
	}{
		"own files and a trash":       {bob, "bobs", ours, ClassCrossDevice},
		"own files and deletion":      {bob, "bobs", deletes, ClassCrossDevice},
		"the owner":                   {alice, "mixed", ours, ClassCrossDevice},
		"files of others":             {bob, "mixed", ours, ClassByDesign},
		"files of others, deletion":   {bob, "mixed", deletes, ClassByDesign},
		"nothing is ever removed":     {alice, "mixed", func(*Config) {}, ClassByDesign},
		"nothing beneath is uploaded": {bob, "empty", func(*Config) {}, ClassCrossDevice},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Member("other", alice, bob)
			w.Put("team", bob, "bobs/e/f", []byte("x"))
			w.Put("team", bob, "mixed/e/f", []byte("x"))
			w.Put("team", alice, "mixed/g", []byte("x"))
			m := mount(t, w, tc.as, tc.change)
			_, err := m.dir("/team").Mkdir(t.Context(), "empty")
			ok(t, err)
			wantClass(t, m.dir("/team").Rename(t.Context(), tc.folder, m.dir("/other"), tc.folder, false), tc.class)
			m.wantNames("/other")
			if w.Begun("rename")+w.Begun("remove")+w.Begun("delete") > 0 {
				t.Error("the service was asked for a change")
			}
		})
	}
}

// R6: renames and deletions count too, where the service has a price for them, under
// the names of its price list.
func TestR6ChangesCountAgainstTheBudget(t *testing.T) {
	w := team()
	for _, name := range []string{"f", "g", "h"} {
		w.Put("team", alice, name, []byte(name))
	}
	one, _ := wire.ParseTokens("1")
	m := mount(t, w, alice, deletes, func(c *Config) {
		c.Budget, _ = wire.ParseTokens("2")
		c.Price = func(action string) (sdk.Amount, bool) {
			return one, action == sdk.EventRenamed || action == sdk.EventDeleted
		}
	})
	d := m.dir("/team")
	if err := m.rename("f", "x"); err != nil {
		t.Error(err)
	}
	if err := d.Unlink(t.Context(), "g"); err != nil {
		t.Error(err)
	}
	wantClass(t, d.Unlink(t.Context(), "h"), ClassBudget)
	wantClass(t, m.rename("h", "y"), ClassBudget)
	m.wantNames("/team", "h", "x")
}

// R6: a folder costs what its renames cost, and the whole price must be left.
func TestR6FoldersCountAgainstTheBudget(t *testing.T) {
	w := team()
	for _, name := range []string{"d/a", "d/b", "d/c"} {
		w.Put("team", alice, name, []byte(name))
	}
	one, _ := wire.ParseTokens("1")
	m := mount(t, w, alice, ours, func(c *Config) {
		c.Budget, _ = wire.ParseTokens("5")
		c.Price = func(action string) (sdk.Amount, bool) { return one, action == sdk.EventRenamed }
	})
	w.RenamePrice = one
	ok(t, m.rename("d", "n"))
	wantClass(t, m.rename("n", "k"), ClassBudget)
	if w.Begun("rename folder") != 1 {
		t.Errorf("asked %d times", w.Begun("rename folder"))
	}
	ok(t, m.dir("/team/n").Rename(t.Context(), "a", m.dir("/team"), "k", false))
}

// W9: where the service has a trash, a name goes with all its versions by one request,
// for everybody, and no key is destroyed: a program that has the file open reads on.
func TestW9RemovedToTheTrash(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/f", []byte("one"))
	w.Put("team", alice, "d/f", []byte("two"))
	w.Put("team", bob, "bobs", []byte("bob's"))
	m, other := mount(t, w, alice, ours), mount(t, w, bob, ours)
	h, theirs := m.open("/team/d/f", OpenFlags{Read: true}), other.open("/team/d/f", OpenFlags{Read: true})
	defer h.Release()
	defer theirs.Release()
	ok(t, m.dir("/team/d").Unlink(t.Context(), "f"))
	other.refresh()
	for who, h := range map[string]*Handle{"here": h, "elsewhere": theirs} {
		got := make([]byte, 3)
		if _, err := h.ReadAt(t.Context(), got, 0); err != nil || string(got) != "two" {
			t.Errorf("who has it open %s reads %q, %v", who, got, err)
		}
	}
	other.wantNames("/team", "bobs")
	if got := m.names("/team"); !slices.Equal(got, []string{"bobs", "d"}) { // rmdir finds it
		t.Errorf("lists %v", got)
	}
	ok(t, m.dir("/team").Rmdir(t.Context(), "d"))
	for _, e := range w.Rows("team") {
		if e.Name == "d/f" && (e.Deleted == nil || !e.Deleted.InTrash || w.Content(e.Ref) == nil) {
			t.Errorf("it is %+v", e.Deleted)
		}
	}
	if n := w.Begun("remove"); n != 1 {
		t.Errorf("%d requests", n)
	}
	ok(t, m.save("/team/d2", "again")) // other names are not concerned
	m.refresh()
	m.wantNames("/team", "bobs", "d2")
}

// W9: a removal that this account may not make is refused at once, and changes nothing;
// where the group is set so, every writer may remove.
func TestW9RemovedByOthers(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, bob, ours)
	if w.Owner("team") == bob {
		t.Fatal("bob owns the group")
	}
	wantClass(t, m.dir("/team").Unlink(t.Context(), "f"), ClassByDesign)
	m.wantContent("/team/f", "one")
	w.EveryWriterRemoves = true
	ok(t, m.dir("/team").Unlink(t.Context(), "f"))
	m.wantNames("/team")
}

// W8: a file takes the name of a later upload, which goes to the trash.
func TestW8OntoALaterUpload(t *testing.T) {
	w := team()
	w.Put("team", alice, "old", []byte("old"))
	w.Put("team", alice, "new", []byte("new"))
	m := mount(t, w, alice, ours)
	h := m.open("/team/new", OpenFlags{Read: true})
	defer h.Release()
	ok(t, m.rename("old", "new"))
	for range 2 {
		m.wantContent("/team/new", "old")
		m.wantNames("/team", "new")
		m.refresh()
	}
	got := make([]byte, 3)
	if _, err := h.ReadAt(t.Context(), got, 0); err != nil || string(got) != "new" {
		t.Errorf("who has it open reads %q, %v", got, err)
	}
}

// W8: across groups mv copies and removes, unless it could not remove in the end.
func TestW8AcrossGroupsWithATrash(t *testing.T) {
	w := team()
	w.Member("other", alice)
	w.Put("team", alice, "f", []byte("one"))
	w.Put("team", bob, "bobs", []byte("two"))
	m := mount(t, w, alice, ours)
	wantClass(t, m.dir("/team").Rename(t.Context(), "f", m.dir("/other"), "f", false), ClassCrossDevice)
	if w.Owner("team") != alice {
		wantClass(t, m.dir("/team").Rename(t.Context(), "bobs", m.dir("/other"), "bobs", false), ClassByDesign)
	}
}

// W9: a wastebasket is of this mount alone; what is moved there goes to the trash of its
// group, a folder with all beneath it.
func TestW9Wastebasket(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	w.Put("team", alice, "d/a", []byte("a"))
	w.Put("team", alice, "d/e/b", []byte("b"))
	w.Put("team", bob, "bobs", []byte("bob's"))
	m := mount(t, w, bob, ours, func(c *Config) { c.AllowMkdir = true })
	alices := mount(t, w, alice, ours)
	for _, m := range []*mounted{m, alices} {
		_, err := m.Root().Mkdir(t.Context(), ".Trash-1000")
		ok(t, err)
		for _, name := range []string{"files", "info"} {
			_, err := m.dir("/.Trash-1000").Mkdir(t.Context(), name)
			ok(t, err)
		}
		ok(t, m.save("/.Trash-1000/info/f.trashinfo", "[Trash Info]"))
	}
	if _, uploads := w.Charged(); uploads > 0 || w.Begun("register") > 0 {
		t.Error("the wastebasket costs")
	}
	wantClass(t, m.dir("/team").Rename(t.Context(), "f", m.dir("/.Trash-1000/files"), "f", false), ClassByDesign)
	ok(t, m.dir("/team").Rename(t.Context(), "bobs", m.dir("/.Trash-1000/files"), "bobs", false))
	alices.names("/team")
	ok(t, alices.dir("/team").Rename(t.Context(), "f", alices.dir("/.Trash-1000/files"), "f", false))
	ok(t, alices.save("/team/d/.new.swp", "x"))
	wantClass(t, alices.dir("/team").Rename(t.Context(), "d", alices.dir("/.Trash-1000/files"), "d", false), ClassByDesign)
	alices.wantContent("/team/d/a", "a")
	ok(t, alices.dir("/team/d").Unlink(t.Context(), ".new.swp"))
	ok(t, alices.dir("/team").Rename(t.Context(), "d", alices.dir("/.Trash-1000/files"), "d", false))
	alices.refresh()
	alices.wantNames("/team")
	alices.wantNames("/team/.svcfs/trash", "bobs", "d", "f")
	alices.wantNames("/.Trash-1000/files")
	ok(t, alices.dir("/.Trash-1000/info").Unlink(t.Context(), "f.trashinfo"))
	alices.refresh()
}

// W9: a wastebasket destroys no key, also where rm does, and no change that is not saved.
func TestW9WastebasketLosesNothing(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	w.Put("team", alice, "d/f", []byte("one"))
	w.Put("team", alice, "changed/f", []byte("one"))
	w.Put("team", alice, "emptied", []byte("one"))
	m := mount(t, w, alice, deletes)
	_, err := m.Root().Mkdir(t.Context(), ".Trash-1000")
	ok(t, err)
	throwAway := func(from *Dir, name string) error {
		return from.Rename(t.Context(), name, m.dir("/.Trash-1000"), name, false)
	}
	h := m.open("/team/changed/f", OpenFlags{Write: true, Truncate: true})
	m.write(h, "two", 0)
	wantClass(t, throwAway(m.dir("/team/changed"), "f"), ClassCrossDevice) // mv copies it, as it is now
	wantClass(t, throwAway(m.dir("/team"), "changed"), ClassByDesign)
	ok(t, h.Flush(t.Context()))
	h.Release()
	m.wantContent("/team/changed/f", "two")
	h = m.open("/team/emptied", OpenFlags{Write: true, Truncate: true})
	ok(t, h.Flush(t.Context())) // it waits to be sent
	wantClass(t, throwAway(m.dir("/team"), "emptied"), ClassCrossDevice)
	m.write(h, "two", 0)
	ok(t, h.Flush(t.Context()))
	h.Release()
	for _, name := range []string{"f", "d", "changed", "emptied"} {
		ok(t, throwAway(m.dir("/team"), name))
	}
	for _, e := range w.Rows("team") {
		if e.Deleted == nil || !e.Deleted.InTrash || w.Content(e.Ref) == nil {
			t.Errorf("%s is %+v", e.Name, e.Deleted)
		}
	}
}

// W9: a file whose save is under way goes to the trash as it was saved, and stays where the save fails.
func TestW9WastebasketWaitsForASave(t *testing.T) {
	for name, class := range map[string]Class{"f": ClassCrossDevice, "": ClassByDesign} { // of the folder, or with it
		synctest.Test(t, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "d/f", []byte("one"))
			m, r := race(t, w)
			ok(t, last(m.Root().Mkdir(t.Context(), ".Trash-1000")))
			thrown := make(chan error)
			throwAway := func() {
				from, name := m.dir("/team/d"), name
				if name == "" {
					from, name = m.dir("/team"), "d"
				}
				go func() { thrown <- from.Rename(t.Context(), name, m.dir("/.Trash-1000"), name, false) }()
				synctest.Wait()
			}
			h := m.open("/team/d/f", OpenFlags{Write: true, Truncate: true})
			defer h.Release()
			m.write(h, "two", 0)
			r.beforeUpload = func() { throwAway(); w.Fail("upload", errInvalid) }
			wantClass(t, h.Flush(t.Context()), ClassInvalid)
			if wantClass(t, <-thrown, class); t.Failed() {
				return
			}
			m.wantContent("/team/d/f", "two")
			w.Fail("upload", nil)
			r.beforeUpload = throwAway
			ok(t, h.Flush(t.Context()))
			ok(t, <-thrown)
			for _, e := range w.Rows("team") {
				if e.Deleted == nil || !e.Deleted.InTrash {
					t.Errorf("%d bytes are not in the trash", e.Size)
				}
			}
		})
	}
}

var errInvalid = &sdk.Error{Op: "upload", Kind: sdk.ErrInvalid}
