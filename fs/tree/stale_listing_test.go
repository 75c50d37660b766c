package tree

import (
	"context"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/view"
)

// racing is a service at which something else happens at the worst moment: when a
// listing, a rename or an upload is about to be made, and when one, or a removal, was made and
// its answer is on its way. Each happens once.
type racing struct {
	treetest.Person
	forgets                                                                                         bool // answers nothing to a removal, as to one that is repeated
	beforeEntries, afterEntries, beforeRename, afterRename, afterRemoval, beforeUpload, afterUpload func()
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

func (r *racing) Entries(ctx context.Context, g sdk.GroupID, since *view.View) ([]sdk.Entry, error) {
	once(&r.beforeEntries)
	list, err := r.Person.Entries(ctx, g, since)
	once(&r.afterEntries)
	return list, err
}

func (r *racing) RenameFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref, name string) (sdk.Entry, error) {
	once(&r.beforeRename)
	e, err := r.Person.RenameFile(ctx, g, ref, name)
	once(&r.afterRename)
	return e, err
}

func (r *racing) RenameFolder(ctx context.Context, g sdk.GroupID, folder, to string, seen sdk.Seq) (sdk.FolderRename, error) {
	once(&r.beforeRename)
	done, err := r.Person.RenameFolder(ctx, g, folder, to, seen)
	once(&r.afterRename)
	return done, err
}

func (r *racing) RemoveVersions(ctx context.Context, g sdk.GroupID, versions []sdk.Entry) ([]sdk.Entry, error) {
	removed, err := r.Person.RemoveVersions(ctx, g, versions)
	once(&r.afterRemoval)
	if r.forgets {
		removed = nil
	}
	return removed, err
}

func (r *racing) Upload(ctx context.Context, g sdk.GroupID, name string, b *mem.Buffer,
	o sdk.PutOptions) (sdk.Receipt, error) {
	once(&r.beforeUpload)
	receipt, err := r.Person.Upload(ctx, g, name, b, o)
	once(&r.afterUpload)
	return receipt, err
}

// race mounts alice on such a service.
func race(t *testing.T, w *world, change ...func(*Config)) (*mounted, *racing) {
	t.Helper()
	r := &racing{Person: w.As(alice)}
	return mount(t, w, alice, append(change, deletes, func(c *Config) { c.Remote = r })...), r
}

func (m *mounted) refresh() {
	m.t.Helper()
	ok(m.t, m.Refresh(m.t.Context()))
}

func (m *mounted) wantFiles(want ...string) {
	m.t.Helper()
	if got := allFiles(m.t, m.dir("/team"), ""); !slices.Equal(got, want) {
		m.t.Errorf("lists %v, want %v", got, want)
	}
}

// W8: a listing from before a rename does not take it back, neither the first
// rename of a file nor a later one.
func TestW8ListingFromBeforeARename(t *testing.T) {
	w := team()
	w.Put("team", alice, "a", []byte("one"))
	m, r := race(t, w)
	m.node("/team/a")
	for _, step := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "d"}} {
		w.Put("team", bob, "other "+step[0], nil) // so that there is something to list
		r.afterEntries = func() {
			ok(t, m.rename(step[0], step[1]))
		}
		m.refresh()
		d := m.dir("/team")
		if d.child(step[1]) == nil || d.child(step[0]) != nil {
			t.Errorf("after the old listing: %s %v, %s %v", step[0], d.child(step[0]), step[1], d.child(step[1]))
		}
	}
	m.refresh()
	m.wantFiles("d", "other a", "other b", "other c")
}

// W9: a listing from before a removal does not bring the file back.
func TestW9ListingFromBeforeARemoval(t *testing.T) {
	w := team()
	m, r := race(t, w)
	ok(t, m.save("/team/f", "one"))
	r.afterEntries = func() {
		ok(t, m.dir("/team").Unlink(t.Context(), "f"))
	}
	m.refresh()
	m.wantFiles()
	m.refresh()
	m.wantFiles()
}

// W9: a file comes back out of the trash also when a listing brought the record of its removal
// before the answer to that removal came.
func TestW9ReturnAfterARemovalThatWasListed(t *testing.T) {
	w := team()
	r := &racing{Person: w.As(alice)}
	m := mount(t, w, alice, func(c *Config) { c.Ours, c.Remote = true, r })
	ok(t, m.save("/team/f", "one"))
	r.afterRemoval = m.refresh
	ok(t, m.dir("/team").Unlink(t.Context(), "f"))
	m.wantFiles()
	ok(t, m.dir("/team/.svcfs/trash").Rename(t.Context(), "f", m.dir("/team"), "f", false))
	m.wantFiles("f")
}

