package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/witness"
)

// givenVault counts the records of groups that it is given.
type givenVault struct {
	vaultwire.Vault
	records atomic.Int64
}

func (g *givenVault) Follow(ctx context.Context, q vaultwire.Follow) (vaultwire.Followed, error) {
	g.records.Add(int64(len(q.Records)))
	return g.Vault.Follow(ctx, q)
}

func (g *givenVault) dial(ctx context.Context, from, next vaultwire.Source, now func() time.Time,
	away func(error) error) (v vaultwire.Vault, err error) {
	g.Vault, err = vaulttest.InProcess(ctx, from, next, now, away)
	return g, err
}

// goesOn appends records to the chain of g, which change no member.
func (u *user) goesOn(n int) {
	u.t.Helper()
	l := ledger.New(ledger.DefaultFees(), ledger.Bounds{}, time.Now)
	ok(u.t, u.openStore().Write(u.t.Context(), store.Everything(), func(tx *store.Tx) error {
		for i := range n {
			r := chain.Record{Kind: chain.KindKeep, Account: u.id, Group: "g", Detail: fmt.Sprint(i)}
			if _, err := l.Append(u.t.Context(), tx, r); err != nil {
				return err
			}
		}
		return nil
	}))
}

// A vault is given the chain of a group once, and a vault that was started anew what came after the state that it made.
func TestGroupIsGivenOnce(t *testing.T) {
	t.Parallel()
	first := &givenVault{}
	r := runWith(t, service.Config{Database: newDatabase(t), Vault: first.dial})
	alice, bob := r.owner(), r.user("bob", "100")
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	r.checkpoint()
	read := object{"group_id": "g", "ipfs_hash": ref}
	reads := func(u *user, what string, given *givenVault, want int64) {
		t.Helper()
		given.records.Store(0)
		must[wire.PrepareRetrieveResult](u, wire.OpPrepareRetrieve, read)
		if got := given.records.Load(); got != want {
			t.Errorf("%s: the vault was given %d records of the group, want %d", what, got, want)
		}
	}
	reads(alice, "at first", first, 2)
	reads(alice, "again", first, 0)
	alice.adds(bob)
	reads(bob, "a new member", first, 1)
	alice.goesOn(1100)
	r.checkpoint()
	reads(bob, "many records", first, 1100)
	var states int
	ok(t, r.openDatabase().QueryRow("SELECT count(*) FROM group_states WHERE group_id = 'g'").Scan(&states))
	if states != 1 {
		t.Errorf("%d states are kept", states)
	}

	alice.goesOn(5)
	r.checkpoint()
	second := &givenVault{}
	other := r.againWith(service.Config{MaxFileBytes: 1 << 20, Vault: second.dial})
	other.checkpoint()
	reads(bob.at(other), "a vault that was started anew", second, 5)
	r.exec("UPDATE group_states SET state = ?", []byte("{}"))
	third := &givenVault{}
	other = r.againWith(service.Config{MaxFileBytes: 1 << 20, Vault: third.dial})
	other.checkpoint()
	reads(bob.at(other), "a state that was changed", third, 1108)
	q := vaultwire.Follow{Group: "g", Keep: true}
	for n := range int64(600) { // another history, such as of a database that was restored in part
		r := chain.Record{Kind: chain.KindKeep, Account: alice.id, Group: "g", Chain: chain.OfGroup("g"), Number: n + 1}
		if n == 0 {
			r.Kind = chain.KindRegister
		} else {
			r.Prev = q.Records[n-1].Sum()
		}
		q.Records = append(q.Records, r)
	}
	made, err := r.openVault().Follow(t.Context(), q)
	if err != nil || made.State == nil {
		t.Fatal(err)
	}
	r.exec("UPDATE group_states SET state = ?", made.State)
	fourth := &givenVault{}
	other = r.againWith(service.Config{MaxFileBytes: 1 << 20, Vault: fourth.dial})
	other.checkpoint()
	must[wire.PrepareRetrieveResult](bob.at(other), wire.OpPrepareRetrieve, read)
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	if status, body := bob.at(other).tool(wire.OpPrepareRetrieve, read); status != http.StatusForbidden {
		t.Errorf("who was revoked: %d %s", status, body)
	}
}

// Threat 83: a member whom the tables have, and the records not, gets no key and pays nothing.
func TestThreat83MembersFollowFromRecords(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t)})
	alice, bob := r.owner(), r.user("bob", "100")
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	r.checkpoint()
	r.exec("INSERT INTO members (group_id, account, since, role) VALUES ('g', ?, 1, 'writer')", bob.id)
	read, before := object{"group_id": "g", "ipfs_hash": ref}, bob.balance()
	status, body := bob.tool(wire.OpPrepareRetrieve, read)
	if status != http.StatusForbidden {
		t.Errorf("%d %s", status, body)
	}
	if got := bob.balance(); got != before {
		t.Errorf("it paid: %s after %s", got, before)
	}
	alice.adds(r.user("carol", "1"))
	must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, read)
}

