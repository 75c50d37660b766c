package outbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// O13: a folder says whose outbox it is, and counts as no damage; those in which something waits are found, also
// one that does not say, and one in which somebody planted something.
func TestO13FoldersSayWhoseTheyAre(t *testing.T) {
	parent := t.TempDir()
	if found, err := Folders(filepath.Join(parent, "none")); err != nil || found != nil {
		t.Errorf("%v, %v", found, err)
	}
	moved := Place{"https://old.example", "alice.svc"}
	for name, place := range map[string]Place{"earlier": {}, "empty": moved, "moved": moved, "planted": {}} {
		dir := filepath.Join(parent, name)
		f, err := openFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		if place != (Place{}) {
			for _, p := range []Place{{"https://older.example", "alice.svc"}, place, place} {
				if err := Mark(dir, p); err != nil {
					t.Fatal(err)
				}
			}
		}
		if name == "planted" {
			if err := unix.Mkfifo(filepath.Join(dir, placeName), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, _ := mustOpen(t, f)
		if name != "empty" {
			if err := s.add(t.Context(), newItem("a")); err != nil {
				t.Fatal(err)
			}
		}
		if s, items := mustOpen(t, f); len(s.damaged) > 0 || len(items) > 1 || s.bytes() > 1<<10 {
			t.Errorf("%s: %d items, damaged %q", name, len(items), s.damaged)
		}
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Folders(parent)
	want := []Folder{{filepath.Join(parent, "earlier"), Place{}, 1}, {filepath.Join(parent, "moved"), moved, 1},
		{filepath.Join(parent, "planted"), Place{}, 1}}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("found %+v, %v", found, err)
	}
}
