package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

func (m *mounted) write(h *Handle, text string, off int64) {
	m.t.Helper()
	if _, err := h.WriteAt(m.t.Context(), []byte(text), off); err != nil {
		m.t.Fatal(err)
	}
}

// replaces makes a file anew in /team and renames it over f, as sed -i does.
func (m *mounted) replaces(text string, caller Caller) {
	m.t.Helper()
	dir := m.dir("/team")
	_, h, err := dir.Create(m.t.Context(), "sedA1b2C3", true, OpenFlags{Write: true, Caller: caller})
	if err != nil {
		m.t.Fatal(err)
	}
	m.write(h, text, 0)
	if err := h.Flush(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	h.Release()
	if err := dir.Rename(m.t.Context(), "sedA1b2C3", dir, "f", false); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mounted) open(p string, flags OpenFlags) *Handle {
	m.t.Helper()
	h, err := m.node(p).(*File).Open(m.t.Context(), flags)
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

func (m *mounted) rename(from, to string) error {
	m.t.Helper()
	return m.dir("/team").Rename(m.t.Context(), from, m.dir("/team"), to, false)
}

// wantOpen reads through a handle.
func wantOpen(t *testing.T, h *Handle, want string) {
	t.Helper()
	if got, err := readAll(t, h); err != nil || got != want {
		t.Errorf("the open file holds %q, %v; want %q", got, err, want)
	}
}

// An unlinked or replaced file lives until it is closed, and its memory is given
// back then.
func TestW9UnlinkedFilesLiveUntilTheyAreClosed(t *testing.T) {
	for name, remove := range map[string]func(m *mounted) error{
		"unlinked": func(m *mounted) error { return m.dir("/team").Unlink(m.t.Context(), "x.tmp") },
		"replaced": func(m *mounted) error {
			if err := m.save("/team/y.tmp", "other"); err != nil {
				return err
			}
			return m.rename("y.tmp", "x.tmp")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mount(t, team(), alice)
			h := m.create("/team/x.tmp")
			m.write(h, "hello world", 0)
			ok(t, remove(m))
			wantOpen(t, h, "hello world")
			m.write(h, "!", 11)
			wantOpen(t, h, "hello world!")
			if err := h.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			h.Release()
			if name == "replaced" {
				if err := m.dir("/team").Unlink(t.Context(), "x.tmp"); err != nil {
					t.Error(err)
				}
			}
			if n := m.contents.Staging.Memory(); n != 0 || len(m.unrecorded.staged.all()) != 0 {
				t.Errorf("%d bytes and %d files stay staged", n, len(m.unrecorded.staged.all()))
			}
			m.wantCharges(0, 0)
		})
	}
}

// A name shows nothing older than the ledger's newest version, and loses no save: a save
// that equals an overtaken version is a new version.
func TestW11UnchangedSaveAfterAnotherUploadIsAVersion(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, bob)
	h := m.open("/team/f", OpenFlags{Read: true, Write: true})
	m.write(h, "one", 0)
	w.Put("team", alice, "f", []byte("two"))
	m.refresh()
	ok(t, h.Flush(t.Context()))
	h.Release()
	m.refresh()
	m.wantContent("/team/f", "one")
	if got := len(w.Rows("team")); got != 3 {
		t.Errorf("%d versions, want 3", got)
	}
}

// W3: a save by rename that changes nothing is not bought.
func TestW3UnchangedSaveByRenameIsFree(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("same"))
	m := mount(t, w, bob)
	ok(t, m.save("/team/f.tmp", "same"))
	ok(t, m.rename("f.tmp", "f"))
	m.wantContent("/team/f", "same")
	m.wantCharges(0, 0)
	m.wantNames("/team", "f")
}

// W8: a rename waits for an upload under way, and then the file has its name.
func TestW8RenameDuringUploadIsRefused(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	h := m.create("/team/a")
	m.write(h, "data", 0)
	release := w.Stall("upload")
	flushed, renamed := make(chan error, 1), make(chan error, 1)
	go func() { flushed <- h.Flush(t.Context()) }()
	proctest.Eventually(t, "upload is called", func() bool { return w.Begun("upload") > 0 })
	go func() { renamed <- m.rename("a", "b") }()
	release()
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	wantClass(t, <-renamed, ClassByDesign)
	h.Release()
	m.wantNames("/team", "a")
	m.wantContent("/team/a", "data")
	m.wantCharges(0, 1)
}

// W9: an unlink waits for an upload under way, and then it is too late.
func TestW9UnlinkDuringUploadIsRefused(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	h := m.create("/team/a")
	m.write(h, "data", 0)
	release := w.Stall("upload")
	flushed, gone := make(chan error, 1), make(chan error, 1)
	go func() { flushed <- h.Flush(t.Context()) }()
	proctest.Eventually(t, "upload is called", func() bool { return w.Begun("upload") > 0 })
	go func() { gone <- m.dir("/team").Unlink(t.Context(), "a") }()
	release()
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	wantClass(t, <-gone, ClassByDesign)
	h.Release()
	m.wantContent("/team/a", "data")
}

// W9: an unlink that waits for a save which meets one of others removes what has the name then, and not the save.
func TestW9UnlinkBehindAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := team()
		w.Put("team", alice, "f", []byte("one"))
		m, r := race(t, w)
		h := m.open("/team/f", OpenFlags{Write: true, Truncate: true})
		m.write(h, "mine", 0)
		gone := make(chan error)
		r.beforeUpload = func() {
			go func() { gone <- m.dir("/team").Unlink(t.Context(), "f") }()
			synctest.Wait()
			w.Put("team", alice, "f", []byte("theirs"))
		}
		ok(t, h.Flush(t.Context()))
		h.Release()
		ok(t, <-gone)
		for range 2 {
			list := m.names("/team")
			if len(list) != 1 || !strings.HasPrefix(list[0], "f (conflict ") {
				t.Fatalf("there is %q", list)
			}
			m.wantContent("/team/"+list[0], "mine")
			m.refresh()
		}
	})
}

