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

// isScratch reports whether a file called name in d is never uploaded under it.
func (d *Dir) isScratch(name string) bool {
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	return d.namesScratch(name)
}

// namesScratch is isScratch for who holds Tree.mu.
func (d *Dir) namesScratch(name string) bool {
	if isScratch(d.t.cfg.Scratch, name) {
		return true
	}
	for at := d; at != nil && at.kind == dirFolder; at = at.parent {
		if strings.HasSuffix(at.raw, ".git") {
			return isScratch(gitPatterns(), name)
		}
	}
	return false
}

// gitPatterns are the names beneath a folder of git's that git renames or links to
// the real ones. Elsewhere they may be anything: Cargo.lock is no lock.
func gitPatterns() []string {
	return []string{"*.lock", "tmp_*", ".tmp-*", "packed-refs.new"}
}

// isScratch reports whether a name matches one of the patterns.
func isScratch(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// isTemp reports whether the program that creates a file of this name will rename
// it. Other programs may choose such a name and mean it: sedan2024 is a car.
func isTemp(name string, caller Caller) bool {
	program := ""
	switch {
	case isTempOfRsync(name):
		program = "rsync"
	case isRandom(name, "sed"): // sed -i
		program = "sed"
	case isRandom(name, "zi"): // zip, when it changes an archive
		program = "zip"
	default:
		return false
	}
	return caller.Name == nil || caller.Name() == program
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

// isRandom recognises a name of mkstemp(3): prefix and six random characters.
func isRandom(name, prefix string) bool {
	suffix, ok := strings.CutPrefix(name, prefix)
	return ok && len(suffix) == 6 && isRandomSuffix(suffix)
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
