package tree

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// N5, W7, W8: how a file gets a name, as far as it is decided before anything changes.
func TestMovePlans(t *testing.T) {
	one := []sdk.Entry{{Ref: "one"}}
	for _, tc := range []struct {
		name string
		move move
		want plan
		not  Class // refused; ClassOther: not
	}{
		{"staged, saved", move{staged: true}, plan{first: firstCommit}, 0},
		{"staged, to a scratch name", move{staged: true, toScratch: true}, plan{becomes: fileScratch}, 0},
		{"scratch, saved", move{scratch: true, staged: true}, plan{first: firstCommit}, 0},
		{"scratch, to another group", move{scratch: true, staged: true, crosses: true}, plan{first: firstCommit}, 0},
		{"changed, then renamed by others", move{staged: true, uploaded: true}, plan{first: firstCommit}, 0},
		{"uploaded, made a backup", move{uploaded: true, recorded: true, newest: true, toScratch: true}, plan{becomes: fileScratch}, 0},
		{"uploaded", move{uploaded: true, recorded: true, newest: true, versions: one}, plan{}, ClassByDesign},
		{"uploaded, where the service renames", move{uploaded: true, recorded: true, newest: true, versions: one, ours: true}, plan{first: firstRename}, 0},
		{"uploaded, and deleted by now", move{uploaded: true, recorded: true, ours: true}, plan{}, ClassNotExist},
		{"uploaded, onto a later upload", move{uploaded: true, recorded: true, newest: true, versions: one, overtaken: true, ours: true}, plan{first: firstReplace}, 0},
		{"uploaded, to another group", move{uploaded: true, recorded: true, crosses: true}, plan{}, ClassByDesign},
		{"uploaded, to another group, with deleting", move{uploaded: true, recorded: true, crosses: true, canDelete: true}, plan{}, ClassCrossDevice},
		{"backup, taking its name back", move{scratch: true, uploaded: true, recorded: true, back: true, newest: true}, plan{}, 0},
		{"backup, taking it back after another save", move{scratch: true, uploaded: true, recorded: true, back: true}, plan{first: firstCommit}, 0},
		{"backup, changed", move{scratch: true, staged: true, uploaded: true, recorded: true, newest: true}, plan{first: firstCommit}, 0},
		{"backup, to another name", move{scratch: true, uploaded: true, recorded: true, newest: true, versions: one, ours: true}, plan{first: firstRename}, 0},
		{"backup of an older save, to another name", move{scratch: true, uploaded: true, recorded: true, versions: one, ours: true}, plan{}, ClassByDesign},
		{"uploaded, with a version of another member's", move{uploaded: true, recorded: true, newest: true, versions: one, ours: true, theirs: bob}, plan{}, ClassByDesign},
		{"onto a folder", move{overDir: true, staged: true}, plan{}, ClassIsDir},
		{"removed meanwhile", move{gone: true, staged: true}, plan{}, ClassNotExist},
		{"link: to a folder that has vanished", move{gone: true, link: true, scratch: true, toScratch: true}, plan{}, ClassNotExist},
		{"link: scratch to scratch", move{link: true, scratch: true, toScratch: true}, plan{aside: true}, 0},
		{"link: scratch to real", move{link: true, scratch: true, staged: true}, plan{first: firstCommit}, 0},
		{"link: staged to scratch", move{link: true, staged: true, toScratch: true}, plan{aside: true}, 0},
		{"link: staged to real", move{link: true, staged: true}, plan{}, ClassByDesign},
		{"link: backup to scratch", move{link: true, scratch: true, uploaded: true, recorded: true, toScratch: true}, plan{aside: true}, 0},
		{"link: backup to real", move{link: true, scratch: true, uploaded: true, recorded: true}, plan{}, ClassByDesign},
		{"link: uploaded to scratch", move{link: true, uploaded: true, recorded: true, toScratch: true}, plan{}, ClassByDesign},
		{"a link of a saved file, to scratch", move{further: true, uploaded: true, recorded: true, toScratch: true}, plan{aside: true}, 0},
		{"a link of a saved file, to real", move{further: true, uploaded: true, recorded: true, ours: true, versions: one}, plan{}, ClassByDesign},
		{"a link of a saved file, to another group", move{further: true, uploaded: true, recorded: true, toScratch: true, crosses: true}, plan{}, ClassByDesign},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, refused := tc.move.plan()
			if refused == nil && tc.not == 0 && got == tc.want {
				return
			}
			if refused == nil || tc.not == 0 || refused.Class != tc.not ||
				refused.Hint == "" && tc.not != ClassNotExist && tc.not != ClassIsDir {
				t.Errorf("plan %+v, refused %v; want %+v, %s", got, refused, tc.want, tc.not)
			}
		})
	}
}

