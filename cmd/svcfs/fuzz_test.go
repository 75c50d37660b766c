package main

import (
	"strings"
	"testing"
)

// FuzzConfig: what is wrong with a settings file is told without what is in it,
// which may be a key.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"SVC_URL=http://h\n", "# x\n\nSVC_API_KEY='k'\n", "SVC_COLOUR=red", "svc_sk_canary",
		"=", "SVC_URL", strings.Repeat("x", 70_000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseConfig([]byte(text), "FILE")
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
