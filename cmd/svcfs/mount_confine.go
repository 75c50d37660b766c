package main

import (
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/confine"
)

// confine leaves a running mount only the files that it still opens: of the user's files
// the state of svcfs and the folder of the log. The process outside does the rest.
func (a *app) confine(p mountPlan) error {
	return cli.Confine(a.limits(p))
}

// limits are the files that a running mount opens.
func (a *app) limits(p mountPlan) confine.Limits {
	limits := confine.Limits{Read: confine.System()}
	if dir := a.userDir("XDG_STATE_HOME", ".local/state", ""); dir != "" {
		_ = os.MkdirAll(dir, 0o700) // without it nothing is kept there
		limits.Write = append(limits.Write, dir)
	}
	if info, err := os.Lstat(p.flags.logFile); err == nil && info.Mode().IsRegular() { // put aside when it is full
		limits.Write = append(limits.Write, filepath.Dir(p.flags.logFile))
	}
	return limits
}

// What a mount is confined by, as status tells it.
const (
	confinedFully = "landlock"
	confinedLess  = "no_new_privs" // the kernel has no landlock
)

func confinement() string {
	if _, err := confine.Supported(); err != nil {
		return confinedLess
	}
	return confinedFully
}

func checkConfinement() cli.Finding {
	if confinement() == confinedFully {
		return cli.Passed("confinement", "a mount opens only what it needs, and starts no program (landlock)")
	}
	return cli.Warned("confinement", "this kernel has no landlock: a mount gains no rights, but may open what you may",
		"Linux 5.19 or later with landlock among the modules of /sys/kernel/security/lsm; boot parameter "+
			"lsm=landlock,…")
}