// A file is asked for its attributes while it goes to another group: the race detector tells.
func TestAttributesOfAFileThatMoves(t *testing.T) {
	w := team()
	w.Member("other", alice)
	m := mount(t, w, alice)
	ok(t, m.save("/team/x.tmp", "x"))
	f := m.file("/team/x.tmp")
	var asks sync.WaitGroup
	asks.Go(func() {
		for range 100 {
			f.OwnXattrs()
		}
	})
	for range 20 {
		ok(t, m.dir("/team").Rename(t.Context(), "x.tmp", m.dir("/other"), "x.tmp", false))
		ok(t, m.dir("/other").Rename(t.Context(), "x.tmp", m.dir("/team"), "x.tmp", false))
	}
	asks.Wait()
}

// The first reads through a handle, of a file whose size is not known, come together: the race detector tells.
func TestFirstReadsComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := team()
		e := w.Put("team", alice, "f", []byte("content"))
		w.Edit("team", e.Ref, func(e *sdk.Entry) { e.Size = sdk.SizeUnknown })
		m := mount(t, w, bob)
		h := m.open("/team/f", OpenFlags{Read: true, Caller: Caller{PID: 1, Name: func() string { return "pcmanfm" },
			Thread: func() string { return "pool-pcmanfm" }}})
		defer h.Release()
		h.File().AttributesAsked(1) // it copies the file
		goOn, begin := w.Stall("retrieve"), make(chan struct{})
		var reads sync.WaitGroup
		for range 16 {
			reads.Go(func() {
				<-begin
				if _, err := h.ReadAt(t.Context(), make([]byte, 128<<10), 0); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(begin)
		synctest.Wait()
		goOn()
		reads.Wait()
		if !h.IsDirect() {
			t.Error("the kernel would read as much as it believes there is")
		}
	})
}

// watcher is a Kernel that notes which file a name shows when it is notified of a change.
type watcher struct {
	m    *mounted
	seen []string
	told []Change
}

func (k *watcher) EntryChanged(d *Dir, name string) {
	if f, ok := d.child(name).(*File); ok {
		k.seen = append(k.seen, fmt.Sprintf("%s %d", name, f.Attr().Size))
	}
}
func (k *watcher) ContentChanged(*File)           {}
func (k *watcher) ContentGone(func(*File) bool)   {}
func (k *watcher) Settle(context.Context)         {}
func (k *watcher) AttributesChanged(*Dir, string) {}
func (k *watcher) OwnerChanged(*Dir)              {}
func (k *watcher) ChangedByOthers(list []Change)  { k.told = append(k.told, list...) }

// W7: a save by rename never shows the old version again, and open handles have the file
// that the name shows.
func TestW7SaveByRenameKeepsTheOpenFile(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("old content"))
	m := mount(t, w, alice)
	m.names("/team")
	h := m.create("/team/f.tmp")
	m.write(h, "new", 0)
	kernel := &watcher{m: m}
	m.SetKernel(kernel)
	ok(t, m.rename("f.tmp", "f"))
	if n := m.node("/team/f"); n != Node(h.File()) || n.Attr().Nlink != 1 {
		t.Errorf("the name shows another file than the one that was renamed: %+v", n.Attr())
	}
	for _, s := range kernel.seen {
		if s == "f 11" {
			t.Error("the kernel was told to look while the old version showed")
		}
	}
	m.write(h, "er", 3)
	ok(t, h.Flush(t.Context()))
	h.Release()
	m.wantContent("/team/f", "newer")
	m.wantCharges(0, 2)
}

// W8: a backup that is renamed back over a later save is a version again.
func TestW8RestoredBackupIsTheNewVersion(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("good"))
	m := mount(t, w, alice)
	ok(t, m.rename("f", "f~"))
	ok(t, m.save("/team/f", "bad"))
	ok(t, m.rename("f~", "f"))
	m.wantContent("/team/f", "good")
	m.wantCharges(1, 2)
	m.wantNames("/team", "f")
}

// A1: a retrieval that ends after a truncating open does not set the old size.
func TestA1SizeOfATruncatedFileIsItsOwn(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("a long old content"))
	m := mount(t, w, alice)
	f := m.node("/team/f").(*File)
	release := w.Stall("retrieve")
	opened := make(chan *Handle, 1)
	go func() {
		h, err := f.Open(context.WithoutCancel(t.Context()), OpenFlags{Read: true})
		if err != nil {
			t.Error(err)
		}
		opened <- h
	}()
	proctest.Eventually(t, "retrieve is called", func() bool { return w.Begun("retrieve") > 0 })
	h := m.open("/team/f", OpenFlags{Write: true, Truncate: true})
	m.write(h, "hi", 0)
	release()
	r := <-opened
	wantOpen(t, r, "hi")
	if got := f.Attr().Size; got != 2 {
		t.Errorf("stat shows %d bytes, want 2", got)
	}
	r.Release()
	h.Release()
}

// M5: what an upload under way leaves behind when the group is lost cannot be read.
func TestM5RevokedDuringUpload(t *testing.T) {
	w := team()
	m := mount(t, w, bob)
	h := m.create("/team/a")
	m.write(h, "data", 0)
	release := w.Stall("upload")
	done := make(chan error, 1)
	go func() { done <- h.Flush(t.Context()) }()
	proctest.Eventually(t, "upload is called", func() bool { return w.Begun("upload") > 0 })
	m.applyGroups(nil, nil, nil)
	release()
	if err := <-done; err != nil {
		t.Error("the upload was recorded: ", err)
	}
	_, err := readAll(t, h)
	wantClass(t, err, ClassRevoked)
	h.Release()
	if n := m.contents.Cache.Stats().Bytes; n != 0 {
		t.Errorf("%d bytes stay cached", n)
	}
}