// Threat 84: whom the owner did not ask to add is given no key, also with a record of it.
func TestThreat84RecordedMembersAreAskedFor(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t)})
	alice, bob := r.owner(), r.user("bob", "100")
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	l := ledger.New(ledger.DefaultFees(), ledger.Bounds{}, time.Now)
	ok(t, alice.openStore().Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		made, err := l.Append(t.Context(), tx, chain.Record{Kind: chain.KindAdd, Account: alice.id, Group: "g",
			Detail: bob.id})
		if err != nil {
			return err
		}
		if _, err := l.Append(t.Context(), tx, chain.Record{Kind: chain.KindCloseJoin, Account: bob.id,
			Group: "g"}); err != nil {
			return err
		}
		return tx.Do(t.Context(), "add", "INSERT INTO members (group_id, account, since, role) VALUES "+
			"('g', ?, ?, 'writer')", bob.id, made.Seq)
	}))
	r.checkpoint()
	status, body := bob.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
	if status != http.StatusForbidden || bob.balance() != "100" {
		t.Errorf("%d %s, %s are left", status, body, bob.balance())
	}
	report, err := r.svc.AuditReport(t.Context())
	if err != nil || len(report.Refused) != 2 || report.Refused[0].Detail != bob.id ||
		report.Refused[1].Account != bob.id {
		t.Errorf("the audit finds %+v, %v", report.Refused, err)
	}
	must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	alice.adds(bob)
	must[wire.PrepareRetrieveResult](bob, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
}

// Threat 84: a member, an invite, a window and keys in the clear that an owner asks for in a sealed session let in whom
// they say; the whole id is to be given for a member of another domain than that of the owner.
func TestThreat84OwnerIsAsked(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t)})
	alice := r.owner().sealed()
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	read := object{"group_id": "g", "ipfs_hash": ref}
	bob, carol, dora := r.user("bob", "9"), r.user("carol", "9"), r.user("dora", "9")
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "BOB"})
	must[wire.PrepareRetrieveResult](bob, wire.OpPrepareRetrieve, read)
	made := must[wire.MadeInvite](alice, wire.OpInviteToGroup, object{"group_id": "g"})
	must[wire.UsedInvite](carol, wire.OpUseGroupInvite, object{"secret": made.Secret})
	must[wire.PrepareRetrieveResult](carol, wire.OpPrepareRetrieve, read)
	once := []byte(`{"group_id":"g"}`)
	header := alice.proven(wire.OpInviteToGroup, once)
	for _, want := range []int{http.StatusOK, http.StatusConflict} { // a request makes one invite
		if status, body := r.post(wire.PathTools+wire.OpInviteToGroup, header, once); status != want {
			t.Errorf("the same request: %d %s", status, body)
		}
	}
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "keys": wire.KeysSealed})
	if status, body := bob.tool(wire.OpPrepareRetrieve, read); status != http.StatusForbidden {
		t.Errorf("in the clear: %d %s", status, body)
	}
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "keys": wire.KeysAny})
	must[wire.PrepareRetrieveResult](bob, wire.OpPrepareRetrieve, read)
	ends := strconv.FormatInt(time.Now().Add(time.Hour).UnixNano(), 10)
	must[string](alice, wire.OpCreateHackathonGroup, object{"group_id": "w", "expires_at": ends})
	in := alice.upload("w", "a.txt", []byte("content")).CID
	must[string](dora, wire.OpJoinGroup, object{"group_id": "w"})
	must[wire.PrepareRetrieveResult](dora, wire.OpPrepareRetrieve, object{"group_id": "w", "ipfs_hash": in})
}

// Files are read while a witness does not sign, also where service and vault were started anew meanwhile.
func TestReadingWhileAWitnessIsAway(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t)})
	alice := r.owner()
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	w, err := witness.Open(t.TempDir(), "witness.example.org", []string{r.key()})
	ok(t, err)
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if away.Load() {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Handler(nil).ServeHTTP(rw, req)
	}))
	t.Cleanup(server.Close)
	r.witnessed(server.URL, w.Key()).get("/tlog/checkpoint")
	away.Store(true)
	again := r.witnessed(server.URL, w.Key())
	again.get("/tlog/checkpoint")
	must[wire.PrepareRetrieveResult](alice.at(again), wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
}

// Records of any length fit into what the vault is given at once.
func TestGroupIsGivenInPieces(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), Vault: vaulttest.BehindSocket})
	alice, group := r.owner(), strings.Repeat("&", 128) // six bytes each in JSON
	must[string](alice, wire.OpRegisterGroup, object{"group_id": group})
	ref := alice.upload(group, "a.txt", []byte("content")).CID
	l := ledger.New(ledger.DefaultFees(), ledger.Bounds{}, time.Now)
	ok(t, alice.openStore().Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		for range 700 {
			r := chain.Record{Kind: chain.KindKeep, Account: alice.id, Group: group, Detail: strings.Repeat("<", 100)}
			if _, err := l.Append(t.Context(), tx, r); err != nil {
				return err
			}
		}
		return nil
	}))
	r.checkpoint()
	must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, object{"group_id": group, "ipfs_hash": ref})
}
