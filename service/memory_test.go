package service

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The smallest memory.max of a control group and those above it counts.
func TestMemoryOfTheControlGroup(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{"a/memory.max": "3000\n", "a/b/memory.max": "max\n",
		"a/b/c/memory.max": "4000\n", "memory.max": "9000\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[string]int64{"/a/b/c": 3000, "/a": 3000, "/": 9000, "/other": 9000, "": 10_000} {
		file := filepath.Join(root, "cgroup")
		if err := os.WriteFile(file, fmt.Appendf(nil, "1:name=systemd:/x\n0::%s\n", group), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := groupMemory(file, root, 10_000); got != want {
			t.Errorf("group %q: %d, want %d", group, got, want)
		}
	}
	if got := groupMemory(filepath.Join(root, "none"), root, 10_000); got != 10_000 {
		t.Errorf("without control groups: %d", got)
	}
}
