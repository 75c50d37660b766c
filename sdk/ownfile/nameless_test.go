package ownfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file without a name is in no folder, also where the filesystem cannot make one.
func TestNameless(t *testing.T) {
	for name, open := range map[string]func(string) (*os.File, error){"at once": Nameless, "named at first": unnamed} {
		dir := t.TempDir()
		file, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		if _, err := open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