// N5, W8: which folders may get a name, as far as it is decided before anything changes.
func TestFolderMovePlans(t *testing.T) {
	one := []sdk.Entry{{Ref: "one"}}
	for _, tc := range []struct {
		name string
		move folderMove
		not  Class // refused; ClassOther: not
	}{
		{"nothing beneath it is uploaded", folderMove{}, 0},
		{"uploads beneath it", folderMove{uploads: one}, ClassByDesign},
		{"uploads beneath it, where the service renames", folderMove{uploads: one, ours: true}, 0},
		{"uploads of another member's", folderMove{uploads: one, ours: true, theirs: bob}, ClassByDesign},
		{"onto the name of a later upload", folderMove{uploads: one, ours: true, overtaken: true}, ClassByDesign},
		{"a group", folderMove{fixed: true}, ClassByDesign},
		{"to another group", folderMove{crosses: true}, ClassByDesign},
		{"gone meanwhile", folderMove{gone: true}, ClassNotExist},
		{"into itself", folderMove{beneath: true}, ClassInvalid},
		{"onto a file", folderMove{overFile: true}, ClassNotDir},
		{"onto a folder that is not empty", folderMove{overFull: true}, ClassNotEmpty},
	} {
		t.Run(tc.name, func(t *testing.T) {
			refused := tc.move.plan()
			if refused == nil && tc.not == 0 {
				return
			}
			if refused == nil || refused.Class != tc.not || tc.not == ClassByDesign && refused.Hint == "" {
				t.Errorf("refused %v, want %s", refused, tc.not)
			}
		})
	}
}

// W8: the name of a file of which a backup was made stays free when its folder is renamed,
// and the backup takes it back.
func TestW8BackupInARenamedFolder(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/f", []byte("content"))
	m := mount(t, w, alice, ours)
	d := m.dir("/team/d")
	if err := d.Rename(t.Context(), "f", d, "f~", false); err != nil {
		t.Fatal(err)
	}
	if err := m.dir("/team").Rename(t.Context(), "d", m.dir("/team"), "e", false); err != nil {
		t.Fatal(err)
	}
	if got := allFiles(t, m.dir("/team"), ""); !slices.Equal(got, []string{"e/f~"}) {
		t.Errorf("there is %q", got)
	}
	if err := d.Rename(t.Context(), "f~", d, "f", false); err != nil {
		t.Error(err)
	}
	m.wantContent("/team/e/f", "content")
	m.wantCharges(1, 0)
}

// N5: a folder does not bring a file to a name that a later upload has, though a backup
// of that hides it here: other mounts would show the later one.
func TestN5FolderOntoALaterUpload(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/f", []byte("older"))
	w.Put("team", alice, "e/f", []byte("later"))
	m := mount(t, w, alice, ours)
	if err := m.dir("/team/e").Rename(t.Context(), "f", m.dir("/team"), "f~", false); err != nil {
		t.Fatal(err)
	}
	wantClass(t, m.dir("/team").Rename(t.Context(), "d", m.dir("/team"), "e", false), ClassByDesign)
	if got := allFiles(t, m.dir("/team"), ""); !slices.Equal(got, []string{"d/f", "f~"}) {
		t.Errorf("there is %q", got)
	}
}