// W9: a name goes also where the service does not answer what became of it.
func TestW9RemovalWithoutRecords(t *testing.T) {
	m, r := race(t, team())
	r.forgets = true
	ok(t, m.save("/team/f", "one"))
	ok(t, m.dir("/team").Unlink(t.Context(), "f"))
	m.wantFiles()
}

// N5, W8: the record of a renamed folder names no files. What others renamed before it is where they put it, whether
// this mount has not seen that, or sees it while it waits for its answer.
func TestN5FolderThatOthersChangedUnseen(t *testing.T) {
	for _, isSeen := range []bool{false, true} {
		w := team()
		w.Put("team", alice, "d/a", []byte("a"))
		b := w.Put("team", alice, "d/b", []byte("b"))
		m, r := race(t, w)
		m.wantFiles("d/a", "d/b")
		r.beforeRename = func() {
			ok(t, last(w.As(alice).RenameFile(t.Context(), "team", b.Ref, "theirs")))
			if isSeen {
				m.refresh()
			}
		}
		ok(t, m.rename("d", "n"))
		m.wantFiles("n/a", "theirs")
		m.refresh()
		m.wantFiles("n/a", "theirs")
	}
}

// W8: what others renamed after this mount did is shown, whichever answer comes
// first.
func TestW8RenameByOthersAfterOurs(t *testing.T) {
	for name, arrange := range map[string]func(*mounted, *racing, func()){
		"in a listing that had begun": func(m *mounted, r *racing, others func()) {
			r.beforeEntries = func() {
				ok(m.t, m.rename("f", "ours"))
				others()
			}
			m.refresh()
		},
		"before the answer to ours": func(m *mounted, r *racing, others func()) {
			r.afterRename = func() { others(); m.refresh() }
			ok(m.t, m.rename("f", "ours"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			e := w.Put("team", alice, "f", []byte("one"))
			m, r := race(t, w)
			m.node("/team/f")
			arrange(m, r, func() {
				ok(t, last(w.As(alice).RenameFile(t.Context(), "team", e.Ref, "theirs")))
			})
			m.refresh()
			m.wantFiles("theirs")
		})
	}
}

// W7: a program that has a replaced file open saves nothing under its name, also when a listing
// shows the new file before the rename has its answer.
func TestW7ListingInTheMiddleOfAReplacement(t *testing.T) {
	for _, from := range []string{"new", "new.tmp"} { // uploaded before, or by the rename
		for when, hook := range map[string]func(r *racing, list func()){
			"before the rename": func(r *racing, list func()) { r.beforeRename = list },
			"before its answer": func(r *racing, list func()) { r.afterRename, r.afterUpload = list, list },
		} {
			t.Run(from+", "+when, func(t *testing.T) {
				w := team()
				m, r := race(t, w)
				ok(t, m.save("/team/f", "old"))
				h := m.open("/team/f", OpenFlags{Write: true})
				ok(t, m.save("/team/"+from, "replacement"))
				hook(r, m.refresh)
				ok(t, m.rename(from, "f"))
				m.write(h, "late", 0)
				ok(t, h.Fsync(t.Context()))
				m.wantFiles("f")
				m.wantContent("/team/f", "replacement")
				ok(t, h.Flush(t.Context()))
				h.Release()
				m.refresh()
				m.wantContent("/team/f", "replacement")
			})
		}
	}
}

// N5, W8: a listing that shows a rename before the answer to that rename loses no file of
// a folder.
func TestN5ListingInTheMiddleOfARename(t *testing.T) {
	for name, tc := range map[string]struct {
		rename func(m *mounted) error
		want   []string
	}{
		"a folder":             {func(m *mounted) error { return m.rename("d", "n") }, []string{"n/a", "n/e/b", "n/e/c"}},
		"the file of a folder": {func(m *mounted) error { return m.dir("/team/d").Rename(t.Context(), "a", m.dir("/team/d"), "z", false) }, []string{"d/e/b", "d/e/c", "d/z"}},
		"the last file of a folder": {func(m *mounted) error {
			return m.dir("/team/d").Rename(t.Context(), "a", m.dir("/team/d/e"), "a", false)
		}, []string{"d/e/a", "d/e/b", "d/e/c"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the names come in any order
				w := team()
				w.Put("team", alice, "d/a", []byte("a"))
				w.Put("team", alice, "d/e/b", []byte("b"))
				w.Put("team", alice, "d/e/c", []byte("c"))
				m, r := race(t, w)
				m.wantFiles("d/a", "d/e/b", "d/e/c")
				var told func()
				told = func() { m.refresh(); r.afterRename = told }
				r.afterRename = told
				ok(t, tc.rename(m))
				m.wantFiles(tc.want...)
				m.refresh()
				m.wantFiles(tc.want...)
				for _, name := range tc.want {
					m.node("/team/" + name)
				}
			}
		})
	}
	t.Run("the only file", func(t *testing.T) {
		for range 20 {
			w := team()
			w.Put("team", alice, "x/f", []byte("a"))
			m, r := race(t, w)
			x := m.dir("/team/x")
			r.afterRename = m.refresh
			ok(t, x.Rename(t.Context(), "f", x, "g", false))
			m.wantFiles("x/g")
			if m.dir("/team/x") != x {
				t.Error("the folder is another one")
			}
		}
	})
}

