package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden keeps this process out of core dumps and closes its memory to other
// processes of the same user (M4, threat 3). Call it before a secret is loaded.
//
// It does not hinder mounting as an ordinary user: fusermount3 is a process of
// its own, exec makes it dumpable by its own rights, and it is told where to
// mount by arguments and a socket, never by looking into us. What it does take
// away from an ordinary user is this process's /proc/self/fd, environ and mem.
func Harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set core size to zero: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid dumps: %w", err)
	}
	return nil
}
