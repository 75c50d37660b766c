package call

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/locked"
)

// Threat 8: a service chooses its tokens. One of a single character makes no error longer.
func TestThreat8ShortTokens(t *testing.T) {
	t.Parallel()
	c := New(Config{})
	c.tokens.token = locked.NewSecret("e")
	if got := c.Scrub("a text, beyond it"); got != "a tredactedxt, bredactedyond it" {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
	// One that is the beginning or the end of another leaves nothing of it.
	for _, token := range []string{"abc", "bcd", "xab", "cdx"} {
		if got := redact("xabcdx", []string{token, "abcd"}); strings.Trim(got, "x") != "redacted" {
			t.Errorf("%s: %q", token, got)
		}
	}
}
