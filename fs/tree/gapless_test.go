package tree

import (
	"fmt"
	"testing"
)

// R4: a program that makes many files asks for each name before: no look is needed while the
// answers to the saves say that nobody else changed the group. What another changed shows after
// missInterval, as ever.
func TestR4SavesThatTellOfNoOtherNeedNoLook(t *testing.T) {
	w := team()
	w.Put("team", alice, "before", []byte("x"))
	var c clock
	m := mount(t, w, bob, c.use)
	m.names("/team")
	save := func(i int) {
		t.Helper()
		name := fmt.Sprint("/team/file ", i)
		if _, err := m.lookup(name); err == nil {
			t.Fatalf("%s is there already", name)
		}
		ok(t, m.save(name, name))
		c.ns.Add(int64(missInterval) / 4)
	}
	for i := range 4 {
		save(i) // the first look may be due
	}
	before := w.Begun("entries")
	for i := range 20 {
		save(100 + i)
	}
	if n := w.Begun("entries") - before; n != 0 {
		t.Errorf("%d looks for 20 saves of the only one who changes anything", n)
	}
	w.Put("team", alice, "hers", []byte("y"))
	for i := range 6 {
		save(200 + i)
	}
	if !m.shows("/team", "hers")() {
		t.Error("the file of another does not show")
	}
	before = w.Begun("entries")
	for i := range 20 {
		save(300 + i)
	}
	if n := w.Begun("entries") - before; n != 0 {
		t.Errorf("%d looks for 20 more saves", n)
	}
}
