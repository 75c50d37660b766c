package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Version names the build: its version, and the commit that it was made from where that is known.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// shownCommitDigits is how much of a commit's hash is shown.
const shownCommitDigits = 12

func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return wire.Version
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return wire.Version
	}
	state := ""
	if settings["vcs.modified"] == "true" {
		state = ", modified"
	}
	return fmt.Sprintf("%s (commit %s%s)", wire.Version, commit[:min(len(commit), shownCommitDigits)], state)
}

// VersionCommand gives a program the command version, which has print print what the flags --version and
// -V print too. The caller adds it.
func VersionCommand(root *cobra.Command, print func(version string) error) *cobra.Command {
	root.Version = Version()
	root.Flags().BoolP("version", "V", false, "print the version")
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  " + root.Name() + " version", Args: cobra.NoArgs,
		PersistentPreRun: func(*cobra.Command, []string) {}, // it asks for no settings
		RunE:             func(*cobra.Command, []string) error { return print(root.Version) },
	}
}
