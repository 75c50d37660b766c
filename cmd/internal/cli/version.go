package cli

import (
	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/wire"
)

// VersionCommand gives a program the command version, which has print print what the flags --version and
// -V print too. The caller adds it.
func VersionCommand(root *cobra.Command, print func(version string) error) *cobra.Command {
	root.Version = wire.Version()
	root.Flags().BoolP("version", "V", false, "print the version")
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  " + root.Name() + " version", Args: cobra.NoArgs,
		PersistentPreRun: func(*cobra.Command, []string) {}, // it asks for no settings
		RunE:             func(*cobra.Command, []string) error { return print(root.Version) },
	}
}