// N5: a folder that holds a link takes the file of the link nowhere.
func TestN5FolderWithALinkOfAnotherFile(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	top := m.dir("/team")
	d, err := top.Mkdir(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	h := m.create("/team/f")
	m.write(h, "ours", 0)
	if err := d.Link(t.Context(), h.File(), "f~"); err != nil {
		t.Fatal(err)
	}
	if err := h.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Release()
	put := func(content string) {
		t.Helper()
		w.Put("team", bob, "f", []byte(content))
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put("theirs")
	if err := top.Rename(t.Context(), "d", top, "e", false); err != nil {
		t.Fatal(err)
	}
	put("newest")
	m.wantContent("/team/f", "newest")
	m.wantContent("/team/e/f~", "ours")
}

// E1: a folder that cannot take a name because of what has it leaves no line.
func TestE1TakenNamesOfFoldersLeaveNoLine(t *testing.T) {
	m := mount(t, team(), alice)
	top := m.dir("/team")
	for _, name := range []string{"d", "full"} {
		if _, err := top.Mkdir(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"/team/full/f", "/team/f"} {
		if err := m.save(p, "x"); err != nil {
			t.Fatal(err)
		}
	}
	wantClass(t, top.Rename(t.Context(), "d", top, "full", false), ClassNotEmpty)
	wantClass(t, top.Rename(t.Context(), "d", top, "f", false), ClassNotDir)
	if got := m.Status().Errors; got != 0 {
		t.Errorf("%d lines in errors", got)
	}
}

// W8: a backup may replace an older backup that is the only other file of its folder.
func TestW8BackupReplacesABackup(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/f", []byte("uploaded"))
	m := mount(t, w, alice)
	ok(t, m.save("/team/d/f~", "older backup"))
	d := m.dir("/team/d")
	ok(t, d.Rename(t.Context(), "f", d, "f~", false))
	if got := allFiles(t, m.dir("/team"), ""); !slices.Equal(got, []string{"d/f~"}) {
		t.Errorf("there is %q", got)
	}
	m.wantContent("/team/d/f~", "uploaded")
}

// W8: a folder goes with the last file that the service renames out of it, as in every
// other mount.
func TestW8FolderGoesWithItsLastFile(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/e/f", []byte("content"))
	m := mount(t, w, alice, ours)
	ok(t, m.dir("/team/d/e").Rename(t.Context(), "f", m.dir("/team"), "f", false))
	m.wantNames("/team", "f")
	m.wantContent("/team/f", "content")
}

// N5: a folder that is renamed while a file in it is saved takes the file along, and what gets a name in it while it is
// renamed has the new one.
func TestN5FolderIsRenamedDuringASave(t *testing.T) {
	saved := func(m *mounted) error { return m.save("/team/d/x", "new") }
	renamed := func(m *mounted) error { return m.rename("d", "e") }
	moved := func(from, name string) func(*mounted) error {
		return func(m *mounted) error {
			return m.dir(from).Rename(m.t.Context(), name, m.dir("/team/d"), "x", false)
		}
	}
	linked := func(m *mounted) error {
		return m.dir("/team/d").Link(m.t.Context(), m.file("/team/y.tmp"), "x")
	}
	before := func(r *racing) *func() { return &r.beforeUpload }
	after := func(r *racing) *func() { return &r.afterUpload }
	type steps []func(*mounted) error
	for name, tc := range map[string]struct {
		steps steps // the first one waits for the service while the second begins
		at    func(*racing) *func()
	}{
		"a save is under way":       {steps{saved, renamed}, before},
		"its answer is on its way":  {steps{saved, renamed}, after},
		"a save comes":              {steps{renamed, saved}, func(r *racing) *func() { return &r.afterRename }},
		"a save by rename comes":    {steps{renamed, moved("/team/d", "x.tmp")}, func(r *racing) *func() { return &r.afterRename }},
		"a file of elsewhere comes": {steps{renamed, moved("/team", "y.tmp")}, func(r *racing) *func() { return &r.afterRename }},
		"it is under way":           {steps{moved("/team", "y.tmp"), renamed}, before},
		"it is recorded":            {steps{moved("/team", "y.tmp"), renamed}, after},
		"a link of it is under way": {steps{linked, renamed}, before},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := team()
				w.Put("team", alice, "d/old", []byte("old"))
				m, r := race(t, w)
				for _, temporary := range []string{"d/x.tmp", "y.tmp"} {
					ok(t, m.save("/team/"+temporary, "new"))
				}
				goOn, done := make(chan struct{}), make(chan error)
				*tc.at(r) = func() { <-goOn }
				for _, step := range tc.steps {
					go func() { done <- step(m) }()
					synctest.Wait()
				}
				close(goOn)
				for range tc.steps {
					ok(t, <-done)
				}
				for _, m := range []*mounted{m, mount(t, w, alice), m} {
					files := slices.DeleteFunc(allFiles(t, m.dir("/team"), ""), func(name string) bool {
						return strings.HasSuffix(name, ".tmp")
					})
					if !slices.Equal(files, []string{"e/old", "e/x"}) {
						t.Errorf("there is %q", files)
					}
					m.wantContent("/team/e/x", "new")
					m.refresh()
				}
			})
		})
	}
}

