package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/names/namestest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const alice, bob sdk.AccountID = "alice.svc.testnet", "bob.svc.testnet"

// team is a world with one group of alice and bob.
func team() *world {
	w := treetest.NewWorld()
	w.Member("team", alice, bob)
	return w
}

func TestN1GroupsAppearAndVanish(t *testing.T) {
	w := team()
	m := mount(t, w, bob)
	m.wantNames("/", "team")
	w.Member("photos", alice, bob)
	m.refresh()
	m.wantNames("/", "photos", "team")
	w.Revoke("photos", bob)
	m.refresh()
	m.wantNames("/", "team")
}

func TestN2NewestUploadOfANameIsShownAndSlashesAreFolders(t *testing.T) {
	w := team()
	w.Put("team", alice, "a.txt", []byte("old"))
	w.Put("team", alice, "docs/deep/b.txt", []byte("b"))
	w.Put("team", alice, "a.txt", []byte("new"))
	gone := w.Put("team", alice, "c.txt", []byte("c"))
	w.Shred("team", gone.Ref)
	m := mount(t, w, bob)
	m.wantNames("/team", "a.txt", "docs")
	m.wantContent("/team/a.txt", "new")
	m.wantContent("/team/docs/deep/b.txt", "b")
}

func TestN3HostileNamesStayInsideAndApart(t *testing.T) {
	for _, tc := range namestest.Table() {
		t.Run(tc.Name, func(t *testing.T) {
			w := team()
			e := w.Put("team", alice, tc.Raw, []byte(namestest.Content))
			w.Edit("team", e.Ref, func(e *sdk.Entry) { e.ContentType = tc.ContentType })
			m := mount(t, w, bob)
			if got := allFiles(t, m.dir("/team"), ""); !slices.Equal(got, []string{tc.Shown}) {
				t.Fatalf("%q is shown as %q, want %q", tc.Raw, got, tc.Shown)
			}
			m.wantContent("/team/"+tc.Shown, namestest.Content)
		})
	}
}

func TestW10ChangesMoveTheCtime(t *testing.T) {
	w := team()
	recorded := w.Put("team", alice, "f", []byte("x")).Time
	m := mount(t, w, alice)
	f := m.node("/team/f").(*File)
	if got := f.Attr().Ctime; !got.Equal(recorded) {
		t.Errorf("before any change the ctime is %v, want %v of the record", got, recorded)
	}
	for _, tc := range []struct {
		what   string
		change func() error
	}{
		{"chmod", func() error { f.SetMode(0o700); return nil }},
		{"times", func() error { f.SetTimes(recorded); return nil }},
		{"rename", func() error { return m.rename("f", "f~") }},
		{"unlink", func() error { return m.dir("/team").Unlink(t.Context(), "f~") }},
	} {
		before := time.Now()
		if err := tc.change(); err != nil {
			t.Errorf("%s: %v", tc.what, err)
		}
		if got := f.Attr().Ctime; got.Before(before) {
			t.Errorf("%s leaves the ctime %v, before %v", tc.what, got, before)
		}
	}
}

func TestN3LongNamesAreNotLookedUp(t *testing.T) {
	m := mount(t, team(), alice)
	_, err := m.lookup("/team/" + strings.Repeat("n", 256))
	wantClass(t, err, ClassNameTooLong)
	_, err = m.lookup("/team/" + strings.Repeat("n", 255))
	wantClass(t, err, ClassNotExist)
}

