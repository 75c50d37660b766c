package service_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
)

// Threat 44: a deleted account has no key, no group and no balance, nobody gets its name, and what it saved stays.
func TestThreat44DeletedAccount(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	ref := bob.upload("g", "f", []byte("content")).Location
	who := auth.Identity{Issuer: "https://id.example.org", Subject: "1"}
	_, err := r.svc.AddIdentity(t.Context(), "bob", who.Issuer, who.Subject)
	ok(t, err)
	_, err = r.svc.DeleteAccount(t.Context(), "bob")
	refused(t, "in use", err, "disable it first")
	_, err = r.svc.DisableAccount(t.Context(), "alice")
	ok(t, err)
	_, err = r.svc.DeleteAccount(t.Context(), "alice")
	refused(t, "an owner", err, `owns 1 groups, such as "g"`)
	_, err = r.svc.EnableAccount(t.Context(), "alice")
	ok(t, err)
	alice.login()
	_, err = r.svc.DisableAccount(t.Context(), "bob")
	ok(t, err)
	out, err := r.svc.DeleteAccount(t.Context(), "bob")
	if err != nil || !slices.Equal(out.Left, []string{"g"}) || out.Balance.IsZero() {
		t.Fatalf("%+v, %v", out, err)
	}
	if got, _ := alice.retrieve("g", ref); string(got) != "content" {
		t.Errorf("what it saved: %q", got)
	}
	if members := must[[]any](alice, wire.OpGetGroupMembers, object{"group_id": "g"}); len(members) != 1 {
		t.Errorf("members are %v", members)
	}
	byKey := http.Header{wire.HeaderAPIKey: {bob.key}, wire.HeaderAccountID: {bob.id}}
	if status, text := r.post(wire.PathSessionToken, byKey,
		wire.SessionTokenRequest{AccountID: bob.id}); status != http.StatusNotFound ||
		strings.Contains(string(text), "disabled") {
		t.Errorf("the key: %d %s", status, text)
	}
	_, err = r.svc.CreateAccount(t.Context(), "bob", wire.Amount{})
	refused(t, "the name", err, "nobody gets its name again")
	_, err = r.svc.AddIdentity(t.Context(), "alice", who.Issuer, who.Subject) // free again
	ok(t, err)
	var kinds []string
	r.values(func(table, column string, value any) {
		if table == "ledger" && column == "kind" {
			kinds = append(kinds, value.(string))
		}
	})
	if !slices.Contains(kinds, chain.KindDeleteAccount) {
		t.Errorf("records are %v", kinds)
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = r.openDatabase().Exec("UPDATE accounts SET deleted_ns = NULL")
	ok(t, err)
	if _, err := r.svc.Audit(t.Context()); err == nil {
		t.Error("an account comes back, and the audit says nothing")
	}
}
