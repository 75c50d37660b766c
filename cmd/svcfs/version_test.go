package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionNamesTheCommit(t *testing.T) {
	build := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for _, tc := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"release", build("v1.2.0", revision), "v1.2.0 (commit 0123456789ab)"},
		{"changed", build("v1.2.0", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "v1.2.0 (commit 0123456789ab, modified)"},
		{"unchanged", build("", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "(devel) (commit 0123456789ab)"},
		{"by go install", build("v1.2.0"), "v1.2.0"},
		{"nothing known", build(""), "(devel)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := versionOf(tc.info); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
