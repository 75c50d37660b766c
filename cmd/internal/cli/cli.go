// Package cli holds what the command lines of svcfs and svcd share: exit codes,
// findings of doctor, where settings come from, suggestions, manual pages.
package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// WriteManual makes the manual pages of a program in dir, which it makes, from the
// same texts as the help.
func WriteManual(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true
	changed := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC) // of the texts, not of the build
	name := root.Name()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: name, Manual: name + " manual",
			Date: &changed}, dir)
	}
	if err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	return nil
}

// StartProfile writes a CPU profile, which holds addresses of code only, to a file
// until stop is called; no path, no profile.
func StartProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("start CPU profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
