package files

import (
	"fmt"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// A record is refused when a part that it needs went since it was planned. Parts that it does not use go, also those
// that came since.
func TestPartsBetweenPlanAndRecord(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := &Files{}
	for name, tc := range map[string]struct {
		now, useless []string
	}{
		"the same":            {[]string{"unused", "used"}, []string{"unused"}},
		"one came":            {[]string{"unused", "used", "new"}, []string{"new", "unused"}},
		"the unused one left": {[]string{"used"}, nil},
		"the used one left":   {[]string{"unused"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			u := &upload{blocks: &plan{upload: name, parts: map[string]*planned{}}}
			for used, id := range []string{"unused", "used"} {
				p := &planned{used: int64(used)}
				p.id, p.blob.ID = id+name, id
				u.blocks.parts[p.id] = p
			}
			err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
				for _, id := range tc.now {
					if _, err := tx.ExecContext(t.Context(), `INSERT INTO parts (id, blob_id, blob_size, group_id, account, upload_id, blocks, block_size, leaves)
						VALUES (?, ?, 1, 'g', 'alice', ?, '0', 65536, x'00')`, id+name, fmt.Sprint(id, " of ", name), name); err != nil {
						return err
					}
				}
				if err := f.mayUse(t.Context(), tx, u, groups.Group{}); err != nil {
					return err
				}
				return dropUnused(t.Context(), tx, u)
			})
			gone := !slices.Contains(tc.now, "used")
			if isRefusal(err) != gone || !gone && err != nil {
				t.Fatal(err)
			}
			slices.Sort(u.useless)
			for i, id := range tc.useless {
				tc.useless[i] = id + " of " + name
			}
			if !slices.Equal(u.useless, tc.useless) {
				t.Errorf("useless %q, want %q", u.useless, tc.useless)
			}
		})
	}
}
