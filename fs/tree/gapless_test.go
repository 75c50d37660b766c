package tree

import (
	"fmt"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
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

func TestGapless(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var k gapless
	k.saved(5, at(1)) // nothing was listed
	if k.upTo != 0 || !k.at.IsZero() {
		t.Errorf("before a listing: %+v", k)
	}
	k.listed([]sdk.Entry{{Number: 3}, {Number: 7}, {}})
	k.saved(9, at(20)) // 8 is not known
	k.saved(7, at(30)) // known: it was made before it was listed
	if k.upTo != 7 || !k.at.IsZero() {
		t.Errorf("after a gap: %+v", k)
	}
	k.saved(8, at(10))
	if k.upTo != 9 || !k.at.Equal(at(20)) || len(k.beyond) != 0 {
		t.Errorf("answers in another order: %+v", k)
	}
	k.saved(11, at(40))
	k.saved(13, at(50))
	k.listed([]sdk.Entry{{Number: 12}})
	if k.upTo != 13 || !k.at.Equal(at(50)) || len(k.beyond) != 0 {
		t.Errorf("after a listing: %+v", k)
	}
	k.listed(nil)
	if k.upTo != 13 {
		t.Errorf("after an empty listing: %+v", k)
	}
}
