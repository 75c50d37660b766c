package sdk

import (
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
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

// A hint names who may do what was refused, the group and the account.
func TestHintsNameWhoAndWhere(t *testing.T) {
	c, err := New("alice.svc.testnet", Config{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	denied := newAnswerError(http.StatusForbidden, "", "User not authorized")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"owner only":     {mayOnly(ownerMay, c.wrap("add", "team", "", denied)), "Only the owner of the group"},
		"uploader only":  {mayOnly(uploaderMay, c.wrap("delete", "team", "", denied)), "Only the account that uploaded it"},
		"other failures": {mayOnly(ownerMay, c.wrap("add", "team", "", newAnswerError(http.StatusBadRequest, "", "Insufficient balance"))), "Deposit"},
		"group":          {c.wrap("list", "team", "", denied), "svcfs group add team alice"},
		"odd group":      {c.wrap("list", "a b;c", "", denied), "svcfs group add GROUP alice"},
		"disabled":       {c.wrap("list", "", "", newAnswerError(http.StatusForbidden, wire.CodeDisabled, "disabled")), "svcd account enable alice."},
	} {
		if hint := HintOf(tc.err); !strings.Contains(hint, tc.want) {
			t.Errorf("%s: hint %q, want %q in it", name, hint, tc.want)
		}
	}
	for what, cfg := range map[string]Config{"log key": {LogKey: "damaged"}, "witness": {Witness: "damaged"}} {
		if _, err := New("alice", cfg); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(HintOf(err), "whole key") {
			t.Errorf("%s: %v, hint %q", what, err, HintOf(err))
		}
	}
}
