package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every file is in a room of the package, and only gc removes blobs: whoever else would, could remove one that a
// transaction of another process owns by then.
func TestRooms(t *testing.T) {
	rooms := []string{"upload", "content", "list", "names", "ends", "gc"}
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		room, _, _ := strings.Cut(strings.TrimSuffix(path, ".go"), "_")
		if strings.HasSuffix(path, "_test.go") || path == "files.go" {
			continue
		}
		if !slices.Contains(rooms, room) {
			t.Errorf("%s is in no room", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if removes := strings.Contains(string(text), "f.blobs.Delete("); removes && room != "gc" {
			t.Errorf("%s removes blobs", path)
		}
	}
}
