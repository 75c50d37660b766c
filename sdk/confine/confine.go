// Package confine removes rights from this process for good. landlock(7) leaves
// it only the named files, and no_new_privs keeps every program that it starts
// from gaining rights. Running processes and open files are not affected.
package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Limits are the files that a confined process may still open. A folder stands for
// everything below it. A confined process may start no program.
type Limits struct {
	Read  []string // files and folders to read
	Write []string // files to write, and folders to create, rename and remove files in
}

// ErrUnsupported means that the kernel has no landlock, or that landlock was not enabled
// when the machine started.
var ErrUnsupported = errors.New("this kernel has no landlock")

// System returns the files that nearly every program reads: settings of the machine, name
// resolution, certificates of authorities, time zones, libraries, and /proc.
func System() []string {
	list := []string{"/etc", "/proc", "/usr/share", "/usr/local/share", "/usr/lib", "/lib", "/lib64",
		"/var/lib/ca-certificates", "/dev/null", "/dev/urandom",
		"/run/systemd/resolve"}
	// The file of the resolver is often a link into another folder, where it is replaced.
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

// WithTarget returns the folder of the file at path. If the file is a link, it also returns
// the folder of the target, where a replacement appears.
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

// Apply confines this process, all its threads and every later child process. It skips
// paths that do not exist. If the kernel has no landlock, only no_new_privs applies, and
// the error is [ErrUnsupported].
func (l Limits) Apply() error {
	if err := l.apply(); err != nil {
		return fmt.Errorf("confine this process: %w", err)
	}
	return nil
}
