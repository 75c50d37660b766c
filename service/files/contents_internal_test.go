package files

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// A finalize notices every part that came, went or was replaced since it looked, and else
// removes those that the file does not use.
func TestPartsThatChangeAreNoticed(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, now := range map[string][]string{"one came": {"a", "b", "c"}, "one went": {"a"}, "one was replaced": {"a", "c"}, "the same": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			u := upload{id: name}
			seen := &plan{parts: map[string]*planned{}}
			for used, id := range []string{"a", "b"} {
				p := &planned{used: int64(used)}
				p.id, p.blob.ID = id+name, "blob "+id
				seen.parts[p.id] = p
			}
			var useless []string
			err := s.Write(t.Context(), func(tx *store.Tx) (err error) {
				for i, id := range now {
					if _, err := tx.ExecContext(t.Context(), `INSERT INTO parts (id, blob_id, blob_size, group_id, account, upload_id, number, blocks, block_size, leaves)
						VALUES (?, ?, 1, 'g', 'alice', ?, ?, '0', 65536, x'00')`, id+name, fmt.Sprint("blob ", id, name), name, i); err != nil {
						return err
					}
				}
				useless, err = dropUnused(t.Context(), tx, u, seen)
				return err
			})
			if changed := name != "the same"; errors.Is(err, errPartsChanged) != changed || !changed && (err != nil || !slices.Equal(useless, []string{"blob a"})) {
				t.Errorf("useless %q, %v", useless, err)
			}
		})
	}
}
