package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan is the command behind make man. Hidden: operators have the pages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into DIR", Hidden: true, Args: oneArg("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), args[0]) },
	}
}

// writeManual makes the pages from the same texts as the help.
func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	root.DisableAutoGenTag = true
	changed := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC) // of the texts, not of the build
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "svcd", Manual: "svcd manual", Date: &changed}, dir); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	return nil
}
