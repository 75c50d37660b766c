package service_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// journal seals the key of a journal for an account and a group, to the newest epoch.
func (u *user) journal(id, group, account string) (wire.OpenJournalKeyRequest, *format.Key) {
	u.t.Helper()
	v := u.vaultKey()
	public, err := base64.StdEncoding.DecodeString(v.PublicKey)
	ok(u.t, err)
	vault, err := format.NewVaultPublic(public)
	ok(u.t, err)
	key, err := format.RandomKey()
	ok(u.t, err)
	sealed, err := vault.SealJournalKey(format.JournalFor{Service: "svc.testnet", Account: account, Group: group,
		Journal: id, Epoch: v.Epoch}, key)
	ok(u.t, err)
	return wire.OpenJournalKeyRequest{Journal: id, GroupID: group, Epoch: v.Epoch,
		SealedKey: base64.StdEncoding.EncodeToString(sealed)}, key
}

const journalID = "00112233445566778899aabbccddeeff"

// Threat 56: the key of a journal opens for the account that sealed it, in its group, as long as the account is a
// member.
func TestThreat56JournalKeys(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	must[string](bob, wire.OpRegisterGroup, object{"group_id": "bobs"})
	request, key := bob.journal(journalID, "g", bob.id)
	status, body := bob.tool(wire.OpOpenJournalKey, request)
	refuses(t, "in the clear", status, body, wire.CodeSealedOnly)
	inClear := bob
	bob = bob.sealed()
	opened := must[wire.OpenJournalKeyResult](bob, wire.OpOpenJournalKey, request)
	got, err := bob.session.Open("g", format.JournalRef(journalID), opened.SealedKey)
	if err != nil || got.Base64() != key.Base64() {
		t.Errorf("another key was opened: %v", err)
	}
	change := func(f func(*wire.OpenJournalKeyRequest)) wire.OpenJournalKeyRequest {
		other := request
		f(&other)
		return other
	}
	item := bob.seals("g", "f", []byte("a file"))
	carol := r.user("carol", "1")
	for what, c := range map[string]struct {
		by   *user
		req  wire.OpenJournalKeyRequest
		code string
	}{
		"of another member": {alice.sealed(), request, wire.CodeValidation},
		"of a stranger":     {carol, request, wire.CodeNotAuthorized},
		"in another group": {bob, change(func(q *wire.OpenJournalKeyRequest) { q.GroupID = "bobs" }),
			wire.CodeValidation},
		"in no group": {bob, change(func(q *wire.OpenJournalKeyRequest) { q.GroupID = "nowhere" }),
			wire.CodeGroupNotFound},
		"of another journal": {bob, change(func(q *wire.OpenJournalKeyRequest) { q.Journal = item.ID }),
			wire.CodeValidation},
		"of no journal": {bob, change(func(q *wire.OpenJournalKeyRequest) { q.Journal = "x" }),
			wire.CodeValidation},
		"of another epoch": {bob, change(func(q *wire.OpenJournalKeyRequest) { q.Epoch = 9 }), wire.CodeEpoch},
		"of another shape": {bob, change(func(q *wire.OpenJournalKeyRequest) { q.SealedKey = "AAAA" }),
			wire.CodeValidation},
		"a key of a file": {bob, wire.OpenJournalKeyRequest{Journal: item.ID, GroupID: "g", Epoch: item.Epoch,
			SealedKey: item.SealedKey}, wire.CodeValidation},
	} {
		status, body := c.by.tool(wire.OpOpenJournalKey, c.req)
		refuses(t, what, status, body, c.code)
	}
	item.SealedKey = request.SealedKey // nor does the key of a journal open as one of a file
	status, body = inClear.puts(item)
	refuses(t, "as the key of a file", status, body, wire.CodeValidation)
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	status, body = bob.tool(wire.OpOpenJournalKey, request)
	refuses(t, "after the revocation", status, body, wire.CodeNotAuthorized)
}

