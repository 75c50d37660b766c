package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The names of files are those of others: only a plain extension reaches the command that merges.
func TestExtensionOf(t *testing.T) {
	for name, want := range map[string]string{"d/plan.txt": ".txt", "film.mp4": ".mp4", "a.tar.gz": ".gz", "plan": "",
		"d.x/plan": "", "résumé.été": ".été", "a.": ".", "a. -o x": "", "a.$(reboot)": "", "a.`x`": "", "a.\n": "",
		"a.x;y": "", "a.\x00": "",
		"a." + strings.Repeat("x", 250): "", "a.\xff": ""} {
		if got := extensionOf(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// What is merged is bounded by what is read, and not by what a record says, and comes from a file.
func TestReadAtMost(t *testing.T) {
	if _, err := readAtMost(strings.NewReader("1234"), 3); err == nil {
		t.Error("4 of 3 bytes were read")
	}
	if text, err := readAtMost(strings.NewReader("123"), 3); err != nil || string(text) != "123" {
		t.Errorf("%q, %v", text, err)
	}
	at := filepath.Join(t.TempDir(), "MERGED")
	if _, err := readMerged(at); !os.IsNotExist(err) {
		t.Errorf("nothing: %v", err)
	}
	if err := os.Symlink("/dev/zero", at); err != nil {
		t.Fatal(err)
	}
	if _, err := readMerged(at); err == nil {
		t.Error("a device was read")
	}
}

// The folder of a merge whose program was killed goes with the next command, as soon as nobody has it open: neither
// svcfs nor the program that merges.
func TestKilledMergeIsSwept(t *testing.T) {
	place, err := os.MkdirTemp("/dev/shm", "svcfs-test-")
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(place) })
	a := testApp(t, map[string]string{"XDG_RUNTIME_DIR": place}, "")
	lock, err := a.memoryFolder()
	ok(t, err)
	dir := lock.Name()
	ok(t, os.WriteFile(filepath.Join(dir, "MINE.txt"), []byte("content"), 0o600))
	elsewhere := t.TempDir()
	link := filepath.Join(place, mergeFolder+"link")
	ok(t, os.Symlink(elsewhere, link))
	stays := func(when string) {
		t.Helper()
		a.sweepMerges()
		if _, err := os.Stat(filepath.Join(dir, "MINE.txt")); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	stays("svcfs runs")
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{lock}
	ok(t, cmd.Start())
	ok(t, lock.Close())
	stays("the program that merges runs")
	ok(t, cmd.Process.Kill())
	_ = cmd.Wait()
	a.sweepMerges()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder stays: %v", err)
	}
	for _, path := range []string{link, elsewhere} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}
