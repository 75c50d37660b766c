package wire

import (
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// next is the version that these sources are on the way to.
const next = "0.1.0"

// stamped is what the linker was told (make VERSION=X), for builds that git does not tell the commit.
var stamped string

// Version is the version of svcfs, the same wherever something says one: in each program, in what svcd says of itself,
// and in the names of packages. Of a commit with the tag vX.Y.Z it is X.Y.Z, of another one X.Y.Z~gitDATE.COMMIT,
// and .modified behind that tells of changes beside the commit. Where no commit is known it ends with ~source.
func Version() string {
	if stamped != "" {
		return stamped
	}
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// module is the path of this module.
const module = "github.com/svcfs/svcfs"

// released is what Go says of a build of a commit with a tag, without changes.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return next + "~source"
	}
	for _, m := range info.Deps {
		if m.Path == module { // another program uses the client
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	if released.MatchString(info.Main.Version) {
		return info.Main.Version[1:]
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	at, err := time.Parse(time.RFC3339, settings["vcs.time"])
	if commit == "" || err != nil {
		return next + "~source"
	}
	v := next + "~git" + at.UTC().Format("20060102") + "." + commit[:min(len(commit), 12)]
	if settings["vcs.modified"] == "true" {
		v += ".modified"
	}
	return v
}
