package main

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/svcfs/svcfs/sdk"
)

// FuzzLocalPath: a recorded name, whoever chose it, becomes a path below the
// folder it is written to, and shows as one line.
func FuzzLocalPath(f *testing.F) {
	for _, seed := range []string{"a.txt", "../../etc/passwd", "/etc/passwd", "a//b", "a/./b", "..", ".", "", "a\x00b", "a\nb", "exe.\u202efdp", "\xff/\xfe", "%2E%2E/x", "~", "-rf", `..\x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		path := claims([]sdk.Entry{{Name: name}}, nil)[0]
		if !filepath.IsLocal(path) || path == "." || strings.Contains(path, "\x00") {
			t.Errorf("%q would be written to %q", name, path)
		}
		if shown := escapeName(name); strings.ContainsFunc(shown, unicode.IsControl) {
			t.Errorf("%q is shown as %q", name, shown)
		}
	})
}

// FuzzConfig: what is wrong with a settings file is told without what is in it,
// which may be a key.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"SVC_URL=http://h\n", "# x\n\nSVC_API_KEY='k'\n", "SVC_COLOUR=red", "svc_sk_canary", "=", "SVC_URL", strings.Repeat("x", 70_000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseConfig(strings.NewReader(text), "FILE")
		if err != nil && strings.Contains(text, "canary") && strings.Contains(err.Error()+hintFor(err), "canary") {
			t.Errorf("%v", err)
		}
		for name := range values {
			if !strings.HasPrefix(name, "SVC_") {
				t.Errorf("setting %q", name)
			}
		}
	})
}
