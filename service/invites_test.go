package service_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
)

// runWithInvites is run where the clock can be moved, with the address that a start notes.
func runWithInvites(t *testing.T) (r *running, later *atomic.Int64) {
	t.Helper()
	later = new(atomic.Int64)
	r = runWith(t, service.Config{Database: newDatabase(t),
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	r.knowAddress()
	return r, later
}

// knowAddress notes the address as a start does.
func (r *running) knowAddress() {
	r.t.Helper()
	_, err := r.openDatabase().Exec("INSERT INTO meta (name, value) VALUES ('public_url', '" + r.url + "')")
	ok(r.t, err)
}

func (r *running) invite(name string) (id string, i wire.Invite) {
	r.t.Helper()
	balance, err := wire.ParseTokens("3")
	ok(r.t, err)
	invited, i, err := r.svc.Invite(r.t.Context(), name, balance, "")
	ok(r.t, err)
	return invited.ID, i
}

func (r *running) redeem(secret string) (status int, made wire.InviteResult, text string) {
	r.t.Helper()
	status, body := r.post(wire.PathInvite, nil, wire.InviteRequest{Secret: secret})
	if status == http.StatusOK {
		ok(r.t, json.Unmarshal(body, &made))
	}
	return status, made, string(body)
}

// Threat 75: an invite makes its account once. It is refused in the same words when it is wrong, used, revoked or too
// old, and the database holds no secret of it.
func TestThreat75InvitesWorkOnce(t *testing.T) {
	t.Parallel()
	r, later := runWithInvites(t)
	_, first := r.invite("alice")
	read, err := wire.ParseInvite(first.Text())
	if err != nil || read != first || read.URL != r.url || read.Account != "alice.svc.testnet" {
		t.Errorf("the invite is read as %s: %v", read.Account, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", first, first, first); strings.Contains(text, first.Secret) {
		t.Error("an invite prints its secret")
	}
	_, secret, _ := strings.Cut(first.Secret, ".")
	r.values(func(table, column string, value any) {
		if strings.Contains(fmt.Sprintf("%s", value), secret) {
			t.Errorf("%s.%s holds the secret of an invite", table, column)
		}
	})
	status, made, text := r.redeem(first.Secret)
	if status != http.StatusOK || made.AccountID != "alice.svc.testnet" {
		t.Fatalf("redeemed: %d %s", status, text)
	}
	alice := &user{running: r, id: made.AccountID, key: made.APIKey}
	alice.login()
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})

	revokedID, revoked := r.invite("bob")
	ok(t, r.svc.RevokeInvite(t.Context(), revokedID))
	_, old := r.invite("carol")
	later.Add(int64(service.InviteLifetime + time.Second))
	refusals := map[string]bool{}
	for name, secret := range map[string]string{"used": first.Secret, "revoked": revoked.Secret, "too old": old.Secret,
		"wrong": first.Secret + "x", "empty": ""} {
		status, _, text := r.redeem(secret)
		if status != http.StatusForbidden || !strings.Contains(text, wire.CodeInvite) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		refusals[text] = true
	}
	if len(refusals) != 1 {
		t.Errorf("the refusals tell what was wrong: %v", refusals)
	}
	if list, err := r.svc.Invites(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("invites that are too old are listed: %v %v", list, err)
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Threat 75: many at once, only one redeems an invite.
func TestThreat75OneOfManyRedeems(t *testing.T) {
	t.Parallel()
	r, _ := runWithInvites(t)
	_, invite := r.invite("alice")
	done := make(chan int)
	for range 8 {
		go func() {
			status, _ := r.post(wire.PathInvite, nil, wire.InviteRequest{Secret: invite.Secret})
			done <- status
		}()
	}
	var all []int
	for range 8 {
		all = append(all, <-done)
	}
	slices.Sort(all)
	if all[0] != http.StatusOK || all[1] != http.StatusForbidden {
		t.Errorf("answers %v", all)
	}
}

// Threat 75: who guesses has to wait, and the right invite is accepted meanwhile.
func TestThreat75GuessesAreSlowed(t *testing.T) {
	t.Parallel()
	r, _ := runWithInvites(t)
	_, invite := r.invite("alice")
	slowed := false
	for i := 0; i < 150 && !slowed; i++ {
		status, _, _ := r.redeem(fmt.Sprintf("0011223344556677.%d", i))
		slowed = status == http.StatusTooManyRequests
	}
	if !slowed {
		t.Error("nobody was slowed")
	}
	if status, _, text := r.redeem(invite.Secret); status != http.StatusOK {
		t.Errorf("the right one: %d %s", status, text)
	}
}

// Threat 75: an invite is for an account that is not there, and an account has one.
func TestThreat75RefusedInvites(t *testing.T) {
	t.Parallel()
	r, _ := runWithInvites(t)
	r.user("alice", "1")
	r.invite("bob")
	for name, want := range map[string]string{"alice": "exists already", "bob": "has an invite already",
		"b c": "username"} {
		if _, _, err := r.svc.Invite(t.Context(), name, wire.Amount{}, ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, overtaken := r.invite("carol")
	r.user("carol", "1")
	if status, _, text := r.redeem(overtaken.Secret); status != http.StatusConflict {
		t.Errorf("of an account that was made meanwhile: %d %s", status, text)
	}
	if err := r.svc.RevokeInvite(t.Context(), "0011223344556677"); err == nil {
		t.Error("an invite that is not there was revoked")
	}
	if _, _, err := run(t).svc.Invite(t.Context(), "alice", wire.Amount{}, ""); err == nil ||
		!strings.Contains(err.Error(), "svcd serve") {
		t.Errorf("before the first start: %v", err)
	}
}

// Threat 75: making, redeeming and revoking are records, and the audit finds an invite that no record made.
func TestThreat75InvitesAreRecorded(t *testing.T) {
	t.Parallel()
	r, _ := runWithInvites(t)
	usedID, used := r.invite("alice")
	r.redeem(used.Secret)
	revokedID, _ := r.invite("bob")
	ok(t, r.svc.RevokeInvite(t.Context(), revokedID))
	openID, _ := r.invite("carol")
	db := r.openDatabase()
	for _, tc := range []struct{ kind, detail, tags string }{
		{chain.KindInvite, usedID + " alice.svc.testnet %", "%"}, {chain.KindCreateAccount, "%", "%" + usedID + "%"},
		{chain.KindEndInvite, revokedID, "%"}, {chain.KindInvite, openID + " carol.svc.testnet %", "%"},
	} {
		var n int
		ok(t, db.QueryRow("SELECT count(*) FROM ledger WHERE kind = '"+tc.kind+"' AND detail LIKE '"+tc.detail+
			"' AND tags LIKE '"+tc.tags+"'").Scan(&n))
		if n != 1 {
			t.Errorf("%d records %s of %q", n, tc.kind, tc.detail)
		}
	}
	for _, change := range []string{"account = 'eve.svc.testnet'", "balance = '7'", "expires_ns = 7",
		"id = '0011223344556677'"} {
		_, err := db.Exec("UPDATE invites SET " + change)
		ok(t, err)
		if _, err := r.svc.Audit(t.Context()); !errors.Is(err, ledger.ErrBroken) ||
			!strings.Contains(err.Error(), "table invites") {
			t.Errorf("%s: audit says %v", change, err)
		}
	}
}

// An invite is redeemed at the service that was exported and imported.
func TestInvitesMove(t *testing.T) {
	t.Parallel()
	r, _ := runWithInvites(t)
	_, invite := r.invite("alice")
	var archive bytes.Buffer
	_, err := r.svc.Export(t.Context(), &archive, nil)
	ok(t, err)
	moved := r.imports(t, service.Config{Database: newDatabase(t)}, archive.Bytes())
	if status, made, text := moved.redeem(invite.Secret); status != http.StatusOK ||
		made.AccountID != "alice.svc.testnet" {
		t.Errorf("redeemed: %d %s", status, text)
	}
}

// inviteTo makes an invite to g.
func (u *user) inviteTo(role wire.Role) wire.MadeInvite {
	u.t.Helper()
	return must[wire.MadeInvite](u, wire.OpInviteToGroup, object{"group_id": "g", "role": role})
}

// Threat 75: an invite to a group adds one account, with the role that the owner gave, by a record of the owner.
func TestThreat75GroupInvites(t *testing.T) {
	t.Parallel()
	later := new(atomic.Int64)
	r := runWith(t, service.Config{Database: newDatabase(t),
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	alice := r.owner()
	bob, carol := r.user("bob", "10"), r.user("carol", "10")
	use := func(u *user, secret string, code string) {
		t.Helper()
		u.refusal(wire.OpUseGroupInvite, object{"secret": secret}, http.StatusForbidden, code)
	}
	alice.refusal(wire.OpInviteToGroup, object{"group_id": "g", "role": "owner"}, http.StatusBadRequest, "role")
	first := alice.inviteTo(wire.RoleReader)
	if used := must[wire.UsedInvite](bob, wire.OpUseGroupInvite,
		object{"secret": first.Secret}); used != (wire.UsedInvite{GroupID: "g", Role: wire.RoleReader}) {
		t.Errorf("used: %+v", used)
	}
	use(carol, first.Secret, wire.CodeInvite)
	use(carol, "", wire.CodeInvite)
	left := alice.inviteTo("")
	must[string](bob, wire.OpLeaveGroup, object{"group_id": "g"})
	use(bob, left.Secret, wire.CodeNotAuthorized)
	must[string](alice, wire.OpRevokeGroupInvite, object{"group_id": "g", "invite": left.ID})
	use(carol, left.Secret, wire.CodeInvite)
	open := alice.inviteTo("")
	db := r.openDatabase()
	for _, change := range []string{"role = 'owner'", "expires_ns = 7", "id = '0011223344556677'"} {
		_, err := db.Exec("UPDATE group_invites SET " + change)
		ok(t, err)
		if _, err := r.svc.Audit(t.Context()); !errors.Is(err, ledger.ErrBroken) ||
			!strings.Contains(err.Error(), "table group_invites") {
			t.Errorf("%s: audit says %v", change, err)
		}
		_, err = db.Exec(fmt.Sprintf("UPDATE group_invites SET id = '%s', role = 'writer', expires_ns = %s", open.ID,
			open.Expires))
		ok(t, err)
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	later.Add(int64(service.InviteLifetime + time.Second))
	carol.login()
	use(carol, open.Secret, wire.CodeInvite)
}

// Threat 75: invites to a group end with it, with its owner, and when the owner is disabled.
func TestThreat75GroupInvitesEndWithTheOwner(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *running, alice, bob *user){
		"another owner": func(_ *running, alice, bob *user) {
			must[string](alice, wire.OpOfferGroup, object{"group_id": "g", "member_id": bob.id})
			must[string](bob, wire.OpAcceptGroup, object{"group_id": "g"})
		},
		"deleted": func(_ *running, alice, _ *user) {
			must[string](alice, wire.OpDeleteGroup, object{"group_id": "g"})
		},
		"disabled": func(r *running, alice, _ *user) {
			_, err := r.svc.DisableAccount(r.t.Context(), "alice")
			ok(r.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := runAtOnce(t)
			alice, bob, carol := r.owner(), r.user("bob", "10"), r.user("carol", "10")
			alice.adds(bob)
			invite := alice.inviteTo("")
			end(r, alice, bob)
			carol.refusal(wire.OpUseGroupInvite, object{"secret": invite.Secret}, http.StatusForbidden, wire.CodeInvite)
			if _, err := r.svc.Audit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The lists that the JavaScript SDKs ask for show no record of an invite.
func TestInvitesAreNotListedAsFiles(t *testing.T) {
	t.Parallel()
	r, alice, _ := runWithMember(t)
	alice.inviteTo("")
	alice.upload("g", "file", []byte("x"))
	rows := must[[]map[string]any](alice, wire.OpGetGroupTransactions, object{"group_id": "g"})
	if len(rows) != 1 {
		t.Errorf("%d rows at %s: %v", len(rows), r.url, rows)
	}
}