// R6: charges under way count, so that parallel openers do not overspend.
func TestR6ParallelOpenersStayWithinTheBudget(t *testing.T) {
	w := team()
	const files = 8
	for i := range files {
		w.Put("team", alice, fmt.Sprint(i), []byte{byte(i)})
	}
	one, _ := wire.ParseAmount("1000")
	m := mount(t, w, alice, func(c *Config) {
		c.Budget = one
		c.Price = func(string) (sdk.Amount, bool) { return one, true }
	})
	m.names("/team")
	release := w.Stall("retrieve")
	done := make(chan error, files)
	for i := range files {
		f := m.node(fmt.Sprintf("/team/%d", i)).(*File)
		go func() {
			h, err := f.Open(context.WithoutCancel(t.Context()), OpenFlags{Read: true})
			if h != nil {
				h.Release()
			}
			done <- err
		}()
	}
	proctest.Eventually(t, "retrieve is called", func() bool { return w.Begun("retrieve") > 0 })
	for range files - 1 {
		wantClass(t, <-done, ClassBudget)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	m.wantCharges(1, 0)
}

// R6: a refused or failed charge gives its reservation back, and the budget of an hour is
// a limit of its own.
func TestR6FailedChargesAreGivenBack(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	w.Put("team", alice, "g", []byte("y"))
	one, _ := wire.ParseAmount("1000")
	m := mount(t, w, alice, func(c *Config) {
		c.BudgetPerHour = one
		c.Price = func(string) (sdk.Amount, bool) { return one, true }
	})
	w.Fail("retrieve", &sdk.Error{Op: "retrieve", Kind: sdk.ErrUnavailable})
	_, err := m.read("/team/f")
	wantClass(t, err, ClassUnreachable)
	w.Fail("retrieve", nil)
	m.wantContent("/team/f", "x")
	_, err = m.read("/team/g")
	wantClass(t, err, ClassBudget)
	if text := string(m.errors.Show()); !strings.Contains(text, "this hour") {
		t.Errorf("errors does not name the hour: %q", text)
	}
}

// R5: programs that look at everything for a preview or an index do not spend.
func TestR5CrawlersAreRefusedUncachedContent(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, bob)
	f := m.node("/team/f").(*File)
	named := func(name string) OpenFlags {
		return OpenFlags{Read: true, Caller: Caller{PID: 1, Name: func() string { return name }}}
	}
	for _, name := range []string{"tumblerd", "tracker-miner-f", "tracker-extract", "localsearch-3", "localsearch-ext", "baloo_file",
		"baloo_file_extr", "updatedb", "updatedb.plocat", "evince-thumbnai", "totem-video-thu", "gdk-pixbuf-thum", "ffmpegthumbnail", "recollindex"} {
		_, err := f.Open(t.Context(), named(name))
		wantClass(t, err, ClassAccess)
	}
	m.wantCharges(0, 0)
	if got := m.Status().Crawlers; got != 14 {
		t.Errorf("status counts %d refusals", got)
	}
	h, err := f.Open(t.Context(), named("cat"))
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	h, err = f.Open(t.Context(), named("tumblerd")) // cached: free
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	w.Put("team", alice, "g", []byte("y"))
	allowed := mount(t, w, bob, func(c *Config) { c.AllowCrawlers = true })
	h, err = allowed.node("/team/g").(*File).Open(t.Context(), named("updatedb"))
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
}

