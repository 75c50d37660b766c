package sdk

import (
	"net/http"
	"strings"
	"testing"
)

// Specification 7.1: every class says what to do, at the hosted service and at
// one's own, in a whole sentence.
func TestEveryClassHasItsHandling(t *testing.T) {
	for _, tc := range []struct {
		text         string
		kind         Kind
		hosted, self string
	}{
		{"Audience mismatch", KindAudience, "Refresh", "Refresh"},
		{"account not found", KindNotFound, "https://nova-sdk.com", "svcd account create"},
		{"User not authorized", KindNotAuthorized, "owner of the group", "svcfs group add"},
		{"Insufficient balance", KindInsufficient, "Deposit native tokens", "svcd account fund"},
		{"Invalid API key", KindUnauthenticated, "Manage Account", "svcd account rotate-key"},
	} {
		for want, cfg := range map[string]Config{tc.hosted: {}, tc.self: {URL: "http://127.0.0.1:1"}} {
			c, err := New("alice.near", cfg)
			if err != nil {
				t.Fatal(err)
			}
			err = c.wrap("try", "g", "", newAnswerError(http.StatusInternalServerError, "", tc.text))
			if hint := HintOf(err); KindOf(err) != tc.kind || !strings.Contains(hint, want) || !strings.HasSuffix(hint, ".") || cfg.URL == "" && strings.Contains(hint, "svcd") {
				t.Errorf("%s: %q, hint %q, want %q in it", tc.text, KindOf(err), hint, want)
			}
		}
	}
}
