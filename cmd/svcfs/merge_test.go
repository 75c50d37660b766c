package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The names of files are those of others: only a plain extension reaches the command that merges.
func TestExtensionOf(t *testing.T) {
	for name, want := range map[string]string{"d/plan.txt": ".txt", "film.mp4": ".mp4", "a.tar.gz": ".gz", "plan": "",
		"d.x/plan": "", "résumé.été": ".été", "a.": ".", "a. -o x": "", "a.$(reboot)": "", "a.`x`": "", "a.\n": "", "a.x;y": "", "a.\x00": "",
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