// R4, R5: a file manager that lists a folder looks into files for nothing, and
// copies them for a charge like anybody.
func TestR4FileManagersPeekForNothing(t *testing.T) {
	w := team()
	content := bytes.Repeat([]byte("x"), 100_000)
	w.Put("team", alice, "f", content)
	m := mount(t, w, bob)
	f := m.node("/team/f").(*File)
	open := func(thread string) *Handle {
		t.Helper()
		h, err := f.Open(t.Context(), OpenFlags{Read: true, Caller: Caller{PID: 1, Name: func() string { return "pcmanfm" },
			Thread: func() string { return thread }}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Release)
		if !h.IsDirect() {
			t.Error("the kernel would read more than was asked for")
		}
		return h
	}
	_, err := f.Open(t.Context(), OpenFlags{Read: true, NoAtime: true, Caller: Caller{PID: 1, Name: func() string { return "nautilus" }}})
	wantClass(t, err, ClassAccess)
	buf := make([]byte, 64<<10)
	lists, previews, copies := open("pool-pcmanfm"), open("loader"), open("pool-pcmanfm")
	_, err = lists.ReadAt(t.Context(), buf[:4096], 0)
	wantClass(t, err, ClassAccess)
	_, err = previews.ReadAt(t.Context(), buf, 0)
	wantClass(t, err, ClassAccess)
	for _, name := range []string{"nautilus", "Thunar", "gio"} { // O_NOATIME is for owners
		look, err := f.Open(t.Context(), OpenFlags{Read: true, Caller: Caller{PID: 2, Name: func() string { return name }}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = look.ReadAt(t.Context(), buf[:4096], 0)
		wantClass(t, err, ClassAccess)
		look.Release()
	}
	m.wantCharges(0, 0)
	if got := m.Status().Crawlers; got != 6 {
		t.Errorf("status counts %d refusals", got)
	}
	if n, err := copies.ReadAt(t.Context(), buf, 0); err != nil || n != len(buf) {
		t.Errorf("copying reads %d bytes, %v", n, err)
	}
	for _, h := range []*Handle{lists, previews} {
		if n, err := h.ReadAt(t.Context(), buf[:4096], 0); err != nil || n != 4096 {
			t.Errorf("from memory: %d bytes, %v", n, err)
		}
	}
	m.wantCharges(1, 0)
}

// R4, R5: the file manager whose look reads all of a small file copies it too: it
// asks for the attributes that go along first, which it does not to list a folder.
func TestR4FileManagersCopySmallFiles(t *testing.T) {
	w := team()
	w.Put("team", alice, "small", bytes.Repeat([]byte("x"), 4<<10))
	w.Put("team", alice, "other", []byte("y"))
	m := mount(t, w, bob)
	f, other := m.node("/team/small").(*File), m.node("/team/other").(*File)
	open := func(f *File, thread uint32) *Handle {
		t.Helper()
		h, err := f.Open(t.Context(), OpenFlags{Read: true, Caller: Caller{PID: thread, Name: func() string { return "pcmanfm" },
			Thread: func() string { return "pool-pcmanfm" }}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Release)
		return h
	}
	buf := make([]byte, 4<<10)
	f.AttributesAsked(7) // by an earlier copy that this thread made
	lists, of := open(f, 7), open(other, 7)
	other.AttributesAsked(8)
	for _, h := range []*Handle{lists, of} {
		_, err := h.ReadAt(t.Context(), buf, 0)
		wantClass(t, err, ClassAccess)
	}
	m.wantCharges(0, 0)
	copies := open(f, 7)
	f.AttributesAsked(7)
	if n, err := copies.ReadAt(t.Context(), buf, 0); err != nil || n != len(buf) {
		t.Errorf("copying reads %d bytes, %v", n, err)
	}
	m.wantCharges(1, 0)
}

// R4, R5: programs that look at a file to list its folder differ from programs that copy
// or show it by the calling thread, by the flags of open, and by loaded libraries.
func TestR4WhoLooksForAFolder(t *testing.T) {
	for _, tc := range []struct {
		what, name, thread, loaded string
		noAtime, looks             bool
	}{
		{"Nautilus looks", "nautilus", "pool-org.gnome.", "/libgio-2.0.so", true, true},
		{"Nautilus copies", "nautilus", "pool-org.gnome.", "/libgio-2.0.so", false, false},
		{"a file dialog of GTK looks", "gimp", "pool-gimp", "/libgio-2.0.so", true, true},
		{"a backup", "borg", "borg", "", true, false},
		{"Dolphin looks", "dolphin", "dolphin", "/libKF5KIOCore.so", false, true},
		{"Dolphin copies", "dolphin", "KIO::WorkerThre", "/libKF5KIOCore.so", false, false},
		{"KDE 5 copies in a process of its own", "kioslave5", "kioslave5", "/kf5/kio/file.so", false, false},
		{"KDE 5 makes previews", "kioslave5", "kioslave5", "/kf5/kio/thumbnail.so", false, true},
		{"KDE 6 makes previews", "kioworker", "Thread (pooled)", "/kf6/kio/thumbnail.so", false, true},
		{"an editor of KDE", "kate", "kate", "/libKF5KIOCore.so", false, false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f", []byte("x"))
			m := mount(t, w, bob)
			h, err := m.node("/team/f").(*File).Open(t.Context(), OpenFlags{Read: true, NoAtime: tc.noAtime, Caller: Caller{PID: 1,
				Name: func() string { return tc.name }, Thread: func() string { return tc.thread },
				Loaded: func(library string) bool { return strings.Contains(tc.loaded, library) }}})
			if tc.looks {
				wantClass(t, err, ClassAccess)
				m.wantCharges(0, 0)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			if n, err := h.ReadAt(t.Context(), make([]byte, 64<<10), 0); n != 1 || err != nil {
				t.Errorf("reading: %d bytes, %v", n, err)
			}
			m.wantCharges(1, 0)
		})
	}
}

// R5: the calling program is looked up only when a charge depends on it.
func TestR5CallersAreNamedLazily(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, bob)
	m.wantContent("/team/f", "x")
	h, err := m.node("/team/f").(*File).Open(t.Context(), OpenFlags{Read: true, Caller: Caller{Name: func() string {
		t.Error("the caller's name was asked for")
		return ""
	}}})
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
}

// W5: thousands of empty files that wait for their moment together are uploaded a
// few at a time: all at once, most would only use up their time waiting.
func TestW5EmptyFilesGoAFewAtATime(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.EmptyDelay = time.Millisecond })
	release := w.Stall("upload")
	defer release()
	const files = 200
	for i := range files {
		ok(t, m.save(fmt.Sprintf("/team/f%d", i), ""))
	}
	proctest.Eventually(t, "some are being uploaded", func() bool { return w.Begun("upload") >= delayedUploads })
	waiting := 0
	for i := range files {
		if m.node(fmt.Sprintf("/team/f%d", i)).(*File).now.Is(content.Waiting) {
			waiting++
		}
	}
	if waiting != files-delayedUploads {
		t.Errorf("%d of %d wait for the others, want all but %d", waiting, files, delayedUploads)
	}
	release()
	proctest.Eventually(t, "all are recorded", func() bool { _, uploads := w.Charged(); return uploads == files })
}

// W5: fsync of a directory records the empty files that wait in it.
func TestW5FsyncOfADirectoryRecordsEmptyFiles(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	for _, name := range []string{"a", "b", "c.tmp"} {
		ok(t, m.save("/team/"+name, ""))
	}
	m.wantCharges(0, 0)
	ok(t, m.dir("/team").Fsync(t.Context()))
	m.wantCharges(0, 2)
	w.Fail("upload", &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable})
	ok(t, m.save("/team/d", ""))
	for range 2 {
		wantClass(t, m.dir("/team").Fsync(t.Context()), ClassUnreachable)
	}
	w.Fail("upload", nil)
	ok(t, m.dir("/team").Fsync(t.Context()))
	m.wantCharges(0, 3)
}

// W10: every mode can be set, also none.
func TestW10ModeZeroIsAMode(t *testing.T) {
	m := mount(t, team(), alice)
	ok(t, m.save("/team/f.tmp", "x"))
	f := m.node("/team/f.tmp").(*File)
	if a := f.Attr(); a.HasMode {
		t.Errorf("a new file has the mode %o", a.Mode)
	}
	f.SetMode(0)
	if a := f.Attr(); !a.HasMode || a.Mode != 0 {
		t.Errorf("after chmod 000: %+v", a)
	}
	ok(t, m.rename("f.tmp", "f"))
	if a := m.node("/team/f").Attr(); !a.HasMode || a.Mode != 0 {
		t.Errorf("after the rename: %+v", a)
	}
}