// Threat 57: a save that is sent again under another key gets its first answer, by its tag alone, also when its file
// was destroyed meanwhile. Nobody else's upload does.
func TestThreat57TagsOfSaves(t *testing.T) {
	t.Parallel()
	_, alice, _ := runWithMember(t)
	seal := func(id, name, content, tag string) *sealedItem {
		i := alice.seals("g", name, []byte(content))
		i.ID, i.Tag = id, tag
		alice.sealsKey(i, i.key, alice.id)
		return i
	}
	tag, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	item := seal(journalID, "f", "once", tag)
	first := alice.mustPut(item)
	if first.Repeated {
		t.Error("a new upload is called a repetition")
	}
	paid := alice.balance()
	again := func(when string, i *sealedItem) {
		t.Helper()
		got := alice.mustPut(i)
		if !got.Repeated || got.CID != first.CID || got.Seq != first.Seq || alice.balance() != paid {
			t.Errorf("%s: %+v, first %+v; %s left of %s", when, got, first, alice.balance(), paid)
		}
	}
	again("under another key", seal(journalID, "f", "once", tag))
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": first.CID})
	again("after the file was destroyed", seal(journalID, "f", "once", tag))
	renamed := seal(journalID, "g", "once", tag)
	for what, i := range map[string]*sealedItem{"another tag": seal(journalID, "f", "once", other),
		"no tag": seal(journalID, "f", "once", ""), "another name": renamed} {
		status, body := alice.puts(i)
		refuses(t, what, status, body, wire.CodeSpent)
	}
	bad := seal("ffeeddccbbaa99887766554433221100", "h", "bad", "short")
	status, body := alice.puts(bad)
	refuses(t, "no tag at all", status, body, wire.CodeValidation)
	swapped := seal("ffeeddccbbaa99887766554433221100", "h", "swapped", tag)
	swapped.Tag = other
	status, body = alice.puts(swapped)
	refuses(t, "a tag that the key is not sealed with", status, body, wire.CodeValidation)
	plain := alice.seals("g", "plain", []byte("plain"))
	alice.mustPut(plain)
	plain.Tag = tag
	alice.sealsKey(plain, plain.key, alice.id)
	status, body = alice.puts(plain)
	refuses(t, "a tag where none was", status, body, wire.CodeSpent)
}

// Threat 58: a journal that has ended opens no more. Its end is kept as long as the epoch of its key, and nobody fills
// the database with ends.
func TestThreat58EndsOfJournals(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 5,
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	alice := r.owner()
	request, _ := alice.journal(journalID, "g", alice.id)
	end := wire.EndJournalRequest{Journal: journalID, Epoch: request.Epoch}
	bob := r.user("bob", "1")
	must[string](bob, wire.OpEndJournal, end) // an id of his own
	alice = alice.sealed()
	must[wire.OpenJournalKeyResult](alice, wire.OpOpenJournalKey, request)
	for range 20 {
		must[string](alice, wire.OpEndJournal, end)
	}
	status, body := alice.tool(wire.OpOpenJournalKey, request)
	refuses(t, "open what ended", status, body, wire.CodeJournalEnded)
	for what, c := range map[string]struct {
		req  wire.EndJournalRequest
		code string
	}{
		"no id":          {wire.EndJournalRequest{Epoch: 1}, wire.CodeValidation},
		"no epoch":       {wire.EndJournalRequest{Journal: journalID}, wire.CodeEpoch},
		"a future epoch": {wire.EndJournalRequest{Journal: journalID, Epoch: 2}, wire.CodeEpoch},
	} {
		status, body := alice.tool(wire.OpEndJournal, c.req)
		refuses(t, what, status, body, c.code)
	}
	var refusal wire.Error
	for i := range 10 {
		id := strings.Repeat(string(rune('a'+i%6)), 31) + string(rune('0'+i))
		if status, body = bob.tool(wire.OpEndJournal, wire.EndJournalRequest{Journal: id, Epoch: 1}); status != 200 {
			break
		}
	}
	if err := json.Unmarshal([]byte(body), &refusal); err != nil || refusal.Code != wire.CodeRateLimited {
		t.Errorf("ends without end: %d %s", status, body)
	}
	ends := func() (n int) {
		ok(t, r.openDatabase().QueryRow("SELECT count(*) FROM ended_journals").Scan(&n))
		return n
	}
	before := ends()
	ok(t, r.svc.RotateUploadKey(t.Context()))
	ok(t, r.svc.Sweep(t.Context()))
	if n := ends(); n != before {
		t.Errorf("%d ends of %d are left while the vault has the epoch", n, before)
	}
	later.Store(int64(91 * 24 * time.Hour))
	ok(t, r.svc.Sweep(t.Context()))
	if n := ends(); n != 0 {
		t.Errorf("%d ends are left of an epoch that the vault does not have", n)
	}
	alice.login()
	status, body = alice.tool(wire.OpOpenJournalKey, request)
	refuses(t, "an epoch that ended", status, body, wire.CodeEpoch)
}

// Threat 52: a journal that was ended from an old copy of its disk, which knows an earlier epoch, opens no more from a
// newer copy either, also after that epoch.
func TestThreat52JournalEndedFromAnOldCopy(t *testing.T) {
	t.Parallel()
	for _, endedBefore := range []bool{false, true} {
		var later atomic.Int64
		r := runWith(t, service.Config{Database: newDatabase(t),
			Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
		alice := r.owner()
		old, _ := alice.journal(journalID, "g", alice.id)
		end := wire.EndJournalRequest{Journal: journalID, Epoch: old.Epoch}
		if endedBefore {
			must[string](alice, wire.OpEndJournal, end)
		}
		ok(t, r.svc.RotateUploadKey(t.Context()))
		newer, _ := alice.journal(journalID, "g", alice.id)
		must[string](alice, wire.OpEndJournal, end)
		later.Store(int64(91 * 24 * time.Hour))
		ok(t, r.svc.Sweep(t.Context()))
		alice.login()
		status, body := alice.tool(wire.OpOpenJournalKey, newer)
		refuses(t, "from a newer copy", status, body, wire.CodeJournalEnded)
	}
}
