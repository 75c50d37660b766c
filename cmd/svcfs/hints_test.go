package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// hintFor is what is told before there is a client.
func hintFor(err error) string { return hints{}.of(err) }

func TestEveryFailureClassHasANextStep(t *testing.T) {
	h := hints{account: "alice.svc.testnet", service: sdk.NetworkInfo{MCPURL: "http://127.0.0.1:1"}}
	for kind := sdk.ErrAudience; kind.Error() != sdk.ErrOther.Error(); kind++ {
		if kind == sdk.ErrCanceled {
			continue // the user knows
		}
		if hint := h.ofService(&sdk.Error{Op: "upload", Kind: kind}); hint == "" || !strings.HasSuffix(hint, ".") &&
			!strings.HasSuffix(hint, "GROUP") {
			t.Errorf("%v: hint %q", kind, hint)
		}
	}
	for code := exitAuth; code <= exitProof; code++ {
		if hintFor(refuse(code, "", errors.New("why"))) == "" {
			t.Errorf("no hint for exit code %d", code)
		}
	}
}

// The table of errors in docs/reference/errors.md has the limits that hold.
func TestErrorsHaveTheLimitsOfTheMount(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/errors.md")
	ok(t, err)
	for row, want := range map[string]string{
		"No route to host":     fmt.Sprintf("waited %.0f seconds", defaultPatience.Seconds()),
		"Connection timed out": fmt.Sprintf("stand still for %.0f seconds", tree.DefaultMetadataTimeout.Seconds()),
	} {
		_, text, _ := strings.Cut(string(raw), "\n| `"+row+"` |")
		if text, _, _ = strings.Cut(text, "\n"); !strings.Contains(text, want) {
			t.Errorf("the row of %q does not say %q: %s", row, want, text)
		}
	}
}

// Specification 7.1: every class says what to do, at the hosted service and at
// one's own.
func TestEveryClassHasItsHandling(t *testing.T) {
	const page = "https://nova-sdk.com"
	for _, tc := range []struct {
		kind         sdk.Kind
		hosted, self string
	}{
		{sdk.ErrAudience, "Refresh", "Refresh"},
		{sdk.ErrNotFound, page, "svcd account create"},
		{sdk.ErrNotAuthorized, "owner of the group", "svcfs group add"},
		{sdk.ErrInsufficient, page + " under Manage Account", "svcd account fund"},
		{sdk.ErrUnauthenticated, "Manage Account", "svcd account rotate-key"},
	} {
		err := &sdk.Error{Op: "try", Group: "g", Kind: tc.kind}
		if hint := (hints{account: "alice.near", service: sdk.NetworkInfo{AccountPage: page}}).of(
			err); !strings.Contains(hint, tc.hosted) || strings.Contains(hint, "svcd") {
			t.Errorf("%s, hosted: hint %q, want %q in it", tc.kind, hint, tc.hosted)
		}
		if hint := (hints{account: "alice.near"}).of(err); !strings.Contains(hint, tc.self) {
			t.Errorf("%s, one's own: hint %q, want %q in it", tc.kind, hint, tc.self)
		}
	}
}