// W7, W8: a file that moves into a folder whose last file others delete meanwhile
// is there afterwards.
func TestW8FolderEmptiedByOthersMeanwhile(t *testing.T) {
	for _, folder := range []string{"d", "d/sub"} {
		for _, from := range []string{"x.tmp", "x"} { // saved by the rename, or before
			t.Run(from+" into "+folder, func(t *testing.T) {
				w := team()
				e := w.Put("team", bob, folder+"/a", []byte("a"))
				m, r := race(t, w)
				to := m.dir("/team/" + folder)
				ok(t, m.save("/team/"+from, "x"))
				meanwhile := func() { w.Shred("team", e.Ref); m.refresh() }
				r.beforeUpload, r.beforeRename = meanwhile, meanwhile
				ok(t, m.dir("/team").Rename(t.Context(), from, to, "x", false))
				m.wantFiles(folder + "/x")
				m.wantContent("/team/"+folder+"/x", "x")
			})
		}
	}
}

// N5: files that others upload beneath the new name of a folder while it is renamed stay
// visible, whatever of it has their names.
func TestN5UploadsIntoAFolderThatIsRenamed(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/a", []byte("a"))
	w.Put("team", alice, "d/e/b", []byte("b"))
	m, r := race(t, w)
	m.wantFiles("d/a", "d/e/b")
	ok(t, m.save("/team/d/x~", "of this mount alone"))
	r.afterRename = func() {
		for _, name := range []string{"n/a/below", "n/e", "n/x~"} {
			w.Put("team", bob, name, []byte("bob's"))
		}
		m.refresh()
	}
	ok(t, m.rename("d", "n"))
	if files := allFiles(t, m.dir("/team"), ""); len(files) != 6 {
		t.Errorf("shows %q", files)
	}
}

// W2, W7: a listing that was asked before a save, and arrives before the save has its place, neither
// takes the name away nor shows the older content.
func TestW2ListingInTheMiddleOfASave(t *testing.T) {
	for name, arrange := range map[string]func(*mounted){
		"saved again":        func(*mounted) {},
		"removed and made":   func(m *mounted) { ok(m.t, m.dir("/team").Unlink(m.t.Context(), "f")) },
		"others saved it":    func(m *mounted) { m.w.Put("team", bob, "f", []byte("theirs")); m.refresh() },
		"others deleted one": func(m *mounted) { m.w.Shred("team", m.w.Put("team", bob, "f", nil).Ref); m.refresh() },
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			m, r := race(t, w)
			ok(t, m.save("/team/f", "one"))
			arrange(m)
			f, h, err := m.dir("/team").Create(t.Context(), "f", false, OpenFlags{Write: true, Truncate: true})
			ok(t, err)
			defer h.Release()
			_, err = h.WriteAt(t.Context(), []byte("two"), 0)
			ok(t, err)
			var row *sdk.Entry
			r.afterEntries = func() {
				row, err = f.commitAs(t.Context(), commitOnClose, f.group, "f")
				ok(t, err)
			}
			m.refresh()
			if got := m.dir("/team").child("f"); got != f {
				t.Errorf("shows %v instead of the file that was saved", got)
			}
			m.change(func() []notice { return f.group.saved(f, "f", row) })
			if got := m.node("/team/f"); got != f {
				t.Errorf("shows %v in the end", got)
			}
			m.wantContent("/team/f", "two")
		})
	}
}

// settling is a Kernel that takes its time with the notices.
type settling struct {
	noKernel
	meanwhile func()
}

func (k settling) Settle(context.Context) { k.meanwhile() }

// R4: a refresh has succeeded only when the kernel knows what it brought.
func TestR4RefreshWaitsForTheKernel(t *testing.T) {
	m := mount(t, team(), alice)
	before, settled := m.Status().Refreshed, false
	m.SetKernel(settling{meanwhile: func() {
		if settled = true; !m.Status().Refreshed.Equal(before) {
			t.Error("the mount says that it is refreshed, and the kernel does not know yet")
		}
	}})
	m.refresh()
	if !settled {
		t.Error("nobody waited for the kernel")
	}
}
