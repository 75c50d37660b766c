package main

import (
	"fmt"
	"runtime/debug"
)

// version names the build: its version and the commit it was made from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	return versionOf(info)
}

// shownCommitDigits is how much of a commit's hash is shown.
const shownCommitDigits = 12

func versionOf(info *debug.BuildInfo) string {
	name := info.Main.Version
	if name == "" {
		name = "(devel)"
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return name
	}
	state := ""
	if settings["vcs.modified"] == "true" {
		state = ", modified"
	}
	return fmt.Sprintf("%s (commit %s%s)", name, commit[:min(len(commit), shownCommitDigits)], state)
}
