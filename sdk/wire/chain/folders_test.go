package chain

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// Folders renames what a search through all names would rename.
func TestFoldersRenameWhatIsBeneath(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var f Folders[int]
	want := map[int]string{}
	name := func() string {
		parts := make([]string, 1+random.IntN(3))
		for i := range parts {
			parts[i] = []string{"a", "a!", "a0", "b", ""}[random.IntN(5)] // around the slash in the order of bytes
		}
		return strings.Join(parts, "/")
	}
	for file := range 3 * longestPiece {
		want[file] = name() + strconv.Itoa(file%7)
		f.Put(file, want[file])
		f.Put(file, want[file]) // once more
	}
	for range 2000 {
		switch file := random.IntN(3 * longestPiece); random.IntN(3) {
		case 0:
			f.Drop(file, want[file])
			delete(want, file)
		case 1:
			f.Drop(file, want[file])
			want[file] = name()
			f.Put(file, want[file])
		default:
			before, after := name(), name()
			if !IsFolderMove(before, after) {
				continue
			}
			got := map[int]string{}
			f.Rename(before, after, MaxMoveBytes, func(file int, name string) { got[file] = name })
			expected := map[int]string{}
			for file, name := range want {
				if rest, is := strings.CutPrefix(name, before+"/"); is {
					expected[file] = after + "/" + rest
				}
			}
			if !maps.Equal(got, expected) {
				t.Fatalf("%q to %q renamed %v, want %v", before, after, got, expected)
			}
			maps.Copy(want, expected)
		}
	}
}

// The time of a rename does not grow with the files elsewhere: here a name beside it is
// reached in one step, however many there are.
func TestFoldersAreKeptInPieces(t *testing.T) {
	var f Folders[int]
	var moves int64 // bytes, to "h"
	for i := range 20 * longestPiece {
		f.Put(i, "f/"+strconv.Itoa(i))
		moves += MoveBytes("hh/" + strconv.Itoa(i))
	}
	for i, p := range f.pieces {
		if len(p) == 0 || len(p) > longestPiece {
			t.Errorf("piece %d has %d files", i, len(p))
		}
	}
	if f.Rename("f", "hh", moves-1, func(int, string) { t.Error("one of too many is renamed") }) ||
		!f.Rename("f", "gg", moves, func(int, string) {}) {
		t.Error("most does not bound it")
	}
	for i := range 20 * longestPiece {
		f.Drop(i, "gg/"+strconv.Itoa(i))
	}
	if len(f.pieces) != 0 {
		t.Errorf("%d pieces of nothing", len(f.pieces))
	}
}

func TestFoldersOfARecord(t *testing.T) {
	for move, want := range map[[2]string]bool{
		{"a", "b"}: true, {"a/b", "c"}: true, {"a", "ab"}: true, {"a//b", "c"}: true,
		{"a", strings.Repeat("b", 4096)}: true, {"a", strings.Repeat("b", 4097)}: false,
		{"", "b"}: false, {"a", ""}: false, {"a/", "b"}: false, {"a", "/b"}: false, {"a", "a"}: false, {"a", "a/b"}: false, {"a/b", "a"}: false,
	} {
		r := Record{Kind: KindRenameFolder, Detail: move[1], Tags: []Tag{{TagFolder, move[0]}}}
		if before, after, ok := FolderOf(&r); ok != want || before != move[0] || after != move[1] {
			t.Errorf("%q: %q %q %v", move, before, after, ok)
		}
	}
}
