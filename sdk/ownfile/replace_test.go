package ownfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"first", "", "second"} {
		if err := Replace(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(raw) != content || info.Mode().Perm() != 0o600 {
			t.Errorf("%q, %v, %v", raw, err, info)
		}
	}
	if err := Replace(filepath.Join(dir, "none", "f"), nil); err == nil {
		t.Error("made a file where no folder is")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// What is no file stays: whoever names /dev/null as root must not lose it.
func TestReplaceLeavesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link, folder := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "folder")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pipe", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, folder} {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := Replace(path, []byte("x")); err == nil {
			t.Errorf("%s was replaced", path)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
			t.Errorf("%s became %v, %v", path, after, err)
		}
	}
}

// Create leaves what is there, and neither leaves anything behind.
func TestCreateLeavesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Create(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("what was there was replaced: %v", err)
	}
	pending, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pending.WriteString("third"); err != nil {
		t.Fatal(err)
	}
	pending.Discard()
	raw, err := os.ReadFile(path)
	if left, _ := os.ReadDir(dir); err != nil || string(raw) != "first" || len(left) != 1 {
		t.Errorf("%q, %v, %v", raw, err, left)
	}
}
