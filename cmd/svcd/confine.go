package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/service"
)

// confine leaves a service that is up only the files it still opens. Its vault reads the master key.
func (s *settings) confine(cfg service.Config) error {
	return cli.Confine(s.limits(cfg))
}

// limits are the files that a running service opens: its data, the targets of links in
// its data, and the files that others replace meanwhile.
func (s *settings) limits(cfg service.Config) confine.Limits {
	limits := confine.Limits{Read: confine.System(), Write: []string{s.cfg.DataDir}}
	if s.cfg.Blobs != "" && !strings.Contains(s.cfg.Blobs, "://") {
		limits.Write = append(limits.Write, s.cfg.Blobs)
	}
	entries, _ := os.ReadDir(s.cfg.DataDir) // it is open already
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			limits.Write = append(limits.Write, filepath.Join(s.cfg.DataDir, e.Name()))
		}
	}
	for _, file := range []string{cfg.TLSCert, cfg.TLSKey} {
		if file != "" {
			limits.Read = append(limits.Read, confine.WithTarget(file)...)
		}
	}
	return limits
}

func (s *settings) checkConfinement() cli.Finding {
	switch _, err := confine.Supported(); {
	case err != nil:
		return cli.Warned("confinement", "this kernel has no landlock: serve gains no rights, but may open what its "+
			"user may",
			"use the settings of service/examples/svcd.service, or Linux 5.19 or later with landlock among the "+
				"modules of /sys/kernel/security/lsm")
	}
	return cli.Passed("confinement", "serve opens only its data and keys, and starts no program (landlock)")
}
