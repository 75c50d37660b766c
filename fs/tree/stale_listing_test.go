package tree

import (
	"context"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// W8: a listing that was asked for before a rename, or between two of them, does not
// take the last one back; one that was asked for later tells the truth again.
func TestW8ListingFromBeforeARename(t *testing.T) {
	for _, tc := range []struct {
		name        string
		renames     []string
		listedAfter int // renames
		others      string
	}{
		{"before", []string{"f", "f.bak"}, 0, ""},
		{"between two", []string{"f", "g", "f"}, 1, ""},
		{"before both", []string{"f", "g", "h"}, 0, ""},
		{"there and back", []string{"f", "g", "f"}, 0, ""},
		{"another account renames it then", []string{"f", "g"}, 0, "others"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := team()
			e := w.put("team", bob, "f", []byte("one"))
			w.put("team", bob, "stays", []byte("x"))
			m := mount(t, w, bob, renames)
			m.node("/team/f")
			d := m.dir("/team")
			var listed []sdk.Entry
			for i, to := range tc.renames[1:] {
				if i == tc.listedAfter {
					listed = slices.Clone(w.rows["team"])
				}
				if err := d.Rename(t.Context(), tc.renames[i], d, to, false); err != nil {
					t.Fatal(err)
				}
			}
			last := tc.renames[len(tc.renames)-1]
			notices, settled := m.Tree.applyEntries(d.group, listed, tc.listedAfter)
			m.Tree.tell(notices)
			if got := m.names("/team"); !slices.Equal(got, []string{last, "stays"}) || settled {
				t.Errorf("after the old listing: %v, settled %v", got, settled)
			}
			if tc.others != "" {
				if err := (person{w, bob}).RenameFile(t.Context(), "team", e.Ref, tc.others); err != nil {
					t.Fatal(err)
				}
				last = tc.others
			}
			if err := m.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := m.names("/team"); !slices.Equal(got, []string{last, "stays"}) {
				t.Errorf("after a look at the ledger: %v", got)
			}
		})
	}
}

// overtaken is a service whose listings arrive after a rename that began later.
type overtaken struct {
	Remote
	during func()
}

func (o *overtaken) Entries(ctx context.Context, g sdk.GroupID, after sdk.Seq) ([]sdk.Entry, error) {
	list, err := o.Remote.Entries(ctx, g, after)
	if do := o.during; do != nil {
		o.during = nil
		do()
	}
	return list, err
}

// W8: what a listing told that a rename overtook is listed again, or a change by
// others that it held would never be seen.
func TestW8OvertakenListingIsAskedForAgain(t *testing.T) {
	w := team()
	w.put("team", bob, "f", []byte("one"))
	e := w.put("team", alice, "theirs", []byte("x"))
	slow := &overtaken{Remote: person{w, bob}}
	m := mount(t, w, bob, renames, func(c *Config) { c.Remote = slow })
	d := m.dir("/team")
	m.names("/team")
	slow.during = func() {
		if err := d.Rename(t.Context(), "f", d, "g", false); err != nil {
			t.Error(err)
		}
	}
	if err := (person{w, alice}).RenameFile(t.Context(), "team", e.Ref, "other"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := m.names("/team"); !slices.Equal(got, []string{"g", "other"}) {
			t.Errorf("lists %v", got)
		}
	}
}
