package tree

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// writes writes p at off, which is refused with class, or with -1 is not.
func (m *mounted) refused(h *Handle, p string, off int64, class Class) {
	m.t.Helper()
	_, err := h.WriteAt(m.t.Context(), []byte(p), off)
	wantClass(m.t, err, class)
}

func TestW15RefusedWriteIsNoSave(t *testing.T) {
	whole, half := strings.Repeat("w", 90), strings.Repeat("h", 100)
	for name, tc := range map[string]struct {
		after func(m *mounted, h *Handle) // the refusal, before the close
		want  string                      // recorded by the close; "" = nothing
	}{
		"nothing": {func(*mounted, *Handle) {}, ""},
		"another write elsewhere": {func(m *mounted, h *Handle) {
			m.write(h, "elsewhere", 5)
		}, ""},
		"a part of it": {func(m *mounted, h *Handle) {
			m.refused(h, "xxxx", 100, ClassTooBig)
			m.write(h, "x", 99)
		}, ""},
		"cut off": {func(m *mounted, h *Handle) {
			if err := h.File().Truncate(m.t.Context(), 100, h); err != nil {
				m.t.Error(err)
			}
		}, half},
		"begun anew": {func(m *mounted, h *Handle) {
			if err := h.File().Truncate(m.t.Context(), 0, h); err != nil {
				m.t.Error(err)
			}
			m.write(h, "new", 0)
		}, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f", []byte(whole))
			m := mount(t, w, alice, func(c *Config) { c.MaxFileBytes = 100 })
			h := m.open("/team/f", OpenFlags{Write: true, Truncate: true})
			m.write(h, half, 0)
			m.refused(h, "x", 100, ClassTooBig)
			tc.after(m, h)
			if tc.want != "" {
				if err := h.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				h.Release()
				wantNewest(t, w, "f", tc.want)
				return
			}
			for range 2 {
				wantClass(t, h.Flush(t.Context()), ClassTooBig)
				wantClass(t, h.Fsync(t.Context()), ClassTooBig)
			}
			beside := m.open("/team/f", OpenFlags{Write: true})
			wantClass(t, beside.Flush(t.Context()), ClassTooBig)
			beside.Release()
			h.Release()
			wantNewest(t, w, "f", whole)
			if p := m.Pending(); len(p) != 1 || !strings.Contains(p[0].Error, "larger than") {
				t.Errorf("pending is %+v", p)
			}
			if left := m.Drain(t.Context()); len(left) != 1 {
				t.Errorf("unmounting leaves %+v", left)
			}
			wantNewest(t, w, "f", whole)
			if err := m.save("/team/f", "again"); err != nil {
				t.Error(err)
			}
			wantNewest(t, w, "f", "again")
		})
	}
}

// wantNewest checks what the service holds under a name.
func wantNewest(t *testing.T, w *world, name, want string) {
	t.Helper()
	var newest string
	for _, e := range w.Rows("team") {
		if e.Name == name && e.Deleted == nil {
			newest = string(w.Content(e.Ref))
		}
	}
	if newest != want {
		t.Errorf("recorded of %s is %.20q of %d bytes, want %.20q of %d", name, newest, len(newest), want, len(want))
	}
}

// W15: memory for files being written may be free again a moment later.
func TestW15RefusedWriteThatIsRepeated(t *testing.T) {
	w := team()
	m := mount(t, w, alice, func(c *Config) { c.StagingBytes = 1000 })
	other, h := m.create("/team/other"), m.create("/team/f.tmp")
	m.write(other, strings.Repeat("o", 900), 0)
	m.write(h, strings.Repeat("a", 100), 0)
	m.refused(h, strings.Repeat("b", 100), 100, ClassNoMemory)
	wantClass(t, h.Flush(t.Context()), ClassNoMemory) // also of a scratch name
	wantClass(t, m.rename("f.tmp", "f"), ClassNoMemory)
	ok(t, other.Flush(t.Context()))
	m.write(h, strings.Repeat("b", 50), 100)
	wantClass(t, h.Flush(t.Context()), ClassNoMemory)
	m.write(h, strings.Repeat("b", 50), 150)
	if err := h.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.rename("f.tmp", "f"); err != nil {
		t.Error(err)
	}
	wantNewest(t, w, "f", strings.Repeat("a", 100)+strings.Repeat("b", 100))
	h.Release()
	other.Release()
}

// W15: a program whose first write was refused has changed nothing, and holds up nobody.
func TestW15RefusalIsItsProgramsAlone(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("whole"))
	m := mount(t, w, alice, func(c *Config) { c.MaxFileBytes = 100 })
	refused, other := m.open("/team/f", OpenFlags{Read: true, Write: true}), m.open("/team/f", OpenFlags{Read: true, Write: true})
	m.refused(refused, "x", 100, ClassTooBig)
	m.write(other, "W", 0)
	if err := other.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	wantNewest(t, w, "f", "Whole")
	wantClass(t, refused.Flush(t.Context()), ClassTooBig)
	m.write(refused, "X", 0)
	wantClass(t, refused.Flush(t.Context()), ClassTooBig)
	wantClass(t, other.Flush(t.Context()), ClassTooBig)
	wantNewest(t, w, "f", "Whole")
	refused.Release()
	m.write(other, "Y", 0)
	if err := other.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	wantNewest(t, w, "f", "Yhole")
	other.Release()
}