// W11: the second of two writers gets a line in errors, in whichever order the records
// arrive.
func TestW11SecondWriterIsTold(t *testing.T) {
	for name, late := range map[string]bool{"the other upload is known": false, "it is learned later": true} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f", []byte("one"))
			m := mount(t, w, bob)
			h := m.open("/team/f", OpenFlags{Read: true, Write: true})
			m.write(h, "mine", 0)
			w.Put("team", alice, "f", []byte("theirs"))
			if !late {
				m.refresh()
			}
			ok(t, h.Flush(t.Context()))
			h.Release()
			for range 2 {
				m.refresh()
			}
			text := string(m.errors.Show())
			if strings.Count(text, "\tconflict\t") != 1 || !strings.Contains(text, "\t/team/f\tclose\t") || !strings.Contains(text, string(alice)) {
				t.Errorf("errors holds %q", text)
			}
			m.wantContent("/team/f", "mine")
			ok(t, m.save("/team/f", "and on"))
			if n := strings.Count(string(m.errors.Show()), "\tconflict\t"); n != 1 {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// W11: where the service compares versions, a save that others overtook is recorded under a name of its own, and who has
// the file open goes on with it there.
func TestW11OvertakenSaveHasANameOfItsOwn(t *testing.T) {
	for name, save := range map[string]func(m *mounted, h *Handle) error{
		"in place": func(m *mounted, h *Handle) error { m.write(h, "mine", 0); return h.Flush(t.Context()) },
		"replaced": func(m *mounted, h *Handle) error { m.replaces("mine", Caller{PID: 7}); return nil },
	} {
		for learns, late := range map[string]bool{"known": false, "not known": true} {
			t.Run(name+", the other save is "+learns, func(t *testing.T) {
				w := team()
				base := w.Put("team", alice, "f", []byte("base"))
				m := mount(t, w, bob, ours, still)
				h := m.open("/team/f", OpenFlags{Read: true, Write: true, Caller: Caller{PID: 7}})
				w.Put("team", alice, "f", []byte("theirs before"))
				w.Put("team", alice, "f", []byte("theirs"))
				if !late {
					m.refresh()
				}
				ok(t, save(m, h))
				aside := outbox.ConflictName("f", bob, time.Unix(1_700_000_000, 0), 0)
				if list := m.names("/team"); len(list) != 2 || list[1] != aside {
					t.Fatalf("the group lists %q", list)
				}
				m.wantContent("/team/f", "theirs")
				m.wantContent("/team/"+aside, "mine")
				wantUpon(t, w, "team", aside, base.Ref)
				if text := string(m.errors.Show()); strings.Count(text, "\tconflict\t") != 1 || !strings.Contains(text, aside) {
					t.Errorf("errors holds %q", text)
				}
				if name == "in place" {
					m.write(h, "mine, and on", 0)
					ok(t, h.Flush(t.Context()))
					m.wantContent("/team/"+aside, "mine, and on")
				}
				h.Release()
				m.refresh()
				m.wantContent("/team/f", "theirs")
				w.Put("team", alice, "f", []byte("theirs, and on"))
				m.refresh()
				m.wantContent("/team/f", "theirs, and on")
				if n := len(m.names("/team")); n != 2 {
					t.Errorf("%d names", n)
				}
			})
		}
	}
}

// W11: what others saved and removed again is in nobody's way.
func TestW11SaveAfterTheOthersRemoved(t *testing.T) {
	w := team()
	w.Put("team", bob, "f", []byte("base"))
	m := mount(t, w, bob, ours)
	h := m.open("/team/f", OpenFlags{Read: true, Write: true})
	defer h.Release()
	ok(t, last(w.As(alice).RemoveVersions(t.Context(), "team", w.Named("team", "f"))))
	m.write(h, "mine", 0)
	ok(t, h.Flush(t.Context()))
	m.wantContent("/team/f", "mine")
	if text := string(m.errors.Show()); text != "" {
		t.Errorf("errors holds %q", text)
	}
}

// W11: a large file that others overtook is sent as a whole under its own name.
func TestW11OvertakenLargeSave(t *testing.T) {
	w, _, data := largeWorld(10 * block)
	m := mount(t, w, "bob", ours, still)
	h := m.open("/g/film", OpenFlags{Read: true, Write: true})
	defer h.Release()
	w.Put("g", "bob", "film", noise(10*block))
	copy(data[3*block:], "mine")
	ok(t, put(t, h, []byte("mine"), 3*block))
	flush(t, h)
	aside := outbox.ConflictName("film", "bob", time.Unix(1_700_000_000, 0), 0)
	if list := m.names("/g"); !slices.Contains(list, aside) {
		t.Fatalf("the group lists %q", list)
	}
	wantRead(t, m.open("/g/"+aside, OpenFlags{Read: true}), data, 0, len(data))
	wantUpon(t, w, "g", aside, w.Named("g", "film")[0].Ref)
}

// W11: one of any size whose answer was lost is repeated under the name that it got, and not recorded twice.
func TestW11OvertakenSaveWhoseAnswerWasLost(t *testing.T) {
	for _, n := range []int{10, 10 * block} {
		w, _, data := largeWorld(n)
		var c clock
		m := mount(t, w, "bob", ours, c.use)
		h := m.open("/g/film", OpenFlags{Read: true, Write: true, Truncate: true})
		copy(data, "mine")
		ok(t, put(t, h, data, 0))
		w.Put("g", "alice", "film", noise(n))
		w.Fail("uploaded", errAway)
		wantClass(t, h.Flush(t.Context()), ClassUnreachable)
		w.Fail("uploaded", nil)
		aside := outbox.ConflictName("film", "bob", m.now(), 0)
		c.ns.Add(int64(time.Minute))
		flush(t, h)
		h.Release()
		if list := m.names("/g"); len(list) != 2 || !slices.Contains(list, aside) {
			t.Errorf("%d bytes: the group lists %q", n, list)
		}
		m.wantCharges(0, 1)
		wantRead(t, m.open("/g/"+aside, OpenFlags{Read: true}), data, 0, len(data))
		if n > block {
			continue // what another account says of a file in blocks is no proof (W3)
		}
		h = m.open("/g/film", OpenFlags{Write: true, Truncate: true})
		ok(t, put(t, h, noise(n), 0)) // what it has: nothing of this name waits for an answer
		flush(t, h)
		h.Release()
		m.wantCharges(0, 1)
	}
}

// wantUpon demands that the first record of a name says which version it was made upon.
func wantUpon(t *testing.T, w *world, g sdk.GroupID, name string, want sdk.Ref) {
	t.Helper()
	if upon := w.Named(g, name)[0].Upon; upon == nil || *upon != want {
		t.Errorf("%s is made upon %v, want %q", name, upon, want)
	}
}

// W11: the later save of a file that both made says that it was made upon no version.
func TestW11OvertakenSaveOfANewFile(t *testing.T) {
	w := team()
	m := mount(t, w, bob, ours, still)
	_, h, err := m.dir("/team").Create(t.Context(), "new", true, OpenFlags{Write: true})
	ok(t, err)
	defer h.Release()
	m.write(h, "mine", 0)
	w.Put("team", alice, "new", []byte("theirs before"))
	w.Put("team", alice, "new", []byte("theirs"))
	ok(t, h.Flush(t.Context()))
	wantUpon(t, w, "team", outbox.ConflictName("new", bob, time.Unix(1_700_000_000, 0), 0), "")
}

// A program that read a file and replaces it by a rename, as sed -i and editors do, replaces the version that
// was there when it began the new file: what others saved meanwhile is told, however soon the mount learns of it.
func TestW11ReplacedByRename(t *testing.T) {
	for name, learns := range map[string]string{"before the rename": "before", "after the rename": "after", "after the read": "read", "before the read": "never unknown"} {
		for made, becomes := range map[string]func(m *mounted) error{
			"renamed": func(m *mounted) error {
				return m.dir("/team").Rename(t.Context(), "sedA1b2C3", m.dir("/team"), "f", false)
			},
			"removed and renamed": func(m *mounted) error {
				dir := m.dir("/team")
				return errors.Join(dir.Rename(t.Context(), "f", dir, "f~", false), dir.Rename(t.Context(), "sedA1b2C3", dir, "f", false))
			},
		} {
			t.Run(name+", "+made, func(t *testing.T) {
				w := team()
				w.Put("team", alice, "f", []byte("base"))
				m := mount(t, w, bob)
				theirs := func(at string) {
					if learns == at {
						w.Put("team", alice, "f", []byte("theirs"))
						m.refresh()
					}
				}
				theirs("never unknown")
				sed := Caller{PID: 7}
				old := m.open("/team/f", OpenFlags{Read: true, Caller: sed})
				theirs("read")
				_, h, err := m.dir("/team").Create(t.Context(), "sedA1b2C3", true, OpenFlags{Write: true, Caller: sed})
				ok(t, err)
				m.write(h, "base and mine", 0)
				theirs("before")
				ok(t, h.Flush(t.Context()))
				h.Release()
				old.Release()
				if learns == "after" {
					w.Put("team", alice, "f", []byte("theirs"))
				}
				ok(t, becomes(m))
				m.refresh()
				m.wantContent("/team/f", "base and mine")
				told := strings.Count(string(m.errors.Show()), "\tconflict\t")
				if want := learns != "never unknown"; told != 0 != want {
					t.Errorf("errors holds %q", m.errors.Show())
				}
				m.replaces("again", sed)
				if n := strings.Count(string(m.errors.Show()), "\tconflict\t"); n != told {
					t.Errorf("told %d times", n)
				}
			})
		}
	}
}

// W11: a program that saves a file under another name, and renames it over a version that it did not see, is told; that
// version is in the history.
func TestW11RecordedFileReplacesAVersionUnseen(t *testing.T) {
	for name, sees := range map[string]bool{"seen": true, "unseen": false} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Put("team", bob, "f", []byte("base"))
			m := mount(t, w, bob, deletes)
			editor := Caller{PID: 7}
			m.open("/team/f", OpenFlags{Read: true, Caller: editor}).Release()
			w.Put("team", alice, "f", []byte("theirs"))
			m.refresh()
			if sees {
				m.open("/team/f", OpenFlags{Read: true, Caller: editor}).Release()
			}
			_, h, err := m.dir("/team").Create(t.Context(), "f.new", true, OpenFlags{Write: true, Caller: editor})
			ok(t, err)
			m.write(h, "base and mine", 0)
			ok(t, h.Flush(t.Context()))
			h.Release()
			ok(t, m.dir("/team").Rename(t.Context(), "f.new", m.dir("/team"), "f", false))
			m.refresh()
			m.wantContent("/team/f", "base and mine")
			if n := strings.Count(string(m.errors.Show()), "\tconflict\t"); n != map[bool]int{true: 0, false: 1}[sees] {
				t.Errorf("told %d times: %q", n, m.errors.Show())
			}
			if versions := m.names("/team/.svcfs/history/f"); len(versions) != 3 {
				t.Errorf("the history has %q", versions)
			}
		})
	}
}