// Whatever is recorded in whatever order: a mount that sees everything at once shows
// what the commands show, and what any mount shows is found again by it.
func TestN3ShownNamesAreFoundAgain(t *testing.T) {
	component := rapid.SampledFrom([]string{"a", "b", "a\n", "a%0A", "a%250A", "", "%2F", ".", "..", ".svcfs", "a\u202e", names.WithSuffix("a", "a"), strings.Repeat("ü", 200)})
	path := rapid.Custom(func(r *rapid.T) string {
		return strings.Join(rapid.SliceOfN(component, 1, 3).Draw(r, "components"), "/")
	})
	rapid.Check(t, func(r *rapid.T) {
		w := team()
		first := mount(t, w, bob) // sees them one by one
		defer first.Close()
		allFiles(t, first.dir("/team"), "")
		var refs []sdk.Ref
		for i, name := range rapid.SliceOfN(path, 1, 6).Draw(r, "names") {
			refs = append(refs, w.Put("team", alice, name, []byte(fmt.Sprint(i))).Ref)
			first.refresh()
		}
		if rapid.Bool().Draw(r, "one is deleted") {
			w.Shred("team", rapid.SampledFrom(refs).Draw(r, "deleted"))
			first.refresh()
		}
		later := mount(t, w, bob)
		defer later.Close()
		var files []names.File
		for _, e := range w.Rows("team") {
			files = append(files, e.Named())
		}
		list := names.List(files, func(f *names.File) names.File { return *f })
		var shown []string
		for _, name := range list.Names() {
			shown = append(shown, list.Shown(name))
		}
		if got := allFiles(t, later.dir("/team"), ""); !sameSet(got, shown) {
			r.Fatalf("the mount shows %q, the commands %q", got, shown)
		}
		for _, m := range []*mounted{first, later} {
			found := map[string]string{}
			for _, path := range allFiles(t, m.dir("/team"), "") {
				recorded := m.node("/team/" + path).(*File).raw
				if at, ok := list.Newest(list.Resolve(path)); !ok || m == later && files[at].Recorded != recorded {
					r.Fatalf("%q, which shows %q, means %q, %v", path, recorded, list.Resolve(path), ok)
				}
				if other, ok := found[list.Resolve(path)]; ok && m == later {
					r.Fatalf("%q and %q mean the same", path, other)
				}
				found[list.Resolve(path)] = path
			}
		}
	})
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func allFiles(t testing.TB, d *Dir, prefix string) []string {
	t.Helper()
	list, err := d.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range list {
		if strings.ContainsAny(e.Name, "/\x00") || e.Name == "." || e.Name == ".." || e.Name == "" || len(e.Name) > names.MaxBytes {
			t.Errorf("a directory lists the impossible name %q", e.Name)
		}
		if sub, ok := e.Node.(*Dir); ok {
			files = append(files, allFiles(t, sub, prefix+e.Name+"/")...)
		} else {
			files = append(files, prefix+e.Name)
		}
	}
	return files
}

func TestN3CollisionsAndLongNamesGetASuffix(t *testing.T) {
	w := team()
	long := strings.Repeat("ü", 200) + ".txt"
	w.Put("team", alice, "a", []byte("file"))
	w.Put("team", alice, "a/b", []byte("in folder"))
	w.Put("team", alice, "c%0Ad", []byte("typed"))
	w.Put("team", alice, "c\nd", []byte("escaped"))
	w.Put("team", alice, long, []byte("long"))
	w.Member("x/y", alice, bob)
	w.Member("x%2Fy", alice, bob)
	m := mount(t, w, bob)
	files := allFiles(t, m.dir("/team"), "")
	if len(files) != 5 {
		t.Errorf("want five files, got %q", files)
	}
	seen := map[string]bool{}
	for _, f := range files {
		content, err := m.read("/team/" + f)
		if err != nil {
			t.Error(err)
		}
		seen[content] = true
	}
	if len(seen) != 5 {
		t.Errorf("the five files hold %v", seen)
	}
	if got := m.names("/"); len(got) != 3 {
		t.Errorf("root lists %q, want three different groups", got)
	}
}

// N5: a folder is this mount's until a file is uploaded beneath it.
func TestN5FoldersAreLocal(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	team := m.dir("/team")
	if _, err := team.Mkdir(t.Context(), "empty"); err != nil {
		t.Fatal(err)
	}
	if got := mount(t, w, bob).names("/team"); len(got) > 0 {
		t.Errorf("another mount shows %q", got)
	}
	if err := team.Rename(t.Context(), "empty", team, "still empty", false); err != nil {
		t.Error(err)
	}
	if err := team.Rmdir(t.Context(), "still empty"); err != nil {
		t.Error(err)
	}
	m.wantNames("/team")
}

// N5: a file saved in a folder has the folder in its recorded name.
func TestN5FoldersAreRecordedInNames(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	if _, err := m.dir("/team").Mkdir(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	ok(t, m.save("/team/new/f", "x"))
	if got := w.Rows("team")[0].Name; got != "new/f" {
		t.Errorf("recorded as %q", got)
	}
}

// N5: a folder with uploads neither goes nor, without a service that renames, moves.
func TestN5FoldersOfUploadsStay(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/f", []byte("x"))
	m := mount(t, w, alice)
	team := m.dir("/team")
	wantClass(t, team.Rmdir(t.Context(), "d"), ClassNotEmpty)
	wantClass(t, team.Rename(t.Context(), "d", team, "other", false), ClassByDesign)
	m.wantContent("/team/d/f", "x")
}

// N5: mkdir in the root costs, so it is refused, and names what does it.
func TestN5MkdirOfAGroupIsRefused(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	_, err := m.Root().Mkdir(t.Context(), "costly")
	wantClass(t, err, ClassByDesign)
	if !strings.Contains(string(m.errors.Show()), "svcfs group create") {
		t.Error("the refusal does not name svcfs group create")
	}
	if w.Begun("register") > 0 {
		t.Error("the group was registered")
	}
}

// N5: with --allow-mkdir it registers a group.
func TestN5MkdirRegistersAGroupWhereAllowed(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.AllowMkdir = true })
	if _, err := m.Root().Mkdir(t.Context(), "costly"); err != nil {
		t.Error(err)
	}
	if w.Owner("costly") != alice {
		t.Error("mkdir did not register the group")
	}
}

// N5: a wastebasket never becomes a group.
func TestN5WastebasketsAreNoGroups(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.AllowMkdir = true })
	_, err := m.Root().Mkdir(t.Context(), ".Trash-1000")
	wantClass(t, err, ClassByDesign)
	if w.Begun("register") > 0 {
		t.Error("it was registered as a group")
	}
}

