package names

import (
	"cmp"
	"slices"
	"strings"
)

// File is one upload, as a listing needs it.
type File struct {
	Recorded string // result of [Recorded]
	Ref      string
	Seq      int64 // ledger sequence of the upload
	Age      int64 // ledger sequence of the record that gave the upload its name
	Deleted  bool
}

// Listing is the files of a group under the names of a mount that sees all files for the
// first time. It shows one file for each recorded name: the newest upload that is not
// deleted (N2). If names collide, the name that is older in the ledger stays unchanged
// (N3).
type Listing struct {
	files []File
	at    map[string]int // recorded name → index in named
	named []named
}

// named is a recorded name.
type named struct {
	recorded string
	newest   int    // index of the newest upload that is not deleted; -1 = all are
	age      int64  // of the oldest upload
	path     string // that is shown; "" = none is
}

// List returns the listing of all uploads of a group. fileOf returns what the listing needs
// of an upload.
func List[Entry any](entries []Entry, fileOf func(*Entry) File) *Listing {
	l := &Listing{files: make([]File, len(entries)), at: make(map[string]int, len(entries))}
	for i := range entries {
		f := fileOf(&entries[i])
		l.files[i] = f
		n, ok := l.at[f.Recorded]
		if !ok {
			n = len(l.named)
			l.at[f.Recorded], l.named = n, append(l.named, named{recorded: f.Recorded, newest: -1, age: f.Age})
		}
		of := &l.named[n]
		of.age = min(of.age, f.Age)
		if !f.Deleted && (of.newest < 0 || l.files[of.newest].Seq <= f.Seq) {
			of.newest = i
		}
	}
	taken := make(paths, len(l.named))
	order := make([]*named, 0, len(l.named))
	for i := range l.named {
		if of := &l.named[i]; of.newest >= 0 {
			order = append(order, of)
		}
	}
	slices.SortFunc(order, func(a, b *named) int {
		return cmp.Or(cmp.Compare(a.age, b.age), strings.Compare(a.recorded, b.recorded))
	})
	for _, of := range order {
		of.path = show(of.recorded, l.files[of.newest].Ref, taken)
	}
	return l
}

// Names returns the recorded names of the listing, in alphabetical order.
func (l *Listing) Names() []string {
	list := make([]string, 0, len(l.named))
	for i := range l.named {
		if l.named[i].newest >= 0 {
			list = append(list, l.named[i].recorded)
		}
	}
	slices.Sort(list)
	return list
}

// Newest returns the index of the file that a recorded name shows, or -1.
func (l *Listing) Newest(recorded string) (i int, ok bool) {
	n, ok := l.at[recorded]
	if !ok || l.named[n].newest < 0 {
		return -1, false
	}
	return l.named[n].newest, true
}

// Shown returns the path of a recorded name, below the directory of its group.
func (l *Listing) Shown(recorded string) string {
	if n, ok := l.at[recorded]; ok {
		return l.named[n].path
	}
	return ""
}

// Resolve returns the recorded name for a path that a person read in a list or in a mount:
// the name that this listing shows so, else the name recorded so, else the name that a
// mount shows so after it saw the files in another order. It returns any other path
// unchanged.
func (l *Listing) Resolve(path string) string {
	for i := range l.named {
		if of := &l.named[i]; of.newest >= 0 && of.path == path {
			return of.recorded
		}
	}
	if _, ok := l.Newest(path); ok {
		return path
	}
	for _, f := range l.files { // a mount keeps the suffix of the version that it saw first
		if _, lives := l.Newest(f.Recorded); lives && mayShow(f.Recorded, f.Ref, path) {
			return f.Recorded
		}
	}
	return path
}

// Folder returns the recorded folder for the path of a folder that a person read in a list
// or in a mount: the folder that this listing shows so, else the folder recorded so. ok is
// false if nothing lives beneath either.
func (l *Listing) Folder(path string) (recorded string, ok bool) {
	depth := strings.Count(path, "/") + 1
	for i := range l.named {
		if of := &l.named[i]; of.newest >= 0 && strings.HasPrefix(of.path, path+"/") {
			return strings.Join(strings.Split(of.recorded, "/")[:depth], "/"), true
		}
	}
	for i := range l.named {
		if of := &l.named[i]; of.newest >= 0 && strings.HasPrefix(of.recorded, path+"/") {
			return path, true
		}
	}
	return path, false
}

// Show returns the path of a recorded name that collides with no other.
func Show(recorded, ref string) string { return show(recorded, ref, make(paths)) }

// paths are the names in each folder of a listing, as they are shown. They hold no path as a whole: a
// name of 4 KiB may have 2,000 folders.
type (
	paths map[place]taker
	place struct {
		folder int32 // number of the folder, 0 for that of the group
		name   string
	}
	taker struct {
		recorded string // name of the file; of a folder with a slash at the end
		folder   int32  // its number
	}
)

// show returns a free path for a recorded name, and marks the path and its folders as
// taken.
func show(recorded, ref string, taken paths) string {
	var path strings.Builder
	in := int32(0)
	for begin := 0; ; {
		part, upTo, seed := recorded[begin:], recorded, ref
		slash := strings.IndexByte(part, '/')
		isFolder := slash >= 0
		if isFolder {
			part, upTo = part[:slash], recorded[:begin+slash+1]
			seed = part
		}
		name := Free(Component(part), seed, func(name string) bool {
			by, isTaken := taken[place{in, name}]
			return !isTaken || isFolder && by.recorded == upTo
		})
		path.WriteString(name)
		by, isTaken := taken[place{in, name}]
		if !isTaken {
			by = taker{upTo, int32(len(taken) + 1)} //#nosec G115 -- memory ends before
			taken[place{in, name}] = by
		}
		if !isFolder {
			return path.String()
		}
		path.WriteByte('/')
		in, begin = by.folder, begin+slash+1
	}
}

// mayShow reports whether path is a recorded name, with or without the suffixes that the
// name gets after a collision.
func mayShow(recorded, ref, path string) bool {
	parts, shown := strings.Split(recorded, "/"), strings.Split(path, "/")
	if len(parts) != len(shown) {
		return false
	}
	for i, part := range parts {
		seed := part
		if i == len(parts)-1 {
			seed = ref
		}
		seeds := []string{seed, seed + "/", seed + "//"} // as [Free] uses them
		plain := Component(part)
		if shown[i] != plain && !slices.ContainsFunc(seeds,
			func(seed string) bool { return shown[i] == WithSuffix(plain, seed) }) {
			return false
		}
	}
	return true
}
