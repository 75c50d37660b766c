// Package confine takes away from this process what it will not need any more:
// landlock(7) leaves it the files it names, and no_new_privs keeps every program it
// might start from gaining rights. Neither can be undone. What runs already, and
// files that are open, stay as they are.
package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Limits are the files that a confined process may go on opening. Folders stand for
// all that is below them. It may run no program at all.
type Limits struct {
	Read  []string // files and folders to read
	Write []string // and to write, make, rename and remove in
}

// ErrUnsupported means that this kernel has no landlock, or that it was not enabled
// when the machine started.
var ErrUnsupported = errors.New("this kernel has no landlock")

// System returns what nearly every program reads: the machine's settings, name
// resolution, certificates of authorities, time zones, libraries, and /proc.
func System() []string {
	list := []string{"/etc", "/proc", "/usr/share", "/usr/local/share", "/usr/lib", "/lib", "/lib64", "/var/lib/ca-certificates", "/dev/null", "/dev/urandom",
		"/run/systemd/resolve"}
	// The resolver's file is often a link into another folder, and replaced there.
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		list = append(list, filepath.Dir(real))
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "ZONEINFO"} {
		if path := os.Getenv(name); path != "" {
			list = append(list, filepath.SplitList(path)...)
		}
	}
	return list
}

// WithTarget returns the folder of the file at path, and the folder of what it is a
// link to: where the file is put when it is replaced.
func WithTarget(path string) []string {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	list := []string{filepath.Dir(full)}
	if real, err := filepath.EvalSymlinks(full); err == nil && filepath.Dir(real) != list[0] {
		list = append(list, filepath.Dir(real))
	}
	return list
}

// Apply confines this process, all its threads and what it starts from now on. Paths
// that are not there are left out. Without landlock in the kernel only no_new_privs
// holds, and the error is [ErrUnsupported].
func (l Limits) Apply() error {
	if err := l.apply(); err != nil {
		return fmt.Errorf("confine this process: %w", err)
	}
	return nil
}
