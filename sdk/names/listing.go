package names

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// File is what a listing needs to know of one upload.
type File struct {
	Recorded string // what [Recorded] returns
	Ref      string
	Seq      int64 // of the upload, in the ledger
	Age      int64 // where in the ledger the upload got its name
	Deleted  bool
}

// Listing is the files of a group under the names that a mount shows which sees all
// of them for the first time: one file per recorded name, its newest upload that is
// not deleted (N2). Of names that collide the one that is older in the ledger keeps
// its own (N3).
type Listing struct {
	files  []File
	newest map[string]int    // recorded name → index of the newest upload that is not deleted
	paths  map[string]string // recorded name → as shown; only where there is a newest
}

// List makes the listing of all uploads of a group, from what names each.
func List[Entry any](entries []Entry, named func(*Entry) File) *Listing {
	files := make([]File, len(entries))
	for i := range entries {
		files[i] = named(&entries[i])
	}
	l := &Listing{files: files, newest: make(map[string]int), paths: make(map[string]string)}
	ages := make(map[string]int64)
	for i, f := range files {
		if age, ok := ages[f.Recorded]; !ok || f.Age < age {
			ages[f.Recorded] = f.Age
		}
		if at, ok := l.newest[f.Recorded]; !f.Deleted && (!ok || files[at].Seq <= f.Seq) {
			l.newest[f.Recorded] = i
		}
	}
	taken := make(map[string]string) // path → recorded name; of folders with a slash at the end
	order := l.Names()
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(ages[a], ages[b]) })
	for _, name := range order {
		l.paths[name] = show(name, files[l.newest[name]].Ref, taken)
	}
	return l
}

// Names returns the recorded names of the listing, in the order of letters.
func (l *Listing) Names() []string { return slices.Sorted(maps.Keys(l.newest)) }

// Newest returns the index of the file that a recorded name shows, or -1.
func (l *Listing) Newest(recorded string) (i int, ok bool) {
	if i, ok = l.newest[recorded]; !ok {
		i = -1
	}
	return i, ok
}

// Shown returns the path of a recorded name below its group's directory.
func (l *Listing) Shown(recorded string) string { return l.paths[recorded] }

// Resolve returns the recorded name that somebody means who read path in a list or
// in a mount: the one shown so, else the one recorded so, else one that a mount shows
// so which met the files in another order. Any other path is returned as it is.
func (l *Listing) Resolve(path string) string {
	for name, shown := range l.paths {
		if shown == path {
			return name
		}
	}
	if _, ok := l.newest[path]; ok {
		return path
	}
	for _, f := range l.files { // a mount keeps the suffix of the version it met first
		if _, lives := l.newest[f.Recorded]; lives && mayShow(f.Recorded, f.Ref, path) {
			return f.Recorded
		}
	}
	return path
}

// Show returns the path of a recorded name with which no other collides.
func Show(recorded, ref string) string { return show(recorded, ref, make(map[string]string)) }

// show gives a recorded name a path that is free, and takes it and the folders on
// the way.
func show(recorded, ref string, taken map[string]string) string {
	parts := strings.Split(recorded, "/")
	at, upTo := "", ""
	for i, part := range parts {
		isFolder := i < len(parts)-1
		seed := ref
		if upTo += part; isFolder {
			upTo += "/"
			seed = part
		}
		at += Free(Component(part), seed, func(name string) bool {
			owner, isTaken := taken[at+name]
			return !isTaken || isFolder && owner == upTo
		})
		taken[at] = upTo
		if isFolder {
			at += "/"
		}
	}
	return at
}

// mayShow reports whether path is a recorded name with or without the suffixes that
// it gets where others were first.
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
		seeds := []string{seed, seed + "/", seed + "//"} // as [Free] takes them
		plain := Component(part)
		if shown[i] != plain && !slices.ContainsFunc(seeds, func(seed string) bool { return shown[i] == WithSuffix(plain, seed) }) {
			return false
		}
	}
	return true
}