// N5: the same with an outbox: what is saved in a folder while that waits for its files to be recorded.
func TestN5FolderIsRenamedDuringASaveWithAnOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBoxWorld()
		b := mountBoxed(t, w)
		answer, record := make(chan struct{}), b.service.Record
		b.service.Record = func(l *outbox.Upload, content []byte) outbox.Sent {
			<-answer
			return record(l, content)
		}
		_, err := b.dir2("/g").Mkdir(t.Context(), "d")
		ok(t, err)
		ok(t, b.save("/g/d/old", "old"))
		done := make(chan error)
		go func() { done <- b.dir2("/g").Rename(t.Context(), "d", b.dir2("/g"), "e", false) }()
		synctest.Wait()
		go func() { done <- b.save("/g/d/x", "new") }()
		synctest.Wait()
		close(answer)
		for range 2 {
			ok(t, <-done)
		}
		b.drained()
		for _, m := range []*mounted{b.mounted, mount(t, w, b.who, ours)} {
			m.refresh()
			if got := allFiles(t, m.dir("/g"), ""); !slices.Equal(got, []string{"e/old", "e/x"}) {
				t.Errorf("there is %q", got)
			}
			m.wantContent("/g/e/x", "new")
		}
	})
}

// N5: a rename that waits for the tree to be told of a record ends with who asked for it.
func TestN5FolderWithARecordThatIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBoxWorld()
		b := mountBoxed(t, w)
		dir := b.dir2("/g")
		_, err := dir.Mkdir(t.Context(), "d")
		ok(t, err)
		b.Tree.change(func() []notice {
			i := outbox.Item{ID: strings.Repeat("a", 32), Group: "g", Name: "d/x"} // the outbox has it no more
			b.groups["g"].mergeSave(make(map[*versions]bool), *save.Entry(i, b.who))
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantClass(t, dir.Rename(ctx, "d", dir, "e", false), ClassTimeout)
	})
}

// N3: a folder that gets the new name of a file while that is renamed keeps its files: the rename is refused, or, where it
// is recorded already, the file has another name beside.
func TestN3RenameOntoANewFolder(t *testing.T) {
	comes := func(m *mounted) { m.w.Put("team", bob, "f/b", []byte("theirs")); m.refresh() }
	for name, rename := range map[string]func(m *mounted, r *racing, d *Dir){
		"before it is recorded": func(m *mounted, r *racing, d *Dir) {
			renamed := make(chan error)
			h := m.open("/team/d/x", OpenFlags{Write: true})
			m.write(h, "OURS", 0)
			r.beforeUpload = func() { // of a save that the rename waits for
				go func() { renamed <- d.Rename(m.t.Context(), "x", m.dir("/team"), "f", false) }()
				synctest.Wait()
				comes(m)
			}
			ok(m.t, h.Flush(m.t.Context()))
			wantClass(m.t, <-renamed, ClassIsDir)
			m.wantContent("/team/d/x", "OURS")
			h.Release()
		},
		"while it is recorded": func(m *mounted, r *racing, d *Dir) {
			r.beforeRename = func() { comes(m) }
			ok(m.t, d.Rename(m.t.Context(), "x", m.dir("/team"), "f", false))
			m.wantContent("/team/"+names.WithSuffix("f", string(m.w.Named("team", "f")[0].Ref)), "ours")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := team()
				w.Put("team", alice, "d/x", []byte("ours"))
				m, r := race(t, w)
				rename(m, r, m.dir("/team/d"))
				for range 2 {
					m.wantContent("/team/f/b", "theirs")
					m.refresh()
				}
			})
		})
	}
}
