package confine

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Rights that landlock grants below a path.
const (
	readFile  = landlock.AccessFSSet(ll.AccessFSReadFile)
	readDir   = readFile | landlock.AccessFSSet(ll.AccessFSReadDir)
	writeFile = readFile | landlock.AccessFSSet(ll.AccessFSWriteFile|ll.AccessFSTruncate)
	// refer allows renaming and linking from one folder to another.
	writeDir = readDir | writeFile | landlock.AccessFSSet(ll.AccessFSMakeReg|ll.AccessFSMakeDir|
		ll.AccessFSRemoveFile|ll.AccessFSRemoveDir|ll.AccessFSRefer)
)

// leastABI is the first version of landlock that can allow moves between folders.
const leastABI = 2

// Supported returns the version of landlock in this kernel, or [ErrUnsupported].
func Supported() (version int, err error) {
	version, err = ll.LandlockGetABIVersion()
	if err != nil || version < leastABI {
		return version, ErrUnsupported
	}
	return version, nil
}

func (l Limits) apply() error {
	if _, err := Supported(); err != nil {
		if privs := ll.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); privs != nil {
			return fmt.Errorf("set no_new_privs: %w", privs)
		}
		return err
	}
	rules := append(grant(l.Read, readFile, readDir), grant(l.Write, writeFile, writeDir)...)
	// Sockets are not restricted: a service may have its database behind one.
	return landlock.V7.BestEffort().RestrictPaths(rules...)
}

func grant(paths []string, file, dir landlock.AccessFSSet) []landlock.Rule {
	var rules []landlock.Rule
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		rights := file
		if info.IsDir() {
			rights = dir
		}
		rules = append(rules, landlock.PathAccess(rights, path).IgnoreIfMissing())
	}
	return rules
}
