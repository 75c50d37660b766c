package tree

import (
	"testing"
)

// N5, W6: what git does with an object: a temporary name is linked to the real
// one, which records it, and is unlinked.
func TestN5LinkOntoARealNameIsTheSave(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	dir := m.dir("/team")
	ok(t, m.save("/team/obj.tmp", "content"))
	f := m.node("/team/obj.tmp").(*File)
	ok(t, dir.Link(t.Context(), f, "obj"))
	m.wantCharges(0, 1)
	m.wantNames("/team", "obj", "obj.tmp")
	if n := m.node("/team/obj"); n != Node(f) || n.Attr().Nlink != 2 {
		t.Errorf("the second name is another file: %+v", n.Attr())
	}
	wantClass(t, dir.Link(t.Context(), f, "obj"), ClassExist)
	wantClass(t, dir.Link(t.Context(), f, "third"), ClassByDesign)
	ok(t, dir.Unlink(t.Context(), "obj.tmp"))
	if n := m.node("/team/obj"); n.Attr().Nlink != 1 {
		t.Errorf("after the unlink: %+v", n.Attr())
	}
	m.wantContent("/team/obj", "content")
	wantClass(t, dir.Unlink(t.Context(), "obj"), ClassByDesign)
	m.refresh()
	m.wantContent("/team/obj", "content")
	m.wantCharges(0, 1)
}

// N5: scratch names may be linked among each other; each is removed separately.
func TestN5LinksBetweenScratchNames(t *testing.T) {
	w := team()
	m := mount(t, w, alice)
	dir := m.dir("/team")
	if _, err := dir.Mkdir(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	ok(t, m.save("/team/a.tmp", "one"))
	f := m.node("/team/a.tmp").(*File)
	for _, to := range []struct {
		dir  *Dir
		name string
	}{{dir, "b.tmp"}, {m.dir("/team/d"), "c.tmp"}} {
		ok(t, to.dir.Link(t.Context(), f, to.name))
	}
	if got := f.Attr().Nlink; got != 3 {
		t.Errorf("%d links, want 3", got)
	}
	if err := dir.Unlink(t.Context(), "a.tmp"); err != nil { // the first name
		t.Fatal(err)
	}
	ok(t, m.save("/team/b.tmp", "two"))
	m.wantContent("/team/d/c.tmp", "two")
	ok(t, dir.Rename(t.Context(), "b.tmp", dir, "real", false))
	m.wantContent("/team/real", "two")
	m.wantContent("/team/d/c.tmp", "two")
	m.wantCharges(0, 1)
	ok(t, m.dir("/team/d").Unlink(t.Context(), "c.tmp"))
	m.wantContent("/team/real", "two")
	if got := m.node("/team/real").Attr().Nlink; got != 1 {
		t.Errorf("%d links at the end", got)
	}
}

func TestN5LinkRefusals(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, alice)
	dir := m.dir("/team")
	f := m.node("/team/f").(*File)
	wantClass(t, dir.Link(t.Context(), f, "g"), ClassByDesign)
	wantClass(t, dir.Link(t.Context(), f, "g.tmp"), ClassByDesign)
	wantClass(t, m.Root().Link(t.Context(), f, "g"), ClassByDesign)
	h := m.create("/team/staged")
	defer h.Release()
	wantClass(t, dir.Link(t.Context(), h.File(), "second"), ClassByDesign)
	if err := dir.Link(t.Context(), h.File(), "staged~"); err != nil {
		t.Error("a scratch name for a staged file: ", err)
	}
	readonly := mount(t, w, alice, func(c *Config) { c.ReadOnly = true })
	wantClass(t, readonly.dir("/team").Link(t.Context(), readonly.node("/team/f").(*File), "g"), ClassReadOnly)
}