func TestW15KilledProgramIsNoSave(t *testing.T) {
	for name, tc := range map[string]struct {
		flags OpenFlags
		write string
		at    int64
		after func(m *mounted) error
		want  string // recorded in the end
	}{
		"of unknown size, changed, unmounted": {OpenFlags{Write: true, Read: true}, "HALF", 0, nil, "whole"},
		"overwritten, unmounted":              {OpenFlags{Write: true, Truncate: true}, "half", 0, nil, "whole"},
		"changed, unmounted":                  {OpenFlags{Write: true, Read: true}, "HALF", 0, nil, "whole"},
		"appended, unmounted":                 {OpenFlags{Write: true, Append: true}, " and more", 5, nil, "whole and more"},
		"synced": {OpenFlags{Write: true, Truncate: true}, "half", 0, func(m *mounted) error {
			h := m.open("/team/f", OpenFlags{Read: true})
			defer h.Release()
			return h.Fsync(m.t.Context())
		}, "half"},
		"renamed":       {OpenFlags{Write: true, Truncate: true}, "half", 0, func(m *mounted) error { return m.rename("f", "f.tmp") }, "whole"},
		"written again": {OpenFlags{Write: true, Truncate: true}, "half", 0, func(m *mounted) error { return m.save("/team/f", "again") }, "again"},
		"cut by name": {OpenFlags{Write: true, Truncate: true}, "half", 0, func(m *mounted) error {
			return m.node("/team/f").(*File).Truncate(m.t.Context(), 2, nil)
		}, "ha"},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			e := w.Put("team", alice, "f", []byte("whole"))
			if strings.HasPrefix(name, "of unknown size") {
				w.Edit("team", e.Ref, func(e *sdk.Entry) { e.Size = sdk.SizeUnknown })
			}
			m := mount(t, w, alice)
			h := m.open("/team/f", tc.flags)
			m.write(h, tc.write, tc.at)
			h.Abandon()
			h.Release()
			if p := m.Pending(); len(p) != 1 || !strings.Contains(p[0].Error, "killed") {
				t.Errorf("pending is %+v", p)
			}
			if s := m.Status(); s.Pending != 1 || s.Held != 1 {
				t.Errorf("%d files are pending, %d of them held", s.Pending, s.Held)
			}
			touched := m.open("/team/f", OpenFlags{Write: true})
			wantClass(t, touched.Flush(t.Context()), ClassInterrupted)
			touched.Release()
			wantNewest(t, w, "f", "whole")
			if tc.after != nil {
				if err := tc.after(m); err != nil {
					t.Error(err)
				}
			}
			left := m.Drain(t.Context())
			wantNewest(t, w, "f", tc.want)
			if lost := tc.after == nil && tc.want == "whole"; lost != (len(left) == 1) {
				t.Errorf("unmounting leaves %+v", left)
			}
		})
	}
}

// W15: what a program closed or synced before it was killed is a save.
func TestW15SavedBeforeItWasKilled(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	h := m.create("/team/f")
	m.write(h, "synced", 0)
	ok(t, h.Fsync(t.Context()))
	h.Abandon()
	h.Release()
	wantNewest(t, w, "f", "synced")
	fresh := m.create("/team/new")
	m.write(fresh, "half", 0)
	fresh.Abandon()
	fresh.Release()
	part := m.create("/team/part")
	m.write(part, "renamed by hand", 0)
	part.Abandon()
	part.Release()
	if err := m.rename("part", "f"); err != nil {
		t.Error(err)
	}
	if p := m.Pending(); len(p) != 1 || p[0].Path != "/team/new" {
		t.Errorf("pending is %+v", p)
	}
	if left := m.Drain(t.Context()); len(left) != 0 {
		t.Errorf("unmounting leaves %+v", left)
	}
	wantNewest(t, w, "f", "renamed by hand")
	wantNewest(t, w, "new", "half") // it hides no whole version
}

// W15: who syncs a folder asks for no half save in it, also where that is empty.
func TestW15FsyncOfAFolderSendsNoHalfSave(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("whole"))
	m := mount(t, w, alice, func(c *Config) { c.MaxFileBytes = 100 })
	killed := m.open("/team/f", OpenFlags{Write: true, Truncate: true})
	killed.Abandon()
	killed.Release()
	ok(t, m.dir("/team").Fsync(t.Context()))
	wantNewest(t, w, "f", "whole")
	refused := m.create("/team/new")
	m.refused(refused, "x", 100, ClassTooBig)
	wantClass(t, refused.Flush(t.Context()), ClassTooBig)
	refused.Release()
	ok(t, m.dir("/team").Fsync(t.Context()))
	m.wantCharges(0, 0)
	if p := m.Pending(); len(p) != 2 {
		t.Errorf("pending is %+v", p)
	}
}
