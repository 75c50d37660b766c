package names_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/names/namestest"
)

func TestShow(t *testing.T) {
	for _, c := range namestest.Table() {
		t.Run(c.Name, func(t *testing.T) {
			if got := names.Show(names.Recorded(c.Raw, c.ContentType, namestest.Sum()), "ref"); got != c.Shown {
				t.Errorf("%q is shown as %q, want %q", c.Raw, got, c.Shown)
			}
		})
	}
	long := strings.Repeat("ü", 200) + ".txt"
	if got := names.Show(long, "ref"); len(got) > names.MaxBytes || got != names.WithSuffix(long, "ref") {
		t.Errorf("a long name is shown as %q", got)
	}
}

// Of names that collide the one that is older in the ledger keeps its own, and what
// is shown leads back to what is recorded.
func TestListing(t *testing.T) {
	list := names.List([]names.File{
		{Recorded: "a", Ref: "1", Seq: 1, Age: 1},
		{Recorded: "a/b", Ref: "2", Seq: 2, Age: 2},
		{Recorded: "c\nd", Ref: "3", Seq: 3, Age: 3},
		{Recorded: "c%0Ad", Ref: "4", Seq: 4, Age: 4},
		{Recorded: "gone", Ref: "5", Seq: 5, Age: 5, Deleted: true},
		{Recorded: "z", Ref: "6", Seq: 6, Age: 6, Deleted: true},
		{Recorded: "z/y", Ref: "7", Seq: 7, Age: 7},
		{Recorded: "z", Ref: "8", Seq: 8, Age: 8},
		{Recorded: "z", Ref: "9", Seq: 9, Age: 9},
	}, func(f *names.File) names.File { return *f })
	want := map[string]string{"a": "a", "a/b": names.WithSuffix("a", "a") + "/b", "c\nd": "c%0Ad", "c%0Ad": names.WithSuffix("c%0Ad", "4"),
		"z": "z", "z/y": names.WithSuffix("z", "z") + "/y"}
	for recorded, shown := range want {
		if got := list.Shown(recorded); got != shown {
			t.Errorf("%q is shown as %q, want %q", recorded, got, shown)
		}
		if got := list.Resolve(shown); got != recorded {
			t.Errorf("%q means %q, want %q", shown, got, recorded)
		}
	}
	if got := list.Names(); !slices.Equal(got, []string{"a", "a/b", "c\nd", "c%0Ad", "z", "z/y"}) {
		t.Errorf("the listing has %q", got)
	}
	if at, ok := list.Newest("z"); at != 8 || !ok {
		t.Errorf("the newest is %d, %v", at, ok)
	}
	if at, ok := list.Newest("gone"); ok {
		t.Errorf("what is deleted is listed, %d", at)
	}
	otherOrder := map[string]string{names.WithSuffix("a", "1"): "a", "a/b": "a/b", names.WithSuffix("c%0Ad", "3"): "c\nd", "nothing": "nothing", "gone": "gone"}
	for path, recorded := range otherOrder {
		if got := list.Resolve(path); got != recorded {
			t.Errorf("%q, as another mount shows it, means %q, want %q", path, got, recorded)
		}
	}
}

// A person names a folder as it is shown, or as it is recorded.
func TestFolderAsShownOrRecorded(t *testing.T) {
	var files []names.File
	for i, name := range []string{"a", "a/in", "o\n/x", "o%0A/y", "deep/er/f", "gone/f"} { // a file and a folder of one name, and two folders that are shown alike
		files = append(files, names.File{Recorded: name, Ref: fmt.Sprint("ref", i), Seq: int64(i), Age: int64(i), Deleted: name == "gone/f"})
	}
	l := names.List(files, func(f *names.File) names.File { return *f })
	for _, name := range []string{"a/in", "o\n/x", "o%0A/y", "deep/er/f"} {
		want, _, _ := strings.Cut(name, "/")
		shown, _, _ := strings.Cut(l.Shown(name), "/")
		if got, ok := l.Folder(shown); got != want || !ok {
			t.Errorf("%q, which is shown as %q: %q %v", want, shown, got, ok)
		}
	}
	for path, want := range map[string]string{"o\n": "o\n", "deep/er": "deep/er", "deep": "deep", "gone": "", "deep/er/f": "", "dee": "", "": "", "none": ""} {
		if got, ok := l.Folder(path); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v", path, got, ok)
		}
	}
}

// A group is a folder of its own.
func TestCheckNewGroup(t *testing.T) {
	for id, good := range map[string]bool{"team": true, "a b": true, "a\tb": false, "": false, ".": false, "..": false, "../x": false, "a/b": false, names.Control: false,
		"a\xe9": false} {
		if err := names.CheckNewGroup(id); (err == nil) != good {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A new name is a path below the folder of its group.
func TestCheckNew(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "notes/today.txt": true, "ä%b~": true, ".hidden": true, "...": true, "two\nlines": false, "a\x7fb": false, "a\u009bb": false,
		"": false, "../x": false, "/abs/x": false, "a//b": false, "a/": false, ".": false, "a/../b": false, "a/./b": false,
		"caf\xe9.txt": false, "caf\xe9/a": false, "\uFFFD": true,
	} {
		if err := names.CheckNew(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Threat 8: a name of thousands of folders takes memory for each of them, and not for each path.
func TestThreat8NamesOfManyFolders(t *testing.T) {
	var files []names.File
	for i := range 10 {
		files = append(files, names.File{Recorded: fmt.Sprint(i, strings.Repeat("/d", 2000)), Ref: fmt.Sprint(i), Seq: int64(i), Age: int64(i)})
	}
	taken := testing.AllocsPerRun(1, func() {
		list := names.List(files, func(f *names.File) names.File { return *f })
		if got := list.Shown(files[3].Recorded); got != files[3].Recorded {
			t.Errorf("it is shown as %.20s…", got)
		}
	})
	if taken > 2000 {
		t.Errorf("20,000 folders took %.0f allocations", taken)
	}
}