func TestR1OnlyOpenRetrieves(t *testing.T) {
	w := team()
	for i := range 50 {
		w.Put("team", alice, fmt.Sprintf("d%d/f", i), []byte("content"))
	}
	m := mount(t, w, bob)
	for _, f := range allFiles(t, m.dir("/team"), "") {
		n := m.node("/team/" + f)
		if a := n.Attr(); a.Size != 7 || a.Mtime.Unix() < 1700000000 {
			t.Errorf("%s has size %d, mtime %v", f, a.Size, a.Mtime)
		}
		_ = n.(*File).Xattrs()
	}
	m.StatFS(m.Root())
	m.wantCharges(0, 0)
	h, err := m.node("/team/d0/f").(*File).Open(t.Context(), OpenFlags{Read: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	m.wantCharges(1, 0)
}

func TestR1ConcurrentOpenersShareOneRetrieval(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("content"))
	m := mount(t, w, bob)
	f := m.node("/team/f").(*File)
	release := w.Stall("retrieve")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if got, err := m.read("/team/f"); err != nil || got != "content" {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
	proctest.Eventually(t, "a retrieval", func() bool { return w.Begun("retrieve") > 0 })
	interrupted, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := f.Open(interrupted, OpenFlags{Read: true})
		left <- err
	}()
	cancel()
	wantClass(t, <-left, ClassInterrupted)
	release()
	all.Wait()
	m.wantCharges(1, 0)
}

func TestR2CorruptIsNeverServedNorCached(t *testing.T) {
	w := team()
	w.Put("team", alice, "bad", []byte("content"))
	w.Put("team", alice, "good", []byte("fine"))
	m := mount(t, w, bob)
	w.Fail("retrieve", &sdk.Error{Op: "retrieve", Kind: sdk.ErrCorrupt, Err: errors.New("the tag does not fit")})
	_, err := m.read("/team/bad")
	wantClass(t, err, ClassCorrupt)
	if text := string(m.errors.Show()); !strings.Contains(text, "/team/bad") || !strings.Contains(text, "corrupt") {
		t.Errorf("no record in errors: %q", text)
	}
	w.Fail("retrieve", nil)
	m.wantContent("/team/good", "fine")
	m.wantContent("/team/bad", "content")
}

func TestR3ReadOnceIsFreeAgainAndOldReadersKeepTheirVersion(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, bob)
	m.wantContent("/team/f", "one")
	m.wantContent("/team/f", "one")
	m.wantCharges(1, 0)
	f := m.node("/team/f").(*File)
	h, err := f.Open(t.Context(), OpenFlags{Read: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	w.Put("team", alice, "f", []byte("second"))
	m.refresh()
	if got, err := readAll(t, h); err != nil || got != "one" {
		t.Errorf("the old reader sees %q, %v", got, err)
	}
	m.wantContent("/team/f", "second")
	newer := m.node("/team/f").(*File)
	if newer.Attr().Ino == f.Attr().Ino || newer.Attr().Gen == f.Attr().Gen {
		t.Error("a version from elsewhere wants an inode number of its own")
	}
}

func TestW1NothingLeavesBeforeClose(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	h := m.create("/team/f")
	defer h.Release()
	write := func(s string, off int64) {
		t.Helper()
		if _, err := h.WriteAt(t.Context(), []byte(s), off); err != nil {
			t.Fatal(err)
		}
	}
	write("hello", 0)
	write("world", 10)
	if got, _ := readAll(t, h); got != "hello\x00\x00\x00\x00\x00world" {
		t.Errorf("read back %q", got)
	}
	ok(t, h.File().Truncate(t.Context(), 4, h))
	write("!", 4)
	m.wantCharges(0, 0)
	ok(t, h.Flush(t.Context()))
	m.wantContent("/team/f", "hell!")
	m.wantCharges(0, 1)
	if got := string(w.Content("ref/1")); got != "hell!" {
		t.Errorf("uploaded %q", got)
	}
}

// W2: a length that is set by name is recorded when the call returns, also while the file
// is read, or just closed; while a program writes to the file, its close saves both.
func TestW2LengthSetByName(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	ok(t, m.save("/team/f", "hello world"))
	f := m.node("/team/f").(*File)
	reader := m.open("/team/f", OpenFlags{Read: true})
	defer reader.Release()
	ok(t, f.Truncate(t.Context(), 5, nil))
	m.wantCharges(0, 2)
	writer := m.open("/team/f", OpenFlags{Write: true})
	m.write(writer, "!", 5)
	ok(t, f.Truncate(t.Context(), 4, nil))
	m.wantCharges(0, 2)
	ok(t, writer.Flush(t.Context()))
	if err := f.Truncate(t.Context(), 3, nil); err != nil { // the kernel may give a closed handle up late
		t.Fatal(err)
	}
	writer.Release()
	m.wantContent("/team/f", "hel")
	m.wantCharges(0, 4)
	w.Fail("upload", &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable})
	for range 2 { // nobody closes the file for it
		wantClass(t, f.Truncate(t.Context(), 2, nil), ClassUnreachable)
	}
}

func TestW2FailedCloseKeepsTheBytes(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	w.Fail("upload", &sdk.Error{Op: "upload", Kind: sdk.ErrInsufficient, Err: errors.New("Insufficient balance")})
	wantClass(t, m.save("/team/f", "precious"), ClassBudget)
	pending := m.Pending()
	if len(pending) != 1 || pending[0].Path != "/team/f" || pending[0].Size != 8 || !strings.Contains(pending[0].Error, "Insufficient") {
		t.Errorf("pending is %+v", pending)
	}
	m.wantContent("/team/f", "precious")
	if left := m.Drain(t.Context()); len(left) != 1 {
		t.Errorf("drain left %+v", left)
	}
	w.Fail("upload", nil)
	if left := m.Drain(t.Context()); len(left) != 0 {
		t.Errorf("drain left %+v", left)
	}
	m.wantCharges(0, 1)
}

func TestW3NothingNewCostsNothing(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	h := m.create("/team/f")
	if _, err := h.WriteAt(t.Context(), []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ok(t, h.Fsync(t.Context()))
		ok(t, h.Flush(t.Context()))
	}
	h.Release()
	m.wantCharges(0, 1)
	ok(t, m.save("/team/f", "x"))
	m.wantCharges(0, 1)
	ok(t, m.save("/team/f", "y"))
	m.wantCharges(0, 2)
}

func TestW4TruncatingOpenDoesNotRetrieve(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("old content"))
	m := mount(t, w, bob)
	f := m.node("/team/f").(*File)
	h, err := f.Open(t.Context(), OpenFlags{Write: true, Truncate: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteAt(t.Context(), []byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	ok(t, h.Flush(t.Context()))
	h.Release()
	m.wantCharges(0, 1)
	other := mount(t, w, alice)
	h, err = other.node("/team/f").(*File).Open(t.Context(), OpenFlags{Write: true, Append: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	if _, err := h.WriteAt(t.Context(), []byte("er"), 3); err != nil {
		t.Fatal(err)
	}
	ok(t, h.Flush(t.Context()))
	m.wantCharges(1, 2)
	other.wantContent("/team/f", "newer")
}

// W4: a handle that can only write retrieves at the first write, not at open.
func TestW4WriteOnlyOpenRetrievesWithTheFirstWrite(t *testing.T) {
	w := team()
	for _, name := range []string{"touched", "written", "cut", "emptied", "deleted"} {
		w.Put("team", alice, name, []byte("old content"))
	}
	m := mount(t, w, bob)
	end := func(h *Handle) {
		t.Helper()
		defer h.Release()
		if err := h.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	end(m.open("/team/touched", OpenFlags{Write: true}))
	m.wantCharges(0, 0)
	h := m.open("/team/written", OpenFlags{Write: true})
	m.write(h, "new", 0)
	m.wantCharges(1, 0)
	end(h)
	m.wantCharges(1, 1)
	m.wantContent("/team/written", "new content")
	h = m.open("/team/cut", OpenFlags{Write: true})
	if err := h.f.Truncate(t.Context(), 3, h); err != nil {
		t.Error(err)
	}
	end(h)
	m.wantCharges(2, 2)
	m.wantContent("/team/cut", "old")
	h = m.open("/team/emptied", OpenFlags{Write: true})
	if err := h.f.Truncate(t.Context(), 0, h); err != nil {
		t.Error(err)
	}
	m.write(h, "x", 0)
	end(h)
	m.wantCharges(2, 3)
	m.wantContent("/team/emptied", "x")
	h = m.open("/team/deleted", OpenFlags{Write: true})
	defer h.Release()
	w.Shred("team", h.f.entry.Load().Ref)
	_, err := h.WriteAt(t.Context(), []byte("x"), 0)
	wantClass(t, err, ClassNotExist)
	m.wantCharges(2, 3)
}

func TestW5EmptyFilesWait(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.EmptyDelay = time.Millisecond })
	h := m.create("/team/f")
	ok(t, h.Flush(t.Context()))
	h.Release()
	proctest.Eventually(t, "the empty file is uploaded", func() bool { return len(m.Pending()) == 0 })
	m.wantCharges(0, 1)
	slow := mount(t, w, alice)
	h = slow.create("/team/g")
	ok(t, h.Flush(t.Context()))
	h.Release()
	ok(t, slow.save("/team/g", "hi"))
	slow.wantCharges(0, 2)
}

// Emptying what is recorded as empty is no save that could wait, and hide what another
// account saves meanwhile.
func TestW5EmptiedEmptyFileDoesNotWait(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", nil)
	m := mount(t, w, alice)
	f := m.node("/team/f").(*File)
	ok(t, f.Truncate(t.Context(), 0, nil))
	if list := m.Pending(); len(list) != 0 {
		t.Errorf("pending: %v", list)
	}
	w.Put("team", bob, "f", []byte("newer"))
	ok(t, m.Refresh(t.Context()))
	m.wantContent("/team/f", "newer")
	m.wantCharges(1, 0)
}

func TestW7SaveByRenameIsOneUpload(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("old"))
	m := mount(t, w, alice)
	dir := m.dir("/team")
	for i, scratch := range []string{".f.AbC123", "sedXy12Zz", "f.tmp", ".goutputstream-1234", "f.part"} {
		content := fmt.Sprintf("new %d", i)
		ok(t, m.save("/team/"+scratch, content))
		m.wantCharges(0, i)
		ok(t, dir.Rename(t.Context(), scratch, dir, "f", false))
		m.wantCharges(0, i+1)
		m.wantContent("/team/f", content)
		m.wantNames("/team", "f")
	}
	m.wantCharges(0, 5)
}

// vim with backupcopy=no: the file becomes the backup, a new one takes its name.
func TestW8BackupByRename(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("old"))
	m := mount(t, w, alice)
	dir := m.dir("/team")
	ok(t, dir.Rename(t.Context(), "f", dir, "f~", false))
	if _, err := m.lookup("/team/f"); err == nil {
		t.Error("the old name is still there")
	}
	ok(t, m.save("/team/f", "new"))
	ok(t, dir.Unlink(t.Context(), "f~"))
	m.wantContent("/team/f", "new")
	m.wantCharges(0, 1)
	t.Run("and back", func(t *testing.T) {
		ok(t, dir.Rename(t.Context(), "f", dir, "f~", false))
		ok(t, dir.Rename(t.Context(), "f~", dir, "f", false))
		m.wantContent("/team/f", "new")
	})
	t.Run("an unlinked backup whose file was not replaced shows again", func(t *testing.T) {
		ok(t, dir.Rename(t.Context(), "f", dir, "f~", false))
		ok(t, dir.Unlink(t.Context(), "f~"))
		m.wantContent("/team/f", "new")
	})
	wantClass(t, dir.Rename(t.Context(), "f", dir, "g", false), ClassByDesign)
}

func TestW9UnlinkOfAnUploadIsRefused(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, alice)
	wantClass(t, m.dir("/team").Unlink(t.Context(), "f"), ClassByDesign)
	m.wantContent("/team/f", "x")
	ok(t, m.save("/team/scratch.tmp", "x"))
	if err := m.dir("/team").Unlink(t.Context(), "scratch.tmp"); err != nil {
		t.Error(err)
	}
	h := m.create("/team/staged")
	if err := m.dir("/team").Unlink(t.Context(), "staged"); err != nil {
		t.Error(err)
	}
	if err := h.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	h.Release()
	m.wantCharges(1, 0)
}

func TestW12LimitsRefuseAtWriteTime(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.MaxFileBytes, c.StagingBytes = 1000, 1500 })
	h := m.create("/team/big")
	defer h.Release()
	_, err := h.WriteAt(t.Context(), make([]byte, 1001), 0)
	wantClass(t, err, ClassTooBig)
	if _, err := h.WriteAt(t.Context(), make([]byte, 1000), 0); err != nil {
		t.Fatal(err)
	}
	second := m.create("/team/second")
	defer second.Release()
	_, err = second.WriteAt(t.Context(), make([]byte, 600), 0)
	wantClass(t, err, ClassNoMemory)
	if _, err := second.WriteAt(t.Context(), make([]byte, 500), 0); err != nil {
		t.Error("what fits was refused:", err)
	}
}

