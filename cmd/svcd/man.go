package main

import (
	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// newMan is the command behind make man and make docs. Hidden: operators have the pages.
func newMan() *cobra.Command {
	markdown := false
	cmd := &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into DIR", Hidden: true, Args: oneArg("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if markdown {
				return cli.WriteReference(cmd.Root(), args[0])
			}
			return cli.WriteManual(cmd.Root(), args[0])
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write Markdown, for the site of the documents")
	return cmd
}
