package policy

import (
	"path"
	"strings"
)

// ScratchNames returns the names that live in memory only (W6): lock, swap, backup and
// download files of common programs, in path.Match form.
func ScratchNames() []string {
	return []string{".~lock.*#", "*.swp", "*.swx", "*~", "4913", ".goutputstream-*", "*.tmp", "*.part", "*.crdownload",
		".#*", "#*#", ".fuse_hidden*", ".nfs*", ".DS_Store", "._*", ".Trash-*", ".xdp-*"}
}

// GitNames returns the names beneath a folder of git's that git renames or links to
// the real ones. Elsewhere they may be anything: Cargo.lock is no lock.
func GitNames() []string {
	return []string{"*.lock", "tmp_*", ".tmp-*", "packed-refs.new", "gc.pid"}
}

// IsWastebasket reports whether a folder of that name in the root of a file system is
// where file managers throw away.
func IsWastebasket(folder string) bool { return strings.HasPrefix(folder, ".Trash-") }

// IsGit reports whether a folder of that name is git's.
func IsGit(folder string) bool { return strings.HasSuffix(folder, ".git") }

// Matches reports whether a name is one of those that patterns describe.
func Matches(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// Meant returns the name of the file that a program saves through a scratch name, as far
// as the scratch name tells: notes.txt for .notes.txt.swp, notes.txt~ and .notes.txt.Ab12Cd.
// A dot before the name may belong to either.
func Meant(scratch string) (name string, ok bool) {
	name = scratch
	for _, prefix := range []string{".~lock.", ".#", "#", "._", "."} {
		if rest, found := strings.CutPrefix(name, prefix); found {
			name, ok = rest, prefix != "."
			break
		}
	}
	if isTempOfRsync(scratch) {
		return name[:len(name)-len(".XXXXXX")], true
	}
	for _, suffix := range []string{".swp", ".swx", ".tmp", ".part", ".crdownload", "~", "#"} {
		if rest, found := strings.CutSuffix(name, suffix); found {
			name, ok = rest, true
			break
		}
	}
	if name == "" || !ok {
		return "", false
	}
	return name, true
}

// IsNameless reports whether a program chose a scratch name that tells nothing of the file
// that it saves.
func IsNameless(scratch string) bool {
	return scratch == "4913" || strings.HasPrefix(scratch, ".goutputstream-") || strings.HasPrefix(scratch, ".xdp-") ||
		isRandom(scratch, "sed") || isRandom(scratch, "zi")
}

// IsTemp reports whether the program that creates a file of this name will rename
// it. Other programs may choose such a name and mean it: sedan2024 is a car. sed and zip make no other files
// of such names: of theirs, a random suffix may look like a word, as one in two hundred does.
func IsTemp(name string, caller Caller) bool {
	program, word := "", false
	switch {
	case isTempOfRsync(name):
		program = "rsync"
	case isRandom(name, "sed"): // sed -i
		program, word = "sed", isWord(name[len("sed"):])
	case isTempOfRestic(name):
		program = "restic"
	case isRandom(name, "zi"): // zip, when it changes an archive
		program, word = "zip", isWord(name[len("zi"):])
	default:
		return false
	}
	if caller.Name == nil {
		return !word
	}
	return caller.Name() == program
}

// isTempOfRsync recognises .NAME.XXXXXX, the name rsync writes to before it renames onto NAME. A suffix that may be a
// word is none: rsync --inplace writes to .config.backup itself.
func isTempOfRsync(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return strings.HasPrefix(name, ".") && dot >= 2 && isRandom(name[dot:], ".") && !isWord(name[dot+1:])
}

// isTempOfRestic recognises NAME-tmp-DIGITS, the name that restic writes a file of a
// repository to.
func isTempOfRestic(name string) bool {
	i := strings.LastIndex(name, "-tmp-")
	return i > 0 && i+len("-tmp-") < len(name) && strings.Trim(name[i+len("-tmp-"):], "0123456789") == ""
}

// randomBytes is how long a random suffix is.
const randomBytes = 6

// isRandom recognises a name of mkstemp(3): prefix and six random letters and digits.
func isRandom(name, prefix string) bool {
	suffix, ok := strings.CutPrefix(name, prefix)
	return ok && len(suffix) == randomBytes && strings.Trim(suffix,
		lowerCase+"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

const lowerCase = "abcdefghijklmnopqrstuvwxyz"

// isWord reports whether a random suffix may be a word.
func isWord(suffix string) bool { return strings.Trim(suffix, lowerCase) == "" }