// W12: a write beyond the limit of the service is refused as well, and a file that was
// uploaded under a larger limit can be read.
func TestW12LimitOfTheService(t *testing.T) {
	w := team()
	w.Put("team", alice, "old", make([]byte, 2000))
	m := mount(t, w, alice, func(c *Config) { c.MaxFileBytes, c.MaxUploadBytes = 5000, 1000 })
	h := m.create("/team/big")
	defer h.Release()
	_, err := h.WriteAt(t.Context(), make([]byte, 1001), 0)
	wantClass(t, err, ClassTooBig)
	wantClass(t, h.File().Truncate(t.Context(), 1001, h), ClassTooBig)
	if _, err := h.WriteAt(t.Context(), make([]byte, 1000), 0); err != nil {
		t.Error(err)
	}
	m.wantContent("/team/old", string(make([]byte, 2000)))
	old := m.node("/team/old").(*File)
	writing, err := old.Open(t.Context(), OpenFlags{Read: true, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	defer writing.Release()
	_, err = writing.WriteAt(t.Context(), []byte("x"), 0)
	wantClass(t, err, ClassTooBig)
	if err := old.Truncate(t.Context(), 900, nil); err != nil {
		t.Error("a file that is too large cannot be shortened:", err)
	}
}

func TestErrorsByClass(t *testing.T) {
	for _, tc := range []struct {
		kind sdk.Kind
		want Class
	}{
		{sdk.ErrUnauthenticated, ClassRejected}, {sdk.ErrAudience, ClassRejected}, {sdk.ErrInsufficient, ClassBudget},
		{sdk.ErrUnavailable, ClassUnreachable}, {sdk.ErrTimeout, ClassTimeout}, {sdk.ErrTooLarge, ClassTooBig},
		{sdk.ErrCorrupt, ClassCorrupt}, {sdk.ErrDeleted, ClassNotExist}, {sdk.ErrStorageFull, ClassNoSpace},
		{sdk.ErrCanceled, ClassInterrupted},
	} {
		t.Run(tc.kind.Error(), func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f", []byte("x"))
			m := mount(t, w, bob, advises)
			m.names("/team")
			w.Fail("retrieve", &sdk.Error{Op: "retrieve", Kind: tc.kind, Err: errors.New("scripted")})
			_, err := m.read("/team/f")
			wantClass(t, err, tc.want)
			if text := string(m.errors.Show()); !strings.Contains(text, "\t/team/f\topen\t") || !strings.Contains(text, "About "+tc.kind.Error()) {
				t.Errorf("E1: errors holds %q", text)
			}
		})
	}
}

// W9: what the service deletes later stays a file; its other versions, which are
// deleted now, go on.
func TestW9RemovingInBulkWaits(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	w.Put("team", alice, "f", []byte("two"))
	m := mount(t, w, alice, deletes)
	w.Fail("delete", &sdk.Error{Kind: sdk.ErrPending, Err: errors.New("the deletion waits")})
	err := m.dir("/team").Unlink(t.Context(), "f")
	wantClass(t, err, ClassBusy)
	if n := w.Begun("delete"); n != 2 {
		t.Errorf("%d deletions were asked for, want one for each version", n)
	}
	m.wantContent("/team/f", "two")
	for range 2 {
		m.warnPending(sdk.Event{Kind: sdk.EventPending, Group: "team", Account: bob})
	}
	if n := strings.Count(string(m.errors.Show()), "asked to destroy files of this group"); n != 1 {
		t.Errorf("it is told %d times, want once", n)
	}
}

// W14: where this account is a reader nothing can be changed; reading goes on, and
// other groups are not concerned.
func TestW14ReaderChangesNothing(t *testing.T) {
	w := team()
	w.Member("other", bob)
	mine := w.Put("team", bob, "mine", []byte("from before"))
	w.Put("team", alice, "dir/f", []byte("x"))
	w.Role("team", bob, sdk.RoleReader)
	m := mount(t, w, bob, deletes)
	file, dir := m.node("/team/mine").(*File), m.dir("/team")
	_, _, created := dir.Create(t.Context(), "new", false, OpenFlags{Write: true})
	_, _, scratch := dir.Create(t.Context(), ".new.swp", false, OpenFlags{Write: true})
	_, made := dir.Mkdir(t.Context(), "folder")
	_, written := file.Open(t.Context(), OpenFlags{Write: true})
	_, emptied := file.Open(t.Context(), OpenFlags{Truncate: true})
	for what, err := range map[string]error{
		"create": created, "create scratch": scratch, "mkdir": made, "open to write": written, "open to empty": emptied,
		"truncate": file.Truncate(t.Context(), 0, nil), "unlink": dir.Unlink(t.Context(), "mine"), "rmdir": dir.Rmdir(t.Context(), "dir"),
		"rename": m.rename("/team/mine", "/team/other"), "out": m.rename("/team/mine", "/other/mine"), "attributes": file.Changeable("chmod"),
		"attributes of a folder": dir.Changeable("chmod"),
	} {
		var failed *Error
		if !errors.As(err, &failed) || failed.Class != ClassReadOnly || !strings.Contains(failed.Hint, "--role writer") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !file.Attr().ReadOnly || !dir.Attr().ReadOnly || m.dir("/other").Attr().ReadOnly {
		t.Error("modes do not tell what can be changed")
	}
	m.wantContent("/team/mine", "from before")
	if err := m.save("/other/f", "elsewhere"); err != nil {
		t.Errorf("another group: %v", err)
	}
	if n := w.Begun("rename") + w.Begun("delete"); n != 0 || mine.Name != "mine" {
		t.Errorf("the service was asked %d times for what it refuses", n)
	}
}

// W14: a save begun as a writer is refused as in a read-only mount, and after the first
// refusal so is every change; a new role counts as soon as the mount knows of it.
func TestW14RoleChangesUnderTheMount(t *testing.T) {
	w := team()
	m := mount(t, w, bob)
	h := m.create("/team/begun")
	defer h.Release()
	m.write(h, "text", 0)
	w.Role("team", bob, sdk.RoleReader)
	wantClass(t, h.Flush(t.Context()), ClassReadOnly)
	_, _, err := m.dir("/team").Create(t.Context(), "next", false, OpenFlags{Write: true})
	wantClass(t, err, ClassReadOnly)
	w.Role("team", bob, sdk.RoleWriter)
	ok(t, m.look.Groups.Refresh(t.Context(), 0))
	if err := h.Flush(t.Context()); err != nil {
		t.Errorf("as a writer again: %v", err)
	}
}

// W14: an outbox takes nothing that the service will refuse.
func TestW14ReaderQueuesNothing(t *testing.T) {
	w := team()
	b := mountBoxedAs(t, w, bob, "team")
	h := b.create("/team/begun")
	defer h.Release()
	b.write(h, "text", 0)
	w.Role("team", bob, sdk.RoleReader)
	ok(t, b.look.Groups.Refresh(t.Context(), 0))
	wantClass(t, h.Flush(t.Context()), ClassReadOnly)
	if n := len(b.box.Items()); n != 0 {
		t.Errorf("%d saves wait", n)
	}
	w.Role("team", bob, sdk.RoleWriter)
	ok(t, b.look.Groups.Refresh(t.Context(), 0))
	ok(t, h.Flush(t.Context()))
	waitFor(t, func() bool { return w.Begun("upload") == 1 })
}

// W14: what a reader cannot save is refused once: nothing tries it again by itself, and a new role lets it be saved.
func TestW14SaveOfAReaderIsNotRepeated(t *testing.T) {
	for away, want := range map[bool]int{true: 2, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := team()
			m := mount(t, w, bob)
			h := m.create("/team/begun")
			m.write(h, "text", 0)
			if away {
				w.Fail("upload", errAway)
				wantClass(t, h.Flush(t.Context()), ClassUnreachable)
				w.Fail("upload", nil)
			}
			w.Role("team", bob, sdk.RoleReader)
			ok(t, m.look.Groups.Refresh(t.Context(), 0))
			if !away {
				wantClass(t, h.Flush(t.Context()), ClassReadOnly)
			}
			h.Release()
			for range 2 {
				m.unrecorded.retry(m.life)
				m.open("/team/begun", OpenFlags{Read: true}).Release()
				synctest.Wait()
			}
			f := m.file("/team/begun")
			s, failed, _ := f.unsaved()
			if text := string(m.errors.Show()); strings.Count(text, "\n") != want || m.unrecorded.isAwaiting() ||
				s.State != report.StagedFailed || failed.Class != ClassReadOnly || !f.isHeld() {
				t.Errorf("after an attempt without an answer: %v; it is %s because of %v, and errors holds\n%s", away,
					s.State, failed, text)
			}
			w.Role("team", bob, sdk.RoleWriter)
			ok(t, m.look.Groups.Refresh(t.Context(), 0))
			ok(t, f.commit(t.Context(), commitNow))
			wantNewest(t, w, "begun", "text")
		})
	}
}

