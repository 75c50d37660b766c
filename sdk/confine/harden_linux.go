package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden excludes this process from core dumps and closes its memory to other processes of
// the same user (M4, threat 3). Call it before a secret is loaded.
//
// Harden does not prevent an ordinary user from mounting. fusermount3 is a process of its
// own, which exec makes dumpable by its own rights. It gets the mountpoint from arguments
// and a socket, and never looks into this process. An ordinary user loses access to
// /proc/self/fd, environ and mem of this process.
func Harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set core size to zero: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid dumps: %w", err)
	}
	return nil
}
