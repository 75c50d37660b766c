//go:build faultpoints

// Package faultpoint ends the process at named places between two durable
// steps, as a power cut would. It is compiled in with the build tag faultpoints;
// otherwise Hit does nothing.
package faultpoint

import (
	"os"
	"strings"
	"syscall"
)

// FileVar names the file that arms a point: it holds the point's name.
const FileVar = "SVCD_CRASH_FILE"

// Hit kills the process when this point is armed.
func Hit(point string) {
	file := os.Getenv(FileVar)
	if file == "" {
		return
	}
	armed, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(armed)) != point {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