// A version that a program opened, and that was destroyed since, is replaced by nobody: what others saved after it is
// told. The threads of a program are one program.
func TestW11OpenedVersionIsDestroyed(t *testing.T) {
	w := team()
	first := w.Put("team", alice, "f", []byte("one"))
	m := mount(t, w, bob)
	thread := func(pid uint32) Caller { return Caller{PID: pid, Process: func() uint32 { return 7 }} }
	m.open("/team/f", OpenFlags{Read: true, Caller: thread(8)}).Release()
	w.Put("team", alice, "f", []byte("theirs"))
	w.Shred("team", first.Ref)
	m.refresh()
	m.replaces("one and mine", thread(9))
	m.refresh()
	if n := strings.Count(string(m.errors.Show()), "\tconflict\t"); n != 1 {
		t.Errorf("told %d times: %q", n, m.errors.Show())
	}
}

// A program that opens an old version in the history and puts it back under the name knew the newer one.
func TestW11VersionPutBackIsNoConflict(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("one"))
	w.Put("team", alice, "f", []byte("two"))
	m := mount(t, w, bob)
	cp := Caller{PID: 7}
	at := "/team/.svcfs/history/f/" + m.names("/team/.svcfs/history/f")[0]
	m.open(at, OpenFlags{Read: true, Caller: cp}).Release()
	m.replaces("one", cp)
	m.refresh()
	m.wantContent("/team/f", "one")
	if text := string(m.errors.Show()); text != "" {
		t.Errorf("errors holds %q", text)
	}
}

// pages is a Kernel that notes whose pages it must drop.
type pages struct {
	known []*File
	gone  map[*File]bool
}

func (k *pages) EntryChanged(*Dir, string)    {}
func (*pages) OwnerChanged(*Dir)              {}
func (*pages) Settle(context.Context)         {}
func (*pages) ChangedByOthers([]Change)       {}
func (*pages) AttributesChanged(*Dir, string) {}
func (k *pages) ContentChanged(f *File)       { k.gone[f] = true }
func (k *pages) ContentGone(match func(*File) bool) {
	for _, f := range k.known {
		if match(f) {
			k.gone[f] = true
		}
	}
}

// M5: pages of a version that no name shows any more are dropped like those of
// the one that is shown, and those of other files stay.
func TestM5PagesOfOldVersionsAreDropped(t *testing.T) {
	for name, lose := range map[string]func(w *world, ref sdk.Ref){
		"shredded": func(w *world, ref sdk.Ref) { w.Shred("team", ref) },
		"revoked":  func(w *world, _ sdk.Ref) { w.Revoke("team", bob) },
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Member("other", alice, bob)
			one := w.Put("team", alice, "f", []byte("one"))
			w.Put("other", alice, "g", []byte("kept"))
			m := mount(t, w, bob)
			old, kept := m.open("/team/f", OpenFlags{Read: true}), m.open("/other/g", OpenFlags{Read: true})
			defer old.Release()
			defer kept.Release()
			backup := m.node("/team/f").(*File)
			w.Put("team", alice, "f", []byte("two"))
			m.refresh()
			kernel := &pages{known: []*File{backup, kept.File()}, gone: map[*File]bool{}}
			m.SetKernel(kernel)
			lose(w, one.Ref)
			_ = m.Refresh(t.Context())
			if !kernel.gone[backup] || kernel.gone[kept.File()] {
				t.Errorf("dropped %v", kernel.gone)
			}
			_, err := readAll(t, old)
			wantClass(t, err, ClassRevoked)
			wantOpen(t, kept, "kept")
		})
	}
}