func TestERevokedThenGone(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	w.Put("team", alice, "g", []byte("y"))
	m := mount(t, w, bob)
	g := m.node("/team/g").(*File)
	h, err := m.node("/team/f").(*File).Open(t.Context(), OpenFlags{Read: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	w.Revoke("team", bob)
	_, err = g.Open(t.Context(), OpenFlags{Read: true})
	wantClass(t, err, ClassRevoked)
	m.wantNames("/")
	_, err = readAll(t, h)
	wantClass(t, err, ClassRevoked)
}

// E1: a group that the account lost is told of once, also when nobody used it.
func TestE1LostGroupIsTold(t *testing.T) {
	w := team()
	m := mount(t, w, bob)
	m.wantNames("/", "team")
	w.Revoke("team", bob)
	for range 2 {
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.wantNames("/")
	var told []report.Reason
	for _, r := range m.Reasons() {
		if r.Class == ClassRevoked.String() {
			told = append(told, r)
		}
	}
	if len(told) != 1 || told[0].Path != "/team" || told[0].Hint == "" || m.Status().Errors != 1 {
		t.Errorf("told %+v, %d errors", told, m.Status().Errors)
	}
}

// M5: nothing of a group that was lost stays in memory, not even open files.
func TestM5RevocationWipesTheCache(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("secret"))
	w.Put("team", alice, "g", []byte("secret"))
	w.Member("other", bob)
	w.Put("other", bob, "mine", []byte("x"))
	m := mount(t, w, bob)
	m.wantContent("/other/mine", "x")
	stays := m.contents.Cache.Stats().Bytes
	m.wantContent("/team/f", "secret")
	h := m.open("/team/g", OpenFlags{Read: true})
	defer h.Release()
	w.Revoke("team", bob)
	m.refresh()
	if got := m.contents.Cache.Stats().Bytes; got != stays {
		t.Errorf("%d bytes are still in memory, want the %d of the other group", got, stays)
	}
	_, err := readAll(t, h)
	wantClass(t, err, ClassRevoked)
}

// M3: what is still sent when the mount is gone, and what others change meanwhile, needs no kernel.
func TestM3NoKernelIsLeft(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, bob)
	m.wantNames("/team", "f")
	h := m.create("/team/g")
	m.write(h, "x", 0)
	m.SetKernel(nil)
	w.Put("team", alice, "f", []byte("two"))
	m.refresh()
	if left := m.Drain(t.Context()); len(left) > 0 {
		t.Errorf("lost: %+v", left)
	}
	m.wantContent("/team/f", "two")
}

// M3: what programs make while the last uploads are under way is uploaded, too.
func TestM3DrainSeesWhatComesMeanwhile(t *testing.T) {
	w := team()
	m := mount(t, w, bob, ours, func(c *Config) { c.EmptyDelay = time.Hour })
	h := m.create("/team/large")
	defer h.Release()
	m.write(h, "x", 0)
	release := w.Stall("upload")
	left := make(chan []report.Pending)
	go func() { left <- m.Drain(t.Context()) }()
	proctest.Eventually(t, "the upload is under way", func() bool { return w.Hanging() == 1 })
	ok(t, m.save("/team/empty", ""))
	_, err := m.dir("/team").Symlink(t.Context(), "empty", "link")
	ok(t, err)
	release()
	if list := <-left; len(list) > 0 {
		t.Errorf("lost: %+v", list)
	}
}

func TestM5ShreddedWhileOpen(t *testing.T) {
	w := team()
	e := w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, bob)
	h, err := m.node("/team/f").(*File).Open(t.Context(), OpenFlags{Read: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	w.Shred("team", e.Ref)
	m.refresh()
	_, err = readAll(t, h)
	wantClass(t, err, ClassRevoked)
	_, err = m.lookup("/team/f")
	wantClass(t, err, ClassNotExist)
}

func TestR6BudgetEndsInRefusal(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	w.Put("team", alice, "g", []byte("y"))
	price, _ := wire.ParseTokens("0.013")
	m := mount(t, w, bob, func(c *Config) {
		c.Budget, _ = wire.ParseTokens("0.02")
		c.Price = func(string) (sdk.Amount, bool) { return price, true }
	})
	m.wantContent("/team/f", "x")
	_, err := m.read("/team/g")
	wantClass(t, err, ClassBudget)
	m.wantContent("/team/f", "x")
	m.wantCharges(1, 0)
}

// E2: while a retrieval and an upload wait for the service, everything else goes on.
func TestE2SlowServiceDoesNotBlockOtherPaths(t *testing.T) {
	w := team()
	w.Put("team", alice, "slow", []byte("x"))
	w.Put("team", alice, "quick", []byte("y"))
	m := mount(t, w, bob)
	m.wantContent("/team/quick", "y")
	goOn, upload := w.Stall("retrieve"), w.Stall("upload")
	ended := make(chan error)
	go func() {
		_, err := m.read("/team/slow")
		ended <- err
	}()
	go func() { ended <- m.save("/team/new", "z") }()
	proctest.Eventually(t, "both hang", func() bool { return w.Begun("retrieve") > 1 && w.Begun("upload") > 0 })
	m.wantContent("/team/quick", "y")
	m.wantNames("/team", "new", "quick", "slow")
	if err := m.save("/team/scratch.tmp", "z"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Error("one of them did not hang: ", err)
	default:
	}
	goOn()
	upload()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// E2: a request without an answer ends with the time limit.
func TestE2SlowServiceTimesOut(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Hosted)
	client := s.Client(t, s.Account("alice", "10"))
	m := hostedBy(t, client, s.Client(t, s.Account("bob", "10"), func(cfg *sdk.Config) { cfg.Timeout = time.Second }))
	if _, err := client.Group("team").Put(t.Context(), "slow", bytes.NewReader([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	name := m.names("/team")[0]
	hang := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // then the end of the connection ends the context
			<-r.Context().Done()
		})
	}
	for _, op := range []string{wire.OpPrepareRetrieve, wire.OpPrepareUpload} {
		s.Disturb(wire.PathTools+op, hang)
	}
	_, err := m.read("/team/" + name)
	wantClass(t, err, ClassTimeout)
	wantClass(t, m.save("/team/new", "z"), ClassTimeout)
}

// E2: the tree waits for a transfer however long it takes: the client knows whether bytes
// move, and the tree has no time limit of its own.
func TestE2MovingTransfersAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := team()
		w.Put("team", alice, "slow", []byte("x"))
		m := mount(t, w, bob)
		w.Slow("retrieve", 24*time.Hour)
		w.Slow("upload", 24*time.Hour)
		m.wantContent("/team/slow", "x")
		if err := m.save("/team/new", "z"); err != nil {
			t.Error(err)
		}
		m.wantCharges(1, 1)
	})
}

