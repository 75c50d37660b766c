package names

import "strings"

// folderBytes is the memory of a folder, where names are sorted into folders ([List]).
const folderBytes = 100

// FoldersFootprint returns how much memory the folders of a name take where names are sorted into folders
// ([List]), in bytes, but for those that the name before has too: most names lie beside their neighbours, and a
// folder takes memory once. Local, free.
func FoldersFootprint(before, name string) int64 {
	n := 0
	for n < min(len(before), len(name)) && before[n] == name[n] {
		n++
	}
	return folderBytes * int64(strings.Count(name[n:], "/"))
}
