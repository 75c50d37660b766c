package cli

import (
	"runtime/debug"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

func TestVersionNamesTheCommit(t *testing.T) {
	build := func(settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261125000000-0123456789ab+dirty"},
			Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for _, tc := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"commit", build(revision), wire.Version + " (commit 0123456789ab)"},
		{"changed", build(revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
			wire.Version + " (commit 0123456789ab, modified)"},
		{"unchanged", build(revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}),
			wire.Version + " (commit 0123456789ab)"},
		{"without git", build(), wire.Version},
		{"nothing known", nil, wire.Version},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := versionOf(tc.info); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
