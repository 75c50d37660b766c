package service_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Threat 44: once the command returns, the account gets no answer. Its groups and files
// stay for others. Enabling brings back only the key.
func TestThreat44DisabledAccount(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	ref := alice.upload("g", "f", []byte("content")).Location
	began := alice.finalize("g", "late", []byte("x"))
	small := alice.sealsFor(alice.vaultKey(), "g", "small", []byte("x"))
	raw := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	link, err := r.svc.SignInLink(t.Context(), "alice", r.url)
	if err != nil {
		t.Fatal(err)
	}
	var told wire.WatchResult
	proctest.Eventually(t, "all records have their places", func() bool {
		told = alice.watch(0, 0)
		return strings.HasSuffix(kinds(told.Events), "record_transaction g alice")
	})
	waiting := alice.waiting(told.Seq)
	t.Run("neither nobody is disabled nor an enabled account enabled", func(t *testing.T) {
		for _, name := range []string{"nobody", "x y"} {
			if _, err := r.svc.DisableAccount(t.Context(), name); err == nil {
				t.Errorf("disabled %q", name)
			}
		}
		if _, err := r.svc.EnableAccount(t.Context(), "alice"); err == nil {
			t.Error("enabled what is not disabled")
		}
	})
	if id, err := r.svc.DisableAccount(t.Context(), "alice"); err != nil || id != alice.id {
		t.Fatal(id, err)
	}
	t.Run("it is disabled once", func(t *testing.T) {
		if _, err := r.svc.DisableAccount(t.Context(), "alice"); err == nil {
			t.Error("disabled twice")
		}
	})
	toldDisabled := func(what string, status int, body string) {
		t.Helper()
		if status != http.StatusUnauthorized || !strings.Contains(body, "disabled") {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	t.Run("neither token nor key does anything", func(t *testing.T) {
		for _, op := range operations(t) {
			status, body := alice.tool(op, object{"group_id": "g", "ipfs_hash": ref})
			toldDisabled(op, status, body)
		}
		status, body := alice.tool(wire.OpFinalizeUpload, began)
		toldDisabled("finish", status, body)
		status, body = alice.put(raw, strings.NewReader(strings.Repeat("c", 28)))
		toldDisabled("send", status, body)
		status, body = alice.puts(small)
		toldDisabled("a small save", status, body)
		byKey := http.Header{wire.HeaderAPIKey: {alice.key}, wire.HeaderAccountID: {alice.id}}
		status, text := r.post(wire.PathTools+wire.OpGetOwnedGroups, byKey, object{})
		toldDisabled("the key", status, string(text))
		status, text = r.post(wire.PathSessionToken, byKey, wire.SessionTokenRequest{AccountID: alice.id})
		toldDisabled("a new token", status, string(text))
	})
	t.Run("a stranger is not told", func(t *testing.T) {
		if status, text := r.post(wire.PathSessionToken,
			http.Header{wire.HeaderAPIKey: {"svc_sk_" + strings.Repeat("x", 43)}},
			wire.SessionTokenRequest{AccountID: alice.id}); strings.Contains(string(text), "disabled") {
			t.Errorf("a stranger is told that the account is disabled: %d %s", status, text)
		}
	})
	refused(t, "a new link", errOf(r.svc.SignInLink(t.Context(), "alice", r.url)), "disabled")
	_, secret, _ := strings.Cut(link, "#link=")
	page := http.Header{"Content-Type": {"application/json"}, "X-Svc-Page": {"1"}, "Origin": {r.url}}
	t.Run("links from before end", func(t *testing.T) {
		if status, text := r.post("/account/api/sign-in", page,
			object{"link": secret}); status != http.StatusUnauthorized {
			t.Errorf("the link from before: %d %s", status, text)
		}
	})
	t.Run("who waited for news is refused", func(t *testing.T) {
		bob.upload("g", "of bob", []byte("x"))
		select {
		case got := <-waiting:
			if len(got.Events) > 0 {
				t.Errorf("who waited is told %+v", got.Events)
			}
		case <-time.After(20 * time.Second): // less than a watch lasts
			t.Error("who waited was not refused")
		}
	})
	bob.reads(ref, "content")

	if _, err := r.svc.EnableAccount(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	t.Run("enabled again, it has to sign in anew", func(t *testing.T) {
		if status, body := alice.tool(wire.OpGetOwnedGroups, object{}); status != http.StatusUnauthorized {
			t.Errorf("a token from before: %d %s", status, body)
		}
		alice.login()
		if got := must[[]string](alice, wire.OpGetOwnedGroups, object{}); len(got) != 1 {
			t.Errorf("alice owns %q", got)
		}
		if status, text := r.post("/account/api/sign-in", page,
			object{"link": secret}); status != http.StatusUnauthorized {
			t.Errorf("the link from before, enabled again: %d %s", status, text)
		}
	})
	list, err := r.svc.Accounts(t.Context())
	if err != nil || list[0].Disabled {
		t.Errorf("accounts %+v, %v", list, err)
	}
}
