package chain

import (
	"cmp"
	"slices"
	"strings"
)

// Folders says which files a record of [KindRenameFolder] renames: those that live, and
// whose name begins with the folder and a slash. The audit of the service and every client
// compute it, so that no record names its files. A recorded folder is put, dropped and renamed
// like a file that is called [FolderName].
//
// Keep what lives: Put each file, Drop what is deleted or removed, Put what comes back. The
// time of Rename grows with the files that it renames, not with all. The zero value has no
// files. Folders does not verify that the account may rename.
type Folders[K cmp.Ordered] struct{ pieces [][]named[K] } // ascending; none is empty

type named[K cmp.Ordered] struct {
	name string
	file K
}

func (n named[K]) compare(other named[K]) int {
	return cmp.Or(strings.Compare(n.name, other.name), cmp.Compare(n.file, other.file))
}

// maxFolder is the longest name of a folder, in bytes: that of a file.
const maxFolder = 4096

// MaxMoveBytes is how much one record of [KindRenameFolder] moves, at most, in bytes, where each file and recorded
// folder counts [MoveBytes]: 100,000 of them with names of 250 bytes. It bounds the memory of services and clients.
const MaxMoveBytes = 32 << 20

// leastMove is what a file that gets a new name with its folder counts beside the name, in bytes.
const leastMove = 64

// MoveBytes is what a file counts that gets a new name with its folder, in bytes.
func MoveBytes(name string) int64 { return leastMove + int64(len(name)) }

// longestPiece bounds what one Put or Drop moves in memory, in files.
const longestPiece = 512

// FolderOf returns the folders of a record of [KindRenameFolder], before and after. ok is
// false for folders that no service accepts, see [IsFolderMove].
func FolderOf(r *Record) (before, after string, ok bool) {
	before, after = r.Tag(TagFolder), r.Detail
	return before, after, IsFolderMove(before, after)
}

// IsFolder reports whether a folder may have a name: it has at most 4096 bytes, and no slash at
// either end.
func IsFolder(name string) bool {
	return name != "" && len(name) <= maxFolder && !strings.HasPrefix(name, "/") && !strings.HasSuffix(name, "/")
}

// FolderName returns the name of a recorded folder in [Folders]: it lies beneath itself, so that it
// is renamed with what is beneath it.
func FolderName(folder string) string { return folder + "/" }

// IsFolderMove reports whether one folder may be renamed to another: both are folders
// ([IsFolder]), and none lies in the other.
func IsFolderMove(before, after string) bool {
	return IsFolder(before) && IsFolder(after) && !strings.HasPrefix(before+"/", after+"/") &&
		!strings.HasPrefix(after+"/", before+"/")
}

// seek returns the place of n, or the one where it belongs.
func (f *Folders[K]) seek(n named[K]) (piece, at int, found bool) {
	piece, found = slices.BinarySearchFunc(f.pieces, n, func(p []named[K], n named[K]) int { return p[0].compare(n) })
	if found {
		return piece, 0, true
	}
	if piece == 0 {
		return 0, 0, false
	}
	at, found = slices.BinarySearchFunc(f.pieces[piece-1], n, named[K].compare)
	return piece - 1, at, found
}

// Put adds a file under its name.
func (f *Folders[K]) Put(file K, name string) {
	n := named[K]{name, file}
	i, at, found := f.seek(n)
	switch {
	case found:
		return
	case len(f.pieces) == 0:
		f.pieces = [][]named[K]{{n}}
		return
	}
	p := slices.Insert(f.pieces[i], at, n)
	if len(p) <= longestPiece {
		f.pieces[i] = p
		return
	}
	half := len(p) / 2
	f.pieces[i] = slices.Clone(p[:half])
	f.pieces = slices.Insert(f.pieces, i+1, slices.Clone(p[half:]))
}

// Drop takes a file away. It is no error if there is none.
func (f *Folders[K]) Drop(file K, name string) {
	i, at, found := f.seek(named[K]{name, file})
	if !found {
		return
	}
	if f.pieces[i] = slices.Delete(f.pieces[i], at, at+1); len(f.pieces[i]) == 0 {
		f.pieces = slices.Delete(f.pieces, i, i+1)
	}
}

// Rename gives all files beneath a folder their new names, and calls each with file and new
// name, in the order of the names. each must not use f. It returns false and changes nothing
// if they count more than most bytes, see [MoveBytes].
func (f *Folders[K]) Rename(before, after string, most int64, each func(file K, name string)) bool {
	prefix := before + "/"
	var moved []named[K]
	var zero K
	longer := int64(len(after) - len(before))
	for i, at, _ := f.seek(named[K]{prefix, zero}); i < len(f.pieces); i, at = i+1, 0 {
		piece := f.pieces[i][at:]
		end := slices.IndexFunc(piece, func(n named[K]) bool { return !strings.HasPrefix(n.name, prefix) })
		if end >= 0 {
			piece = piece[:end]
		}
		for _, n := range piece {
			if most -= MoveBytes(n.name) + longer; most < 0 {
				return false
			}
		}
		if moved = append(moved, piece...); end >= 0 {
			break
		}
	}
	for _, m := range moved {
		f.Drop(m.file, m.name)
	}
	for _, m := range moved {
		name := after + m.name[len(before):]
		f.Put(m.file, name)
		each(m.file, name)
	}
	return true
}
