package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// manCommand writes the manual pages; make man and make docs run it. Hidden: users have the
// pages.
func (a *app) manCommand() *cobra.Command {
	markdown := false
	cmd := &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into DIR",
		Hidden: true,
		Args:   exactly(1, "one DIR"),
		RunE: a.simple(func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return refuse(exitUsage, "name a folder you can write", err)
			}
			if markdown {
				return cli.WriteReference(a.rootCommand(), args[0])
			}
			return cli.WriteManual(a.rootCommand(), args[0])
		}),
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write Markdown, for the site of the documents")
	return cmd
}
