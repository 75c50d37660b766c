package powerfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/powerfs"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/trust"
)

// losses are how many states the tests look at behind each operation.
const losses = 12

// each calls check with every state from a position on, and with the position.
func each(t *testing.T, d *powerfs.Disk, from int, check func(dir string, position int)) {
	t.Helper()
	parent := t.TempDir()
	for position := from; position <= d.Position(); position++ {
		for seed := range uint64(losses) {
			dir := filepath.Join(parent, fmt.Sprintf("%d-%d", position, seed))
			must(t, os.Mkdir(dir, 0o700))
			must(t, d.Lose(position, seed, dir))
			check(dir, position)
			must(t, os.RemoveAll(dir))
		}
	}
}

// found counts the states by what seen returns of them.
func found(t *testing.T, d *powerfs.Disk, from int, seen func(dir string) string) map[string]int {
	t.Helper()
	states := map[string]int{}
	each(t, d, from, func(dir string, _ int) { states[seen(dir)]++ })
	return states
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// text returns what a file holds, and "-" if it is missing.
func text(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(raw)
}

func write(t *testing.T, path, content string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	_, err = f.WriteString(content)
	must(t, err)
	return f
}

// A disk is a file system like any other, until its power goes.
func TestDiskIsAFileSystem(t *testing.T) {
	d := powerfs.New(t)
	at := func(name string) string { return filepath.Join(d.Dir(), name) }
	must(t, os.Mkdir(at("folder"), 0o750))
	f := write(t, at("folder/a"), strings.Repeat("x", 10_000))
	must(t, f.Truncate(5000))
	must(t, f.Truncate(6000))
	_, err := f.WriteAt([]byte("yy"), 7000)
	must(t, errors.Join(err, f.Sync(), f.Close()))
	must(t, errors.Join(os.Link(at("folder/a"), at("b")), os.Symlink("folder/a", at("link")),
		os.Rename(at("b"), at("folder/c"))))
	want := strings.Repeat("x", 5000) + strings.Repeat("\x00", 2000) + "yy"
	for _, name := range []string{"folder/a", "folder/c", "link"} {
		if got := text(t, at(name)); got != want {
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
	if err := os.Remove(at("folder")); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Error(err)
	}
	must(t, errors.Join(os.Remove(at("folder/a")), os.Remove(at("folder/c")), os.Remove(at("folder"))))
	names, err := os.ReadDir(d.Dir())
	if err != nil || len(names) != 1 || names[0].Name() != "link" {
		t.Errorf("%v, %v", names, err)
	}
}

// What a program did not sync may be there, missing, or torn: each of them is found.
func TestLossOfWhatWasNotSynced(t *testing.T) {
	old, fresh := strings.Repeat("o", 3*4096), strings.Repeat("n", 3*4096)
	zeros := strings.Repeat("\x00", 3*4096)
	for name, tc := range map[string]struct {
		do   func(t *testing.T, dir string)
		want []string // each in some state
		none []string // in no state
	}{
		"a file without a sync": {
			do:   func(t *testing.T, dir string) { must(t, write(t, filepath.Join(dir, "f"), fresh).Close()) },
			want: []string{"-", "", zeros, fresh}, none: []string{old},
		},
		"a file without a sync of its folder": {
			do: func(t *testing.T, dir string) {
				f := write(t, filepath.Join(dir, "f"), fresh)
				must(t, errors.Join(f.Sync(), f.Close()))
			}, want: []string{"-", fresh}, none: []string{"", zeros},
		},
		"a folder without a sync of the one above": {
			do: func(t *testing.T, dir string) {
				must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
				f := write(t, filepath.Join(dir, "d/f"), fresh)
				must(t, errors.Join(f.Sync(), f.Close(), ownfile.SyncFolder(filepath.Join(dir, "d")),
					os.Symlink("d/f", filepath.Join(dir, "f")), ownfile.SyncFolder(filepath.Join(dir, "d"))))
			}, want: []string{"-", fresh}, none: []string{"", zeros},
		},
		"a rename before the sync of the content": {
			do: func(t *testing.T, dir string) {
				f := write(t, filepath.Join(dir, "f"), old)
				must(t, errors.Join(f.Sync(), f.Close(), ownfile.SyncFolder(dir)))
				must(t, write(t, filepath.Join(dir, "g"), fresh).Close())
				must(t, errors.Join(os.Rename(filepath.Join(dir, "g"), filepath.Join(dir, "f")),
					ownfile.SyncFolder(dir)))
			}, want: []string{"", zeros, fresh}, none: []string{"-", old},
		},
		"a file that is written over": {
			do: func(t *testing.T, dir string) {
				f := write(t, filepath.Join(dir, "f"), old)
				must(t, errors.Join(f.Sync(), f.Close(), ownfile.SyncFolder(dir)))
				must(t, write(t, filepath.Join(dir, "f"), fresh).Close())
			}, want: []string{old, fresh, old[:4096] + fresh[4096:], fresh[:4096] + old[4096:]},
			none: []string{"-", ""},
		},
		"everything is synced": {
			do: func(t *testing.T, dir string) {
				f := write(t, filepath.Join(dir, "f"), fresh)
				must(t, errors.Join(f.Sync(), f.Close(), ownfile.SyncFolder(dir)))
			}, want: []string{fresh}, none: []string{"-", "", zeros},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := powerfs.New(t)
			tc.do(t, d.Dir())
			states := map[string]int{}
			for seed := range uint64(30 * losses) {
				dir := t.TempDir()
				must(t, d.Lose(d.Position(), seed, dir))
				states[text(t, filepath.Join(dir, "f"))]++
			}
			for _, want := range tc.want {
				if states[want] == 0 {
					t.Errorf("no state of %d has %.20q", len(states), want)
				}
			}
			for _, none := range tc.none {
				if states[none] > 0 {
					t.Errorf("%d states have %.20q", states[none], none)
				}
			}
		})
	}
}

// A rename between two folders is there or not, whatever is synced, and the sync of one
// folder makes it durable in both.
func TestRenameIsWhole(t *testing.T) {
	d := powerfs.New(t)
	at := func(name string) string { return filepath.Join(d.Dir(), name) }
	must(t, errors.Join(os.Mkdir(at("a"), 0o700), os.Mkdir(at("b"), 0o700)))
	must(t, write(t, at("a/f"), "").Close())
	must(t, errors.Join(ownfile.SyncFolder(d.Dir()), ownfile.SyncFolder(at("a"))))
	before := d.Position()
	must(t, os.Rename(at("a/f"), at("b/g")))
	both := func(dir string) string {
		return text(t, filepath.Join(dir, "a/f")) + "|" + text(t, filepath.Join(dir, "b/g"))
	}
	if got := found(t, d, before, both); len(got) != 2 || got["|-"] == 0 || got["-|"] == 0 {
		t.Errorf("the states are %v", got)
	}
	must(t, ownfile.SyncFolder(at("b")))
	if got := found(t, d, d.Position(), both); len(got) != 1 || got["-|"] == 0 {
		t.Errorf("behind a sync the states are %v", got)
	}
}

// The same seed chooses the same state, and SyncAll leaves no choice.
func TestLossIsRepeatable(t *testing.T) {
	d := powerfs.New(t)
	for i := range 20 {
		must(t, write(t, filepath.Join(d.Dir(), fmt.Sprint(i)), strings.Repeat("x", 9000)).Close())
	}
	state := func(seed uint64) (all []byte) {
		dir := t.TempDir()
		must(t, d.Lose(d.Position(), seed, dir))
		for i := range 20 {
			all = append(all, text(t, filepath.Join(dir, fmt.Sprint(i)))+"\n"...)
		}
		return all
	}
	different := map[string]bool{}
	for seed := range uint64(losses) {
		if first := state(seed); !bytes.Equal(first, state(seed)) {
			t.Errorf("seed %d chose two states", seed)
		} else {
			different[string(first)] = true
		}
	}
	if len(different) < losses/2 {
		t.Errorf("%d seeds chose %d states", losses, len(different))
	}
	d.SyncAll()
	if !bytes.Equal(state(1), bytes.Repeat([]byte(strings.Repeat("x", 9000)+"\n"), 20)) {
		t.Error("something is lost that was synced")
	}
}

// What package ownfile wrote survives: the file of a name is the earlier or the new one,
// whole, and the new one once the call has returned. The state of mounts, uploads that can
// be resumed, what a machine trusts and the master key are such files.
func TestOwnFilesSurvive(t *testing.T) {
	content := func(i int) string { return strings.Repeat(fmt.Sprint(i), 5000) }
	d := powerfs.New(t)
	var done []int // position of each of them
	for i := range 4 {
		must(t, errors.Join(ownfile.Replace(filepath.Join(d.Dir(), "replaced"), []byte(content(i))),
			ownfile.Create(filepath.Join(d.Dir(), fmt.Sprint(i)), []byte(content(i)))))
		done = append(done, d.Position())
	}
	each(t, d, 0, func(dir string, position int) {
		replaced, least := text(t, filepath.Join(dir, "replaced")), "-"
		for i, at := range done {
			created := text(t, filepath.Join(dir, fmt.Sprint(i)))
			if created != content(i) && (created != "-" || position >= at) {
				t.Errorf("behind %d (%s) file %d has %.20q and %d bytes", position, d.Op(position), i, created,
					len(created))
			}
			if position >= at {
				least = content(i)
			}
		}
		if replaced < least || replaced != "-" && replaced != content(int(replaced[0]-'0')) {
			t.Errorf("behind %d (%s) the file has %.20q and %d bytes, least %.20q", position, d.Op(position), replaced,
				len(replaced), least)
		}
	})
}

// A file in folders that package ownfile made is found, also if another process made the
// folders and was killed.
func TestOwnFoldersSurvive(t *testing.T) {
	d := powerfs.New(t)
	must(t, os.Mkdir(filepath.Join(d.Dir(), "a"), 0o700))
	deep := filepath.Join(d.Dir(), "a/b/c")
	must(t, errors.Join(ownfile.MakeFolder(filepath.Join(d.Dir(), "a")), ownfile.MakeFolder(deep),
		ownfile.MakeFolder(deep), ownfile.Replace(filepath.Join(deep, "f"), []byte("kept"))))
	for seed := range uint64(losses) {
		dir := t.TempDir()
		must(t, d.Lose(d.Position(), seed, dir))
		if got := text(t, filepath.Join(dir, "a/b/c/f")); got != "kept" {
			t.Errorf("seed %d: the file has %q", seed, got)
		}
	}
	must(t, write(t, filepath.Join(d.Dir(), "file"), "").Close())
	if err := ownfile.MakeFolder(filepath.Join(d.Dir(), "file")); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := ownfile.MakeFolder(filepath.Join(d.Dir(), "file/below")); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

// What a machine trusts is never damaged, and never older than the last save that returned.
func TestTrustSurvives(t *testing.T) {
	d := powerfs.New(t)
	const place = "state/svcfs/trust.json"
	m, err := trust.Open(filepath.Join(d.Dir(), place), trust.Of{})
	must(t, err)
	var saved []int // positions
	for size := range int64(4) {
		m.Checkpoint(strings.Repeat("note ", 1000), size+1)
		must(t, m.Save())
		saved = append(saved, d.Position())
	}
	each(t, d, 0, func(dir string, position int) {
		found, err := trust.Open(filepath.Join(dir, place), trust.Of{})
		if err != nil {
			t.Errorf("behind %d (%s): %v", position, d.Op(position), err)
			return
		}
		for i, at := range saved {
			if position >= at && found.Size() < int64(i+1) {
				t.Errorf("behind %d (%s) the size is %d, and %d was saved", position, d.Op(position), found.Size(), i+1)
			}
		}
	})
}