// A hint names who may do what was refused, the group and the account.
func TestHintsNameWhoAndWhere(t *testing.T) {
	h := hints{account: "alice.svc.testnet"}
	for name, tc := range map[string]struct {
		err  sdk.Error
		want string
	}{
		"owner only": {sdk.Error{Kind: sdk.ErrNotAuthorized, Code: wire.CodeOwnerOnly},
			"Ask the owner, whom svcfs group list names"},
		"uploader only": {sdk.Error{Kind: sdk.ErrNotAuthorized, Code: wire.CodeUploaderOnly},
			"Only the account that uploaded it"},
		"reader": {sdk.Error{Group: "team", Kind: sdk.ErrNotAuthorized, Code: wire.CodeReadOnly},
			"svcfs group add team alice.svc.testnet --role writer"},
		"sealed only": {sdk.Error{Group: "team", Kind: sdk.ErrNotAuthorized, Code: wire.CodeSealedOnly},
			"svcfs doctor"},
		"group":     {sdk.Error{Group: "team", Kind: sdk.ErrNotAuthorized}, "svcfs group add team alice"},
		"odd group": {sdk.Error{Group: "a b;c", Kind: sdk.ErrNotAuthorized}, "svcfs group add GROUP alice"},
		"inner group": {sdk.Error{Kind: sdk.ErrConflict, Err: &sdk.Error{Group: "team", Kind: sdk.ErrConflict}},
			"svcfs ls team."},
		"no file": {sdk.Error{Group: "team", Kind: sdk.ErrNotFound, Code: wire.CodeFileNotFound},
			"svcfs ls team"},
		"newer version": {sdk.Error{Group: "team", Kind: sdk.ErrConflict, Code: wire.CodeHead},
			"somebody else changed it meanwhile"},
		"no group": {sdk.Error{Group: "team", Kind: sdk.ErrNotFound, Code: wire.CodeGroupNotFound},
			"the GROUP comes before"},
		"disabled": {sdk.Error{Kind: sdk.ErrUnauthenticated, Code: wire.CodeDisabled},
			"svcd account enable alice."},
		"rollback": {sdk.Error{Kind: sdk.ErrCorrupt, Code: wire.CodeHistory}, "accept-rollback."},
		"receipt": {sdk.Error{Group: "team", Kind: sdk.ErrCorrupt, Code: wire.CodeReceipt},
			"svcfs ls team. If not"},
		"sign-in page": {sdk.Error{Kind: sdk.ErrUnavailable, Code: wire.CodeSignIn}, "Open a browser and sign in"},
		"certificate": {sdk.Error{Kind: sdk.ErrUnavailable, Code: wire.CodeCertificate},
			"If this network wants a sign-in, open a browser"},
		"changed": {sdk.Error{Kind: sdk.ErrCorrupt}, "What does not fit was not used; tell the operator"},
		"recorded so": {sdk.Error{Group: "team", Kind: sdk.ErrCorrupt, Err: sdk.ErrWrongContent},
			"ask who uploaded the file to upload it again, or get an earlier version by its cid (svcfs ledger team)."},
		"other key": {sdk.Error{Kind: sdk.ErrCorrupt, Code: wire.CodeLogKey}, "svcfs forget "},
		"witness": {sdk.Error{Group: "team", Kind: sdk.ErrUnavailable, Code: wire.CodeWitness},
			"--witness-age 1h"},
		"no witness": {sdk.Error{Kind: sdk.ErrCorrupt, Code: wire.CodeNoWitness},
			"If it has none, leave --require-witness"},
		"names": {sdk.Error{Group: "team", Kind: sdk.ErrUnavailable, Code: wire.CodeNamesUnread},
			"half a minute for a million files"},
		"lists": {sdk.Error{Group: "team", Kind: sdk.ErrTooLarge, Code: wire.CodeListMemory},
			"--list-memory 1G"},
		"disk":         {sdk.Error{Group: "team", Code: wire.CodeSpool}, "Set XDG_CACHE_HOME"},
		"unknown code": {sdk.Error{Kind: sdk.ErrRateLimited, Code: "NEW"}, "Wait a little"},
	} {
		if hint := h.of(fmt.Errorf("outer: %w", &tc.err)); !strings.Contains(hint, tc.want) {
			t.Errorf("%s: hint %q, want %q in it", name, hint, tc.want)
		}
	}
	if hint := h.ofMount(&sdk.Error{Kind: sdk.ErrUnauthenticated}); !strings.Contains(hint, "mount again") {
		t.Errorf("in a mount: hint %q", hint)
	}
	for want, config := range map[string]sdk.Config{
		"whole key": {LogKey: "damaged"}, "NAME+HASH+KEY": {Witness: "damaged"}, "--url": {URL: "ftp://127.0.0.1"},
		"--insecure-http": {URL: "http://files.example.org"},
	} {
		if _, err := sdk.New("alice", config); err == nil || !strings.Contains(h.of(err), want) {
			t.Errorf("%v, hint %q, want %q in it", err, h.of(err), want)
		}
	}
}

func TestHintsReadAlike(t *testing.T) {
	for raw, want := range map[string]string{
		"Check the network.":                "check the network",
		"Deposit more. It arrives at once.": "deposit more. It arrives at once.",
		"SVC_URL is wrong":                  "SVC_URL is wrong",
		"put GROUP FILE...":                 "put GROUP FILE...",
		"":                                  "",
	} {
		if got := cli.HintText(raw); got != want {
			t.Errorf("HintText(%q) = %q, want %q", raw, got, want)
		}
	}
}
