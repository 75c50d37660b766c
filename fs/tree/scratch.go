package tree

import (
	"path"
	"strings"
)

// scratchPatterns are the names that live in memory only (W6): lock, swap,
// backup and download files of common programs, in path.Match form.
func scratchPatterns() []string {
	return []string{".~lock.*#", "*.swp", "*.swx", "*~", "4913", ".goutputstream-*", "*.tmp", "*.part", "*.crdownload",
		".#*", "#*#", ".fuse_hidden*", ".nfs*", ".DS_Store", "._*", ".Trash-*", ".xdp-*"}
}

// isScratch reports whether a file of this name is never uploaded under it.
func isScratch(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return isTempOfRsync(name) || isTempOfSed(name)
}

// isTempOfRsync recognises .NAME.XXXXXX, the name rsync writes to before it
// renames onto NAME. Six letters or digits of which one is not a lower-case
// letter keep hidden files such as .config.backup out.
func isTempOfRsync(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if !strings.HasPrefix(name, ".") || dot < 2 || len(name)-dot-1 != 6 {
		return false
	}
	return isRandomSuffix(name[dot+1:])
}

// isTempOfSed recognises sedXXXXXX, the name sed -i writes to.
func isTempOfSed(name string) bool {
	return len(name) == 9 && strings.HasPrefix(name, "sed") && isRandomSuffix(name[3:])
}

func isRandomSuffix(s string) bool {
	mixed := false
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z':
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			mixed = true
		default:
			return false
		}
	}
	return mixed
}
