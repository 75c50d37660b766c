package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// manCommand writes the manual pages; make man runs it. Hidden: users have the pages.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into DIR",
		Hidden: true,
		Args:   exactly(1, "one DIR"),
		RunE: a.simple(func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return refuse(exitUsage, "name a folder you can write", err)
			}
			return cli.WriteManual(a.rootCommand(), args[0])
		}),
	}
}