func TestReadOnlyMountRefusesEveryChange(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, alice, func(c *Config) { c.ReadOnly = true })
	dir := m.dir("/team")
	f := m.node("/team/f").(*File)
	_, _, err := dir.Create(t.Context(), "g", false, OpenFlags{Write: true})
	wantClass(t, err, ClassReadOnly)
	_, err = f.Open(t.Context(), OpenFlags{Write: true})
	wantClass(t, err, ClassReadOnly)
	wantClass(t, f.Truncate(t.Context(), 0, nil), ClassReadOnly)
	_, err = dir.Mkdir(t.Context(), "d")
	wantClass(t, err, ClassReadOnly)
	wantClass(t, dir.Unlink(t.Context(), "f"), ClassReadOnly)
	wantClass(t, dir.Rename(t.Context(), "f", dir, "f~", false), ClassReadOnly)
	m.wantContent("/team/f", "x")
}

func TestN4ControlFiles(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.Version = "v1.2.3" })
	if got := m.names("/"); slices.Contains(got, ".svcfs") {
		t.Error("the control directory is listed")
	}
	m.wantContent("/.svcfs/version", "v1.2.3\n")
	for _, name := range m.names("/.svcfs") {
		if _, err := m.read("/.svcfs/" + name); err != nil {
			t.Error(err)
		}
		_, err := m.node("/.svcfs/"+name).(*File).Open(t.Context(), OpenFlags{Write: true})
		wantClass(t, err, ClassByDesign)
	}
	m.wantCharges(0, 0)
}

