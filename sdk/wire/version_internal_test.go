package wire

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

// The first entry of CHANGELOG.md is that of the version that the sources are on the way to.
func TestChangelogHasTheVersion(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^## (.*)$`).FindSubmatch(text); m == nil || string(m[1]) != next {
		t.Errorf("the first entry is %q, want %s", m, next)
	}
}

func TestVersionTellsTheBuild(t *testing.T) {
	build := func(version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Path: module, Version: version}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	commit := []string{"vcs.revision", "0123456789abcdef0123456789abcdef01234567", "vcs.time", "2026-01-02T23:30:00Z"}
	const pseudo = "v0.1.1-0.20260102233000-0123456789ab"
	for _, tc := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"tag", build("v0.2.0", commit...), "0.2.0"},
		{"tag, installed by go install", build("v0.2.0"), "0.2.0"},
		{"tag and changes", build("v0.2.0+dirty", append(commit, "vcs.modified", "true")...),
			next + "~git20260102.0123456789ab.modified"},
		{"commit", build(pseudo, append(commit, "vcs.modified", "false")...), next + "~git20260102.0123456789ab"},
		{"without git", build("(devel)"), next + "~source"},
		{"in another program", &debug.BuildInfo{Main: debug.Module{Path: "example.org/p", Version: "v7.0.0"},
			Deps: []*debug.Module{{Path: module, Version: "v0.2.0"}}}, "0.2.0"},
		{"nothing known", nil, next + "~source"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := versionOf(tc.info); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
