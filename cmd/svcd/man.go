package main

import (
	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// newMan is the command behind make man. Hidden: operators have the pages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into DIR", Hidden: true, Args: oneArg("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return cli.WriteManual(cmd.Root(), args[0]) },
	}
}
