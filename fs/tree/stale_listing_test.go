package tree

import (
	"slices"
	"testing"
)

// W8: a listing that was asked for before a rename does not take it back.
func TestW8ListingFromBeforeARename(t *testing.T) {
	w := team()
	w.put("team", alice, "f", []byte("one"))
	m := mount(t, w, alice, renames)
	m.node("/team/f")
	before := slices.Clone(w.rows["team"])
	d := m.dir("/team")
	if err := d.Rename(t.Context(), "f", d, "f.bak", false); err != nil {
		t.Fatal(err)
	}
	m.Tree.tell(m.Tree.applyEntries(d.group, before))
	if _, ok := d.child("f.bak").(*File); !ok || d.child("f") != nil {
		t.Errorf("after the old listing: f.bak %v, f %v", d.child("f.bak"), d.child("f"))
	}
}
