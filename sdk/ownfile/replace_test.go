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

// Create says the same of whatever has the name, also of what appears late, and leaves it.
func TestCreateRefusesAnything(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"file":          func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o600) },
		"folder":        func(path string) error { return os.Mkdir(path, 0o755) },
		"link":          func(path string) error { return os.Symlink("other", path) },
		"dangling link": func(path string) error { return os.Symlink("nothing", path) },
		"pipe":          func(path string) error { return syscall.Mkfifo(path, 0o644) },
	} {
		for how, place := range map[string]func(*Pending) error{"as usual": (*Pending).Create, "without links": func(p *Pending) error { return p.place(reserve) }} {
			t.Run(name+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "f")
				if err := os.WriteFile(filepath.Join(dir, "other"), []byte("theirs"), 0o600); err != nil {
					t.Fatal(err)
				}
				late, err := New(path)
				if err != nil {
					t.Fatal(err)
				}
				defer late.Discard()
				if err := make(path); err != nil {
					t.Fatal(err)
				}
				before, err := os.Lstat(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := place(late); !errors.Is(err, fs.ErrExist) {
					t.Errorf("it appeared late: %v", err)
				}
				if err := write(path, []byte("x"), place); !errors.Is(err, fs.ErrExist) {
					t.Errorf("it was there: %v", err)
				}
				after, err := os.Lstat(path)
				if err != nil || !os.SameFile(before, after) {
					t.Errorf("it became %v, %v", after, err)
				}
				if raw, err := os.ReadFile(filepath.Join(dir, "other")); err != nil || string(raw) != "theirs" {
					t.Errorf("what a link shows became %q, %v", raw, err)
				}
			})
		}
	}
}

// Where the file system has no links, a free name is taken all the same.
func TestCreateWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := write(path, []byte("content"), func(p *Pending) error { return p.place(reserve) }); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if left, _ := os.ReadDir(dir); err != nil || string(raw) != "content" || len(left) != 1 {
		t.Errorf("%q, %v, %v", raw, err, left)
	}
	if err := reserve(path+"none", path+"2"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("a failure leaves %v", left)
	}
}
