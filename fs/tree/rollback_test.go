package tree

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// E3, threat 6: of a service that lies consistently a mount takes no listing, and the known names stay. A later
// listing that is true is accepted.
func TestThreat6RolledBackListing(t *testing.T) {
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	told := 0
	for _, lie := range testkit.Lies() {
		if lie.On != testkit.OnHistory || lie.Mutate != nil { // the others change records that are not asked for again
			continue
		}
		told++
		t.Run(lie.Name, func(t *testing.T) {
			c := d.Client(t, d.Bob)
			m := &mounted{grow(t, Config{Remote: Client{c}, Ours: true, RefreshInterval: time.Hour, EmptyDelay: time.Hour, reopen: -1}, nil), t, nil}
			want := m.names("/board")
			m.wantContent("/board/payroll.txt", "version 2")
			d.Tell(lie)
			wantClass(t, m.Refresh(t.Context()), ClassCorrupt)
			if got := allFiles(t, m.dir("/board"), ""); !slices.Equal(got, want) {
				t.Errorf("shows %q, want %q", got, want)
			}
			m.wantContent("/board/payroll.txt", "version 2")
			d.Repent()
			m.refresh()
			m.wantNames("/board", want...)
		})
	}
	if told < 5 {
		t.Errorf("%d lies", told)
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
// a program that has it open keeps reading it.
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
	w.Shred("team", f.Ref)
	m.refresh()
	if _, err := h.ReadAt(t.Context(), make([]byte, 7), 0); err == nil {
		t.Error("who has it open reads on after the destruction")
	}
}

// meanwhile is a client of a service at which something happens before a folder is renamed.
type meanwhile struct {
	Client
	before func()
}

func (c *meanwhile) RenameFolder(ctx context.Context, g sdk.GroupID, folder, to string, seen sdk.Seq) (sdk.FolderRename, error) {
	c.before()
	return c.Client.RenameFolder(ctx, g, folder, to, seen)
}

// N5, E4: after a folder was renamed here, while others changed what is in it, the mount knows what a program knows that
// lists the group anew.
func TestN5RenamedFolderIsKnownAsListed(t *testing.T) {
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	others := d.Client(t, d.Alice).Group(d.Group)
	refs := map[string]sdk.Ref{}
	for _, name := range []string{"d/a", "d/b", "d/e/c"} {
		r, err := others.Put(t.Context(), name, strings.NewReader(name))
		ok(t, err)
		refs[name] = r.Ref
	}
	ok(t, last(others.MakeFolder(t.Context(), "d/made")))
	ok(t, last(others.MakeFolder(t.Context(), "d/gone")))
	before := func() {
		ok(t, last(others.Rename(t.Context(), refs["d/b"], "theirs")))
		ok(t, last(others.RemoveFolder(t.Context(), "d/gone")))
	}
	c := &meanwhile{Client: Client{d.Client(t, d.Alice)}}
	m := &mounted{grow(t, Config{Remote: c, Ours: true, RefreshInterval: time.Hour, EmptyDelay: time.Hour, reopen: -1}, nil), t, nil}
	m.names("/board")
	root, view := m.dir("/board"), m.groups[d.Group].view
	for _, step := range []struct {
		from, to string
		before   func()
	}{{"d", "n", before}, {"n", "o", func() {}}} {
		c.before = step.before
		ok(t, root.Rename(t.Context(), step.from, root, step.to, false))
		if step.from == "n" {
			m.refresh()
		}
		list, err := others.Entries(t.Context(), sdk.ListOptions{Folders: true})
		ok(t, err)
		var newest sdk.Seq
		for i := range list {
			want := &list[i]
			newest = max(newest, want.ChangedSeq)
			got := view.Entry(want.Ref)
			if got == nil || got.Name != want.Name || got.Number != want.Number || got.NamedNumber != want.NamedNumber ||
				got.ChangedSeq != want.ChangedSeq || got.Seq != want.Seq || got.Commitment != want.Commitment || (got.Deleted == nil) != (want.Deleted == nil) {
				t.Errorf("knows %+v, want %+v", got, want)
			}
		}
		if view.After() != newest {
			t.Errorf("listed up to %d of %d: the next list begins anew", view.After(), newest)
		}
		m.wantNames("/board/"+step.to, "a", "e", "made")
		m.node("/board/theirs")
	}
}
