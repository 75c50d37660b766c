package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// folderToPut is a folder with files of somebody else in bob, and beside it a file that stays here.
func folderToPut(t *testing.T) (dir, secret string) {
	t.Helper()
	top := t.TempDir()
	dir, secret = filepath.Join(top, "shared"), filepath.Join(top, "home")
	for _, name := range []string{"home/file", "shared/bob/file", "shared/bob/in/file", "shared/private/file",
		"shared/private/in/file"} {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o700))
		ok(t, os.WriteFile(filepath.Join(top, name), []byte(name), 0o600))
	}
	return dir, secret
}

// Threat 85: what takes the place of a file, or of a folder above it, after put has found it is not read.
func TestThreat85FilesThatAreSwapped(t *testing.T) {
	for what, swap := range map[string]func(t *testing.T, bob, secret string){
		"a link out of the folder": func(t *testing.T, bob, secret string) {
			ok(t, os.Remove(bob+"/file"))
			ok(t, os.Symlink(secret+"/file", bob+"/file"))
		},
		"a link to what is left out": func(t *testing.T, bob, _ string) {
			ok(t, os.Remove(bob+"/file"))
			ok(t, os.Symlink("../private/file", bob+"/file"))
		},
		"a folder": func(t *testing.T, bob, secret string) {
			ok(t, os.Rename(bob, bob+".old"))
			ok(t, os.Symlink(secret, bob))
		},
		"a folder that is left out": func(t *testing.T, bob, _ string) {
			ok(t, os.Rename(bob, bob+".old"))
			ok(t, os.Symlink("private", bob))
		},
		"a pipe": func(t *testing.T, bob, _ string) {
			ok(t, os.Remove(bob+"/file"))
			ok(t, unix.Mkfifo(bob+"/file", 0o600))
		},
		"another file": func(t *testing.T, bob, _ string) {
			ok(t, os.Rename(bob+"/in/file", bob+"/file"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir, secret := folderToPut(t)
			a := &app{ui: newTerminal(io.Discard, io.Discard)}
			files, err := a.findLocal([]string{dir}, putFlags{exclude: []string{"private/", "in/"}})
			if err != nil || len(files) != 1 || files[0].name != "shared/bob/file" {
				t.Fatalf("%+v, %v", files, err)
			}
			swap(t, filepath.Join(dir, "bob"), secret)
			content, err := a.open(t.Context(), files[0], false, 100)
			if err == nil {
				all, _ := io.ReadAll(content)
				t.Fatalf("it was read: %q", all)
			}
			if exitCodeOf(err) != exitNotFound || !strings.Contains(err.Error(), filepath.Join(dir, "bob/file")) ||
				!strings.Contains(a.hints.of(err), "do not change the folder meanwhile") {
				t.Errorf("%d: %v; hint: %s", exitCodeOf(err), err, a.hints.of(err))
			}
		})
	}
}

// doing is a standard error at whose first line something happens.
type doing struct{ do func() }

func (d *doing) Write(p []byte) (int, error) {
	if d.do != nil {
		d.do()
	}
	d.do = nil
	return len(p), nil
}

// Threat 85: the same for a folder that is swapped while put looks for files: nothing is listed through a link.
func TestThreat85FoldersThatAreSwapped(t *testing.T) {
	for _, target := range []string{"home", "shared/private"} {
		t.Run(target, func(t *testing.T) {
			dir, _ := folderToPut(t)
			ok(t, unix.Mkfifo(filepath.Join(dir, "bob/a-pipe"), 0o600)) // a line says that it is left out
			in := filepath.Join(dir, "bob/in")
			a := &app{ui: newTerminal(io.Discard, &doing{func() {
				ok(t, os.Rename(in, in+".old"))
				ok(t, os.Symlink(filepath.Join(dir, "..", target), in))
			}})}
			files, err := a.findLocal([]string{dir}, putFlags{exclude: []string{"private/"}})
			if err == nil || exitCodeOf(err) != exitNotFound || !strings.Contains(err.Error(), in) {
				t.Errorf("%v, and %+v", err, files)
			}
		})
	}
}