// N4: a version that newer ones replaced, as the owner of the group chose, leaves the
// history without an error. Who reads it keeps it; then it is not in memory any more.
func TestN4ReplacedVersionsLeave(t *testing.T) {
	w := team()
	one, two := w.Put("team", alice, "f", []byte("one")), w.Put("team", alice, "f", []byte("two"))
	w.Put("team", alice, "f", []byte("three"))
	m := mount(t, w, bob)
	listed := m.names("/team/.svcfs/history/f")
	path := "/team/.svcfs/history/f/" + listed[0]
	m.wantContent("/team/.svcfs/history/f/"+listed[1], "two")
	stale := m.node(path).(*File)
	reader := m.open(path, OpenFlags{Read: true})
	kernel := &pages{known: []*File{stale}, gone: map[*File]bool{}}
	m.SetKernel(kernel)
	for _, e := range []sdk.Entry{one, two} {
		w.Shred("team", e.Ref)
		w.Edit("team", e.Ref, func(e *sdk.Entry) { e.Deleted.Reason = wire.ReasonVersionPolicy })
	}
	m.refresh()
	wantOpen(t, reader, "one")
	if kernel.gone[stale] {
		t.Error("the pages of a reader were dropped")
	}
	m.wantNames("/team/.svcfs/history/f", listed[2])
	_, err := m.lookup(path)
	wantClass(t, err, ClassNotExist)
	m.wantContent("/team/f", "three")
	reader.Release()
	_, err = stale.Open(t.Context(), OpenFlags{Read: true})
	wantClass(t, err, ClassNotExist)
}

// W5: an empty file that waits is not sent before its time because a program opened it
// again: the write that follows is one save.
func TestW5ReopenedEmptyFileIsOneSave(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	for i := range 50 {
		name := fmt.Sprint("/team/f", i)
		ok(t, m.save(name, ""))
		h := m.open(name, OpenFlags{Write: true})
		m.write(h, "first, ", 0)
		m.write(h, "second", 7)
		ok(t, h.Flush(t.Context()))
		h.Release()
	}
	m.wantCharges(0, 50)
}

// W10: a time that was set before the save is still there after it, and gone with
// the next change; then the ledger's shows.
func TestW10TimesSurviveTheSave(t *testing.T) {
	m := mount(t, team(), alice)
	h := m.create("/team/f.tmp")
	m.write(h, "x", 0)
	when := time.Unix(1_500_000_000, 0)
	h.File().SetTimes(when)
	ok(t, m.rename("f.tmp", "f"))
	if got := m.node("/team/f").Attr().Mtime; !got.Equal(when) {
		t.Errorf("after the save: %v", got)
	}
	m.write(h, "y", 1)
	ok(t, h.Flush(t.Context()))
	h.Release()
	if got := m.node("/team/f").Attr().Mtime; got.Unix() != 1_700_000_002 {
		t.Errorf("after a change: %v", got)
	}
}

// W11: changes by one mount alone are no conflict: removing and creating, renaming back
// and forth, two files of one name.
func TestW11OneMountHasNoConflicts(t *testing.T) {
	w := team()
	m := mount(t, w, alice, deletes)
	dir := m.dir("/team")
	for i := range 3 {
		ok(t, m.save("/team/f", fmt.Sprint("f", i)))
		ok(t, m.save("/team/g", fmt.Sprint("g", i)))
		ok(t, m.rename("f", "h"))
		old := m.open("/team/h", OpenFlags{Read: true, Write: true})
		ok(t, m.save("/team/h.tmp", fmt.Sprint("h", i)))
		ok(t, m.rename("h.tmp", "h"))
		m.write(old, "late", 0)
		ok(t, old.Flush(t.Context()))
		old.Release()
		for _, name := range []string{"g", "h"} {
			ok(t, dir.Unlink(t.Context(), name))
		}
		m.refresh()
	}
	ok(t, m.save("/team/k", "k"))
	ok(t, m.rename("k", "k~"))
	ok(t, m.save("/team/k", "newer"))
	backup := m.open("/team/k~", OpenFlags{Read: true, Write: true})
	m.write(backup, "changed", 0)
	backup.Release()
	ok(t, m.rename("k~", "k"))
	m.wantContent("/team/k", "changed")
	if text := string(m.errors.Show()); text != "" {
		t.Errorf("errors holds %s", text)
	}
}

// E: a file that is deleted while it is fetched is not found; one whose group is lost is
// revoked.
func TestEDeletedOrRevokedWhileItIsFetched(t *testing.T) {
	for _, tc := range []struct {
		name   string
		happen func(w *world)
		want   Class
	}{
		{"deleted", func(w *world) { w.Shred("team", w.Rows("team")[0].Ref) }, ClassNotExist},
		{"revoked", func(w *world) { w.Revoke("team", bob) }, ClassRevoked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f", []byte("x"))
			m := mount(t, w, bob)
			m.names("/team")
			goOn, ended := w.Stall("retrieve"), make(chan error)
			go func() {
				_, err := m.read("/team/f")
				ended <- err
			}()
			proctest.Eventually(t, "it is being fetched", func() bool { return w.Begun("retrieve") > 0 })
			tc.happen(w)
			if err := m.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			goOn()
			wantClass(t, <-ended, tc.want)
		})
	}
}

