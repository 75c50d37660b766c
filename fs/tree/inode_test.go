package tree

import (
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// A4: an upload that this mount did not save is another file, with another number; what this
// mount saves and renames stays one file. No number comes a second time: a program may have
// the file open still.
func TestA4NumbersOfVersions(t *testing.T) {
	const keeps, changes = true, false
	for _, tc := range []struct {
		name    string
		do      func(m *mounted, was *Handle) // was is open on /team/f, which bob's mount shows
		want    bool
		at      string // instead of /team/f
		notices int    // at most, where the number stays: a save costs no look-up
	}{
		{"a save here", func(m *mounted, _ *Handle) { ok(m.t, m.save("/team/f", "two")) }, keeps, "", 0},
		{"a look after a save here", func(m *mounted, _ *Handle) { ok(m.t, m.save("/team/f", "two")); m.refresh() }, keeps, "", 0},
		{"a look in the middle of a save here", func(m *mounted, was *Handle) {
			m.write(was, "!", 0)
			goOn := m.w.Stall("uploaded") // the service has it, and this mount knows not yet
			saved := make(chan error, 1)
			go func() { saved <- was.Flush(m.t.Context()) }()
			proctest.Eventually(m.t, "the record is there", func() bool { return m.w.Begun("uploaded") > 0 })
			m.refresh()
			goOn()
			ok(m.t, <-saved)
		}, keeps, "", 0},
		{"a rename here", func(m *mounted, _ *Handle) { ok(m.t, m.rename("f", "g")) }, keeps, "/team/g", 0},
		{"a backup and back", func(m *mounted, _ *Handle) { ok(m.t, m.rename("f", "f~")); ok(m.t, m.rename("f~", "f")) }, keeps, "", 0},
		{"another account", func(m *mounted, _ *Handle) { m.w.Put("team", alice, "f", []byte("two")); m.refresh() }, changes, "", 0},
		{"another mount of the account", func(m *mounted, _ *Handle) { m.w.Put("team", bob, "f", []byte("two")); m.refresh() }, changes, "", 0},
		{"a save here, then another account", func(m *mounted, was *Handle) {
			m.write(was, "!", 0)
			ok(m.t, was.Flush(m.t.Context()))
			m.w.Put("team", alice, "f", []byte("two"))
			m.refresh()
		}, changes, "", 0},
		{"a save here that lost", func(m *mounted, was *Handle) {
			m.write(was, "!", 0)
			goOn := m.w.Stall("uploaded")
			saved := make(chan error, 1)
			go func() { saved <- was.Flush(m.t.Context()) }()
			proctest.Eventually(m.t, "the record is there", func() bool { return m.w.Begun("uploaded") > 0 })
			m.w.Put("team", alice, "f", []byte("two"))
			m.refresh()
			goOn()
			ok(m.t, <-saved)
		}, changes, "", 0},
		{"another account, then a save of the old file", func(m *mounted, was *Handle) {
			m.w.Put("team", alice, "f", []byte("two"))
			m.refresh()
			m.write(was, "!", 0)
			ok(m.t, was.Flush(m.t.Context()))
		}, changes, "", 2}, // the old file has a name of its own now (W11)
		{"removed by others, then a save of the old file", func(m *mounted, was *Handle) {
			ok(m.t, last(m.w.As(bob).RemoveVersions(m.t.Context(), "team", m.w.Named("team", "f"))))
			m.refresh()
			m.write(was, "!", 0)
			ok(m.t, was.Flush(m.t.Context()))
		}, keeps, "", 2},
		{"removed here, and made again", func(m *mounted, _ *Handle) {
			ok(m.t, m.dir("/team").Unlink(m.t.Context(), "f"))
			ok(m.t, m.save("/team/f", "two"))
		}, changes, "", 0},
		{"removed and brought back by others", func(m *mounted, _ *Handle) {
			ok(m.t, last(m.w.As(bob).RemoveVersions(m.t.Context(), "team", m.w.Named("team", "f"))))
			m.refresh()
			ok(m.t, last(m.w.As(bob).RestoreVersions(m.t.Context(), "team", m.w.Named("team", "f"))))
			m.refresh()
		}, changes, "", 0},
		{"replaced by a rename", func(m *mounted, _ *Handle) {
			ok(m.t, m.save("/team/f.tmp", "two"))
			ok(m.t, m.rename("f.tmp", "f"))
		}, changes, "", 0},
		{"renamed by others", func(m *mounted, _ *Handle) {
			ok(m.t, last(m.w.As(bob).RenameFile(m.t.Context(), "team", m.w.Rows("team")[0].Ref, "g")))
			m.refresh()
		}, changes, "/team/g", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := team()
			w.Put("team", bob, "f", []byte("one"))
			m := mount(t, w, bob, ours)
			f := m.node("/team/f").(*File)
			was, err := f.Open(t.Context(), OpenFlags{Read: true, Write: true})
			ok(t, err)
			defer was.Release()
			before, kernel := f.Attr(), &watcher{m: m}
			m.SetKernel(kernel)
			tc.do(m, was)
			if tc.want == keeps && tc.at == "" && len(kernel.seen) > tc.notices {
				t.Errorf("the kernel is to look up again: %v", kernel.seen)
			}
			at := "/team/f"
			if tc.at != "" {
				at = tc.at
			}
			after := m.node(at).Attr()
			if (before.Ino == after.Ino) != tc.want {
				t.Errorf("the number was %d and is %d", before.Ino, after.Ino)
			}
			if was.File().Attr().Ino != before.Ino {
				t.Error("the open file has another number")
			}
			if (before.Ino == after.Ino) != (m.node(at) == Node(f)) {
				t.Error("two files have one number")
			}
		})
	}
}

// A4: a folder that is removed and made again is another folder, and so is that of a group
// that was lost.
func TestA4NumbersOfFolders(t *testing.T) {
	w := team()
	w.Put("team", bob, "d/f", []byte("one"))
	m := mount(t, w, bob, ours)
	numbers := func() (list []uint64) {
		for _, p := range []string{"/team", "/team/d", "/team/d/f"} {
			list = append(list, m.node(p).Attr().Ino)
		}
		return list
	}
	seen := make(map[uint64]bool)
	for round := range 3 {
		got := numbers()
		for i, ino := range got {
			if seen[ino] && (round != 2 || i > 0) { // the group's directory was not touched
				t.Errorf("round %d: the number of name %d comes again", round, i)
			}
			seen[ino] = true
		}
		switch round {
		case 0:
			w.Revoke("team", bob)
			m.refresh()
			w.Member("team", bob)
			m.refresh()
		case 1:
			ok(t, m.dir("/team/d").Unlink(t.Context(), "f"))
			ok(t, m.dir("/team").Rmdir(t.Context(), "d"))
			_, err := m.dir("/team").Mkdir(t.Context(), "d")
			ok(t, err)
			ok(t, m.save("/team/d/f", "two"))
		}
	}
}
