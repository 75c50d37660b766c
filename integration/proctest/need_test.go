package proctest

import (
	"strings"
	"testing"
)

type skipped struct{ reason string }

func (s *skipped) Skip(reason ...any) { s.reason, _ = reason[0].(string) }

func TestNeed(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	for name, want := range map[string]string{
		"jq": LeftOut + "jq is missing: apt-get install jq",
	} {
		var s skipped
		Need(&s, name)
		if s.reason != want {
			t.Errorf("%s: %q", name, s.reason)
		}
	}
}

// Who carries the name alone is not the program.
func TestNeedAsksWhoItIs(t *testing.T) {
	r := requirement{name: "sh", from: "none", option: "-c true", answer: "another"}
	if r.isThere() {
		t.Error("a shell passes for another program")
	}
	// A stand-in says that ImageMagick is missing: its name alone proves nothing.
	if !strings.Contains(packages, "convert imagemagick -version Version:") {
		t.Error("any convert passes for that of ImageMagick")
	}
}