func TestParallelWritersAndPollers(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.RefreshInterval = time.Millisecond })
	other := mount(t, w, bob, func(c *Config) { c.RefreshInterval = time.Millisecond })
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				p := fmt.Sprintf("/team/d%d/f%d", i%3, n%5)
				_, _ = m.dir("/team").Mkdir(t.Context(), fmt.Sprintf("d%d", i%3))
				if err := m.save(p, fmt.Sprintf("%d-%d", i, n)); err != nil {
					t.Error(err)
				}
				_, _ = other.read(p)
			}
		})
	}
	all.Wait()
	for _, x := range []*mounted{m, other} {
		ok(t, x.Refresh(t.Context()))
	}
	mine, theirs := allFiles(t, m.dir("/team"), ""), allFiles(t, other.dir("/team"), "")
	if !slices.Equal(mine, theirs) {
		t.Errorf("one sees %v, the other %v", mine, theirs)
	}
	for _, f := range mine {
		a, _ := m.read("/team/" + f)
		b, _ := other.read("/team/" + f)
		if a != b {
			t.Errorf("%s: one reads %q, the other %q", f, a, b)
		}
	}
	if left := m.Pending(); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
}

// A new file is open before others see it: one that they write and close at once stays readable
// through the handle that made it.
func TestCreatedFileIsOpenWhenOthersSeeIt(t *testing.T) {
	var seen func() // is called while the file is put into its folder
	m := mount(t, team(), alice, func(c *Config) {
		c.clock = func() time.Time {
			if seen != nil {
				seen()
			}
			return time.Now()
		}
	})
	dir, found := m.dir("/team"), false
	seen = func() {
		if f, ok := dir.find("f").(*File); ok {
			if found = true; f.opens != 1 {
				t.Errorf("others see the file with %d handles, want the one that made it", f.opens)
			}
		}
	}
	_, h, err := dir.createHere("f", OpenFlags{Write: true})
	seen = nil
	ok(t, err)
	if !found {
		t.Error("the clock was not asked while others could see the file")
	}
	h.Release()
}