// W11: a save whose answer was lost is no save of others: what the program writes next is recorded upon it, however
// often that gets no answer.
func TestW11SaveUponOneWhoseAnswerWasLost(t *testing.T) {
	w := team()
	w.Put("team", bob, "f", []byte("base"))
	m := mount(t, w, bob, ours, still)
	h := m.open("/team/f", OpenFlags{Read: true, Write: true})
	defer h.Release()
	m.write(h, "one", 0)
	w.Fail("uploaded", errAway)
	if err := h.Flush(t.Context()); err == nil {
		t.Fatal("the answer was not lost")
	}
	w.Fail("uploaded", nil)
	m.write(h, "one, and two", 0)
	w.Fail("upload", &sdk.Error{Kind: sdk.ErrUnavailable, Unsure: true})
	for range mostUnsure {
		if err := h.Flush(t.Context()); err == nil {
			t.Fatal("an answer came")
		}
	}
	w.Fail("upload", nil)
	ok(t, h.Flush(t.Context()))
	if list := m.names("/team"); len(list) != 1 {
		t.Errorf("the group lists %q", list)
	}
	m.wantContent("/team/f", "one, and two")
}

// W3: a save without an answer may be recorded, so that the bytes of before are saved again; one that was refused is
// not.
func TestW3BytesOfBeforeASaveWithoutAnswer(t *testing.T) {
	for _, large := range []bool{false, true} {
		w, _, data := largeWorld(10 * block)
		w.Put("g", "bob", "small", []byte("what was before"))
		m := mount(t, w, "bob", ours, still)
		path, before := "/g/small", []byte("what was before")
		if large {
			path, before = "/g/film", data
		}
		h := m.open(path, OpenFlags{Read: true, Write: true})
		other := append([]byte("other"), before[5:]...)
		saves := func(content []byte) error {
			ok(t, put(t, h, content, 0))
			return h.Flush(t.Context())
		}
		for _, refused := range []error{errAway, &sdk.Error{Kind: sdk.ErrInsufficient, Code: wire.CodeInsufficient},
			&sdk.Error{Kind: sdk.ErrRateLimited, Code: wire.CodeRateLimited}} {
			w.Fail("upload", refused)
			if err := saves(other); err == nil {
				t.Fatal("it was not refused")
			}
			w.Fail("upload", nil)
			_, sent := w.Charged()
			ok(t, saves(before))
			if _, n := w.Charged(); n != sent {
				t.Errorf("large %v: after %v %d uploads of the bytes of before", large, refused, n-sent)
			}
		}
		for _, lost := range []error{
			errAway,
			&sdk.Error{Kind: sdk.ErrCorrupt, Code: wire.CodeReceipt},
			&sdk.Error{Kind: sdk.ErrConflict, Code: wire.CodeReceipt},
			// of another attempt for an answer that was lost
			&sdk.Error{Kind: sdk.ErrRateLimited, Code: wire.CodeRateLimited},
			&sdk.Error{Kind: sdk.ErrUnauthenticated, Code: wire.CodeInvalidKey},
			&sdk.Error{Kind: sdk.ErrNotFound, Code: wire.CodeAccountUnknown},
		} {
			w.Fail("uploaded", lost)
			if err := saves(other); err == nil {
				t.Fatal("the answer was not lost")
			}
			w.Fail("uploaded", nil)
			ok(t, saves(before))
			name := strings.TrimPrefix(path, "/g/")
			if !bytes.Equal(recorded(w, "g", name), before) {
				t.Errorf("large %v: after %v the other bytes are recorded", large, lost)
			}
		}
		h.Release()
		m.refresh()
		wantRead(t, m.open(path, OpenFlags{Read: true}), before, 0, len(before))
		if text := string(m.errors.Show()); strings.Contains(text, "\tconflict\t") {
			t.Errorf("errors holds %s", text)
		}
	}
}

// W3: a large file that is as before an append that may be recorded is saved again, though the mount does not know the
// hash of that.
func TestW3CutBackAfterAnAppendWithoutAnswer(t *testing.T) {
	w, _, data := largeWorld(10 * block)
	m := mount(t, w, "bob", ours, still)
	h := m.open("/g/film", OpenFlags{Read: true, Write: true})
	ok(t, put(t, h, []byte("first"), len(data)))
	flush(t, h) // its record has no hash either
	data = append(data, "first"...)
	w.Fail("uploaded", errAway)
	ok(t, put(t, h, []byte("second"), len(data)))
	if err := h.Flush(t.Context()); err == nil {
		t.Fatal("the answer was not lost")
	}
	w.Fail("uploaded", nil)
	ok(t, h.f.Truncate(t.Context(), int64(len(data)), h))
	ok(t, h.Flush(t.Context()))
	h.Release()
	m.wantCharges(1, 3)
	conflict := outbox.ConflictName("film", "bob", time.Unix(1_700_000_000, 0), 0)
	if !bytes.Equal(recorded(w, "g", conflict), data) {
		t.Error("what was cut back is not recorded")
	}
}

// W11: the same for a large file that was written anew.
func TestW11LargeSaveUponOneWhoseAnswerWasLost(t *testing.T) {
	w, _, data := largeWorld(10 * block)
	m := mount(t, w, "bob", ours, still)
	h := m.open("/g/film", OpenFlags{Read: true, Write: true})
	defer h.Release()
	copy(data, "one")
	ok(t, put(t, h, data, 0))
	w.Fail("uploaded", errAway)
	if err := h.Flush(t.Context()); err == nil {
		t.Fatal("the answer was not lost")
	}
	w.Fail("uploaded", nil)
	ok(t, put(t, h, []byte("two"), 3*block))
	flush(t, h)
	if list := m.names("/g"); len(list) != 1 {
		t.Errorf("the group lists %q", list)
	}
	copy(data[3*block:], "two")
	wantRead(t, m.open("/g/film", OpenFlags{Read: true}), data, 0, len(data))
}

// W11: a service that says without end that others were faster is asked a bounded number of times, and the save waits.
func TestW11ServiceThatRefusesEveryName(t *testing.T) {
	w := team()
	m := mount(t, w, bob, ours, still)
	h := m.create("/team/f")
	defer h.Release()
	m.write(h, "mine", 0)
	w.Fail("upload", &sdk.Error{Op: "upload", Kind: sdk.ErrConflict, Code: wire.CodeHead, Err: errors.New("no")})
	before := w.Begun("upload")
	err := h.Flush(t.Context())
	if n := w.Begun("upload") - before; err == nil || n > 30 {
		t.Errorf("%v after %d requests", err, n)
	}
	w.Fail("upload", nil)
	ok(t, h.Flush(t.Context()))
	m.wantContent("/team/f", "mine")
}
