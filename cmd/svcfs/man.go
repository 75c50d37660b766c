package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages; make man runs it. Hidden: users have the
// pages.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into DIR",
		Hidden: true,
		Args:   exactly(1, "one DIR"),
		RunE:   a.simple(func(_ context.Context, args []string) error { return a.writeManual(args[0]) }),
	}
}

// writeManual makes the pages from the same texts as the help.
func (a *app) writeManual(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return refuse(exitUsage, "name a folder you can write", err)
	}
	root := a.rootCommand()
	root.DisableAutoGenTag = true
	changed := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC) // of the texts, not of the build
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "svcfs", Manual: "svcfs manual", Date: &changed}, dir); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	return nil
}