// A file that was removed before it was saved has no bytes any more: who opens it late, by its inode, is
// told so, and who empties it goes on.
func TestRemovedFileThatWasNotSavedIsStale(t *testing.T) {
	for _, name := range []string{"f", "f.tmp"} {
		m := mount(t, team(), alice)
		h := m.create("/team/" + name)
		f := h.f
		h.Release()
		ok(t, m.dir("/team").Unlink(t.Context(), name))
		_, err := f.Open(t.Context(), OpenFlags{Read: true, Write: true})
		wantClass(t, err, ClassStale)
		late, err := f.Open(t.Context(), OpenFlags{Write: true})
		ok(t, err)
		_, err = late.WriteAt(t.Context(), []byte("x"), 0)
		wantClass(t, err, ClassStale)
		late.Release()
		emptied, err := f.Open(t.Context(), OpenFlags{Write: true, Truncate: true})
		ok(t, err)
		_, err = emptied.WriteAt(t.Context(), []byte("x"), 0)
		ok(t, err)
		emptied.Release()
		m.wantCharges(0, 0)
	}
}

// A file that was opened before a newer upload of its name arrived, and written
// to after, is uploaded all the same: close never says 0 for bytes that are lost.
func TestW11WriterWhoWasOvertakenLosesNothing(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, bob)
	h, err := m.node("/team/f").(*File).Open(t.Context(), OpenFlags{Read: true, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	w.Put("team", alice, "f", []byte("two"))
	m.refresh()
	m.wantContent("/team/f", "two")
	if _, err := h.WriteAt(t.Context(), []byte("!"), 3); err != nil {
		t.Fatal(err)
	}
	if len(m.Pending()) != 1 {
		t.Errorf("pending is %+v", m.Pending())
	}
	ok(t, h.Flush(t.Context()))
	m.wantCharges(2, 1)
	m.wantContent("/team/f", "one!")
	if got := len(w.Rows("team")); got != 3 {
		t.Errorf("%d versions in the ledger, want all three", got)
	}
}

// A4: a renamed file keeps its inode number, and a new file of the old name gets
// another, or mv and cp would say that both are the same file.
func TestA4RenamedFilesShareNoInode(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("old"))
	m := mount(t, w, alice)
	dir := m.dir("/team")
	ok(t, dir.Rename(t.Context(), "f", dir, "f~", false))
	for range 3 {
		ok(t, m.save("/team/f.tmp", "x"))
		if n, err := m.lookup("/team/f"); err == nil && n.Attr().Ino == m.node("/team/f.tmp").Attr().Ino {
			t.Error("the file and the next save of it share an inode number")
		}
		ok(t, dir.Rename(t.Context(), "f.tmp", dir, "f", false))
	}
	if m.node("/team/f").Attr().Ino == m.node("/team/f~").Attr().Ino {
		t.Error("the file and its backup share an inode number")
	}
}

// A folder that is renamed takes its number, and those beneath it, along: what is made under
// the old name has others. Else find takes a folder in a folder for a loop, and cp two
// files for one.
func TestA4RenamedFoldersShareNoInode(t *testing.T) {
	m := mount(t, team(), alice, ours)
	dir, numbers := m.dir("/team"), make(map[uint64]string)
	made := []string{"A/d/f", "B/d/f", "C/d/f"}
	for _, p := range []string{"C", "B", "A"} {
		for _, name := range []string{"A", "A/d"} {
			at, base := path.Split("/team/" + name)
			_, err := m.dir(strings.TrimSuffix(at, "/")).Mkdir(t.Context(), base)
			ok(t, err)
		}
		if p == "C" {
			defer m.create("/team/A/d/f").Release() // the folder moves by itself
		} else {
			ok(t, m.save("/team/A/d/f", "x")) // the service renames it
		}
		if p != "A" {
			ok(t, dir.Rename(t.Context(), "A", dir, p, false))
		}
	}
	for _, p := range made {
		for at := "/team/" + p; at != "/team"; at = path.Dir(at) {
			ino := m.node(at).Attr().Ino
			if other := numbers[ino]; other != "" {
				t.Errorf("%s and %s share an inode number", at, other)
			}
			numbers[ino] = at
		}
	}
}

// BenchmarkFirstListing is what a mount does with the records of 10,000 files that it
// has not seen before.
func BenchmarkFirstListing(b *testing.B) {
	const files = 10_000
	w := team()
	for i := range files {
		w.Put("team", alice, fmt.Sprintf("entry-%06d.txt", i), nil)
	}
	for b.Loop() {
		m := mount(b, w, bob)
		if list := m.names("/team"); len(list) != files {
			b.Fatalf("%d names", len(list))
		}
		_ = m.Close()
	}
}

// A path that the ledger cannot hold is refused where it begins, not when a file is closed.
func TestN3DeepPathsAreRefused(t *testing.T) {
	m := mount(t, team(), alice, ours)
	part, at := strings.Repeat("d", 200), "/team"
	for len(at)+1+len(part)-len("/team/") <= names.MaxPathBytes {
		_, err := m.dir(at).Mkdir(t.Context(), part)
		ok(t, err)
		at += "/" + part
	}
	deep, long := m.dir(at), strings.Repeat("n", 240)
	_, err := deep.Mkdir(t.Context(), long)
	wantClass(t, err, ClassNameTooLong)
	_, _, err = deep.Create(t.Context(), long, false, OpenFlags{Write: true})
	wantClass(t, err, ClassNameTooLong)
	_, err = deep.Symlink(t.Context(), "x", long)
	wantClass(t, err, ClassNameTooLong)
	ok(t, m.save("/team/f", "content"))
	wantClass(t, m.dir("/team").Rename(t.Context(), "f", deep, long, false), ClassNameTooLong)
	ok(t, m.save(at+"/"+strings.Repeat("f", 70), "content")) // 4,090 bytes
	wantClass(t, m.rename(part, part+strings.Repeat("e", 15)), ClassNameTooLong)
	ok(t, m.rename(part, "short"))
}
