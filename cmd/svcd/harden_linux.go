package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// harden keeps keys out of core dumps and away from other processes of the same
// user, before any is loaded.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid dumps: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set core size to zero: %w", err)
	}
	return nil
}
