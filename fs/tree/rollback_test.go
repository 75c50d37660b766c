package tree

import (
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// A listing that lacks earlier records, or changes them, is refused, and the known names
// stay. A later listing that is true is accepted.
func TestThreat6RolledBackListing(t *testing.T) {
	for _, tc := range []struct {
		name string
		lie  func(rows []sdk.Entry) []sdk.Entry
		want string
	}{
		{"newest record gone", func(rows []sdk.Entry) []sdk.Entry { return rows[:2] }, "record 3 is missing"},
		{"everything gone", func([]sdk.Entry) []sdk.Entry { return nil }, "record 3 is missing"},
		{"fork of the same length", func(rows []sdk.Entry) []sdk.Entry { rows[2].Ref = "ref/x"; return rows }, "record 3 is missing"},
		{"longer fork", func(rows []sdk.Entry) []sdk.Entry {
			rows[2].Ref = "ref/x"
			return append(rows, sdk.Entry{Group: "team", Ref: "ref/y", Seq: 4, ChangedSeq: 4, Name: "y"})
		}, "record 3 is missing"},
		{"record slipped in", func(rows []sdk.Entry) []sdk.Entry {
			return append(rows, sdk.Entry{Group: "team", Ref: "ref/y", Seq: 2, ChangedSeq: 5, Name: "y"})
		}, "record 2 has appeared"},
		{"other content", func(rows []sdk.Entry) []sdk.Entry { rows[2].Hash[0] ^= 1; return rows }, "record 3 is not the one"},
		{"other place", func(rows []sdk.Entry) []sdk.Entry { rows[2].Seq = 9; rows[2].ChangedSeq = 9; return rows }, "record 9 is not the one"},
		{"other uploader", func(rows []sdk.Entry) []sdk.Entry { rows[0].Uploader = "ceo.x"; rows[0].ChangedSeq = 9; return rows }, "something else of a file"},
		{"other time", func(rows []sdk.Entry) []sdk.Entry {
			rows[0].Time = rows[0].Time.Add(-time.Hour)
			rows[0].ChangedSeq = 9
			return rows
		}, "something else of a file"},
		{"other size", func(rows []sdk.Entry) []sdk.Entry { rows[0].Size = 999; rows[0].ChangedSeq = 9; return rows }, "something else of a file"},
		{"old number", func(rows []sdk.Entry) []sdk.Entry { rows[0].Number, rows[0].ChangedSeq = 0, 9; return rows }, "something else of a file"},
		{"old record changed", func(rows []sdk.Entry) []sdk.Entry { rows[0].Hash[0] ^= 1; rows[0].ChangedSeq = 9; return rows }, "record 1 is not the one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := team()
			for _, name := range []string{"a", "b", "c"} {
				w.Put("team", alice, name, []byte(name))
			}
			m := mount(t, w, bob)
			m.wantNames("/team", "a", "b", "c")
			truth := w.Rows("team")
			w.Rewrite("team", tc.lie(w.Rows("team")))
			err := m.Refresh(t.Context())
			if wantClass(t, err, ClassCorrupt); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			w.Rewrite("team", truth)
			w.Put("team", alice, "d", []byte("d"))
			if err := m.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			m.wantNames("/team", "a", "b", "c", "d")
		})
	}
}

// What honest services do is no rollback: changes of old records, own uploads,
// and a service that numbers nothing.
func TestThreat6HonestListings(t *testing.T) {
	w := team()
	first := w.Put("team", alice, "a", []byte("a"))
	m := mount(t, w, bob)
	m.names("/team")
	ok(t, m.save("/team/own", "own"))
	w.Put("team", alice, "b", []byte("b"))
	w.Shred("team", first.Ref)
	for range 3 {
		m.refresh()
	}
	m.wantNames("/team", "b", "own")
}

// E3, W9: a file that was removed and comes back with a later record is no rollback, and
// a program that has it open keeps reading it. A file that comes back without a later
// record, or after its destruction, is a rollback.
func TestE3RemovedAndBroughtBack(t *testing.T) {
	w := team()
	f := w.Put("team", alice, "f", []byte("content"))
	m := mount(t, w, bob)
	h := m.open("/team/f", OpenFlags{Read: true})
	defer h.Release()
	for range 2 {
		ok(t, last(w.As(alice).RemoveVersions(t.Context(), "team", w.Rows("team"))))
		m.refresh()
		m.wantNames("/team")
		got := make([]byte, 7)
		if n, err := h.ReadAt(t.Context(), got, 0); err != nil || string(got[:n]) != "content" {
			t.Errorf("who has it open reads %q, %v", got, err)
		}
		ok(t, last(w.As(alice).RestoreVersions(t.Context(), "team", w.Rows("team"))))
		m.refresh()
		m.wantContent("/team/f", "content")
	}
	ok(t, last(w.As(alice).RemoveVersions(t.Context(), "team", w.Rows("team"))))
	m.refresh()
	removed := w.Rows("team")
	inTrash := removed[0].Deleted
	w.Edit("team", f.Ref, func(e *sdk.Entry) { e.Deleted = nil })
	wantClass(t, m.Refresh(t.Context()), ClassCorrupt)
	w.Rewrite("team", removed)
	w.Shred("team", f.Ref)
	m.refresh()
	if _, err := h.ReadAt(t.Context(), make([]byte, 7), 0); err == nil {
		t.Error("who has it open reads on after the destruction")
	}
	for _, back := range []*sdk.Deletion{nil, inTrash} {
		w.Edit("team", f.Ref, func(e *sdk.Entry) { e.Deleted, e.ChangedSeq = back, e.ChangedSeq+10 })
		wantClass(t, m.Refresh(t.Context()), ClassCorrupt)
	}
}
