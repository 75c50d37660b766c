package service_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// refusal asks for an operation that must be refused with a status and a code.
func (u *user) refusal(op string, request any, status int, code string) {
	u.t.Helper()
	if got, body := u.tool(op, request); got != status || !strings.Contains(body, code) {
		u.t.Errorf("%s %v as %s: %d, want %d with %s: %s", op, request, u.id, got, status, code, body)
	}
}

// offerNow lets the time of every offer come.
func (r *running) offerNow() {
	r.t.Helper()
	r.exec("UPDATE groups SET offer_from_ns = 1 WHERE offer_to IS NOT NULL")
}

// A member leaves for nothing, as if it was revoked: it gets no key, what it asked for is forgotten, and
// only the owner brings it back.
func TestMembersLeave(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	ref := alice.upload("g", "f", []byte("content")).Location
	must[string](alice, wire.OpOfferGroup, object{"group_id": "g", "member_id": bob.id})
	before, paid := alice.watch(0, 0).Seq, bob.balance()
	alice.refusal(wire.OpLeaveGroup, object{"group_id": "g"}, http.StatusConflict, "svcfs group hand-over")
	must[string](bob, wire.OpLeaveGroup, object{"group_id": "g"})
	if bob.balance() != paid {
		t.Error("leaving costs something")
	}
	bob.refusal(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref},
		http.StatusForbidden, "left or was revoked")
	bob.refusal(wire.OpLeaveGroup, object{"group_id": "g"}, http.StatusForbidden, wire.CodeNotAuthorized)
	if events := alice.watch(before, time.Second).Events; kinds(events) != "revoke_group_member g bob" {
		t.Errorf("alice is told %s", kinds(events))
	}
	if got := must[wire.PendingResult](alice, wire.OpGetPending, object{"group_id": "g"}).OfferedTo; got != "" {
		t.Errorf("the group is still offered to %s", got)
	}
	alice.adds(bob)
	bob.reads(ref, "content")
	t.Run("who left joins no open group again", func(t *testing.T) {
		must[string](alice, wire.OpCreateHackathonGroup,
			object{"group_id": "open", "expires_at": later(), "max_uses": 2, "role": "reader"})
		must[string](bob, wire.OpJoinGroup, object{"group_id": "open"})
		must[string](bob, wire.OpLeaveGroup, object{"group_id": "open"})
		bob.refusal(wire.OpJoinGroup, object{"group_id": "open"},
			http.StatusForbidden, "only its owner can add it again")
	})
	r.audits()
}

// A text has no group in the command that it names: the id of a group may hold a command of its own.
func TestTextsNameNoGroupInACommand(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	const id = "a b;c"
	must[string](alice, wire.OpRegisterGroup, object{"group_id": id})
	must[string](alice, wire.OpAddGroupMember, object{"group_id": id, "member_id": bob.id})
	for _, asked := range []struct {
		op   string
		args object
	}{
		{wire.OpSetGroupRetention, object{"group_id": id, "retention_days": 0}},
		{wire.OpSetGroupVersions, object{"group_id": id, "keep": "1"}},
		{wire.OpOfferGroup, object{"group_id": id, "member_id": bob.id}},
		{wire.OpDeleteGroup, object{"group_id": id}},
	} {
		if text := must[string](alice, asked.op, asked.args); !strings.Contains(text, " GROUP") ||
			strings.Count(text, id) != 1 {
			t.Errorf("%s says %q", asked.op, text)
		}
	}
}

// Threat 45: a group is deleted after the delay, of which members are told and which the owner takes back.
// Then nobody reads it, every key of it is destroyed, and nobody gets its id.
func TestThreat45GroupsAreDeleted(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	kept := bob.upload("g", "kept", []byte("content")).Location
	trashed := alice.upload("g", "removed", []byte("x"))
	alice.removes("removed", trashed.Seq)
	large := alice.savesAll("large", slices.Repeat([]byte("large"), 100_000))
	group := object{"group_id": "g"}
	pending := func() wire.PendingResult { return must[wire.PendingResult](bob, wire.OpGetPending, group) }
	seq := bob.watch(0, 0).Seq
	for range 2 { // again is neither sooner nor later
		if text := must[string](alice, wire.OpDeleteGroup, group); !strings.Contains(text, "svcfs group keep GROUP") {
			t.Errorf("it says %q", text)
		}
		r.removes(0)
	}
	if got := pending().GroupAt; !inADay(got) {
		t.Errorf("members are shown %q", got)
	}
	if events := bob.watch(seq, time.Second).Events; kinds(events) != "pend_destruction g alice" {
		t.Errorf("bob is told %s", kinds(events))
	}
	bob.refusal(wire.OpKeepFiles, group, http.StatusForbidden, wire.CodeNotAuthorized)
	if text := must[string](alice, wire.OpKeepFiles, group); !strings.Contains(text, "not deleted") {
		t.Errorf("it says %q", text)
	}
	r.dueNow()
	r.removes(0)
	bob.reads(kept, "content")

	must[string](alice, wire.OpDeleteGroup, group)
	isTheEnd := func(w files.Waiting) bool { return w.GroupEnds && w.Group == "g" }
	if list, err := r.svc.Waiting(t.Context()); err != nil || !slices.ContainsFunc(list, isTheEnd) {
		t.Errorf("the operator is shown %+v, %v", list, err)
	}
	r.dueNow()
	seq = bob.watch(0, 0).Seq
	r.removes(3)
	told := kinds(bob.watch(seq, time.Second).Events)
	if !strings.HasPrefix(told, "delete_group g alice; tombstone_transaction g alice") {
		t.Errorf("bob is told %s", told)
	}
	for _, u := range []*user{alice, bob} {
		for op, request := range map[string]object{
			wire.OpPrepareRetrieve:      {"group_id": "g", "ipfs_hash": kept},
			wire.OpAddGroupMember:       {"group_id": "g", "member_id": "carol"},
			wire.OpCreateHackathonGroup: {"group_id": "g", "expires_at": later()},
			wire.OpGetGroupTransactions: group, wire.OpGetGroupMembers: group, wire.OpPrepareUpload: group,
			wire.OpKeepFiles: group, wire.OpLeaveGroup: group, wire.OpDeleteGroup: group, wire.OpAcceptGroup: group,
			wire.OpRegisterGroup: group,
		} {
			u.refusal(op, request, http.StatusForbidden, wire.CodeGroupDeleted)
		}
		if got := must[wire.AuthStatusResult](u, wire.OpAuthStatus, group); *got.AuthorizedForGroup || got.Role != "" {
			t.Errorf("%s is told to be a member, %+v", u.id, got)
		}
		for _, op := range []string{wire.OpGetMemberGroups, wire.OpGetOwnedGroups} {
			if list := u.listed(op, object{}); len(list) > 0 {
				t.Errorf("%s lists %v", op, list)
			}
		}
	}
	if problem := alice.readLarge(large); problem == "" {
		t.Error("a large file of a deleted group is read")
	}
	var keys int
	ok(t, r.openDatabase().QueryRow("SELECT count(*) FROM files WHERE key_id IS NOT NULL").Scan(&keys))
	if keys > 0 {
		t.Errorf("%d files have keys", keys)
	}
	if n, err := r.svc.OwnedGroups(t.Context(), alice.id); err != nil || n != 0 {
		t.Errorf("alice owns %d groups, %v", n, err)
	}
	r.audits()
}

// What a service without a delay deletes is gone at once.
func TestGroupsAreDeletedAtOnce(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{DestructionDelay: -1})
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	ref := alice.upload("g", "f", []byte("content")).Location
	must[string](alice, wire.OpDeleteGroup, object{"group_id": "g"})
	bob.refusal(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref},
		http.StatusForbidden, wire.CodeGroupDeleted)
	r.removes(1)
	r.audits()
}

// Threat 74: a stolen key does not take a group away in a moment: an offer waits, members are told, and the
// owner takes it back at every bound. Who accepts has the whole group, and the owner of before is a writer.
func TestThreat74OffersWait(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	carol := r.user("carol", "10")
	alice.gives(bob, "g", "reader")
	group := object{"group_id": "g"}
	to := func(id string) object { return object{"group_id": "g", "member_id": id} }
	pending := func() wire.PendingResult { return must[wire.PendingResult](alice, wire.OpGetPending, group) }

	alice.refusal(wire.OpOfferGroup, to(carol.id), http.StatusConflict, "not a member")
	alice.refusal(wire.OpOfferGroup, to(alice.id), http.StatusConflict, "already")
	bob.refusal(wire.OpOfferGroup, to(bob.id), http.StatusForbidden, wire.CodeNotAuthorized)
	alice.adds(carol)
	if _, err := r.svc.DisableAccount(t.Context(), "carol"); err != nil {
		t.Fatal(err)
	}
	alice.refusal(wire.OpOfferGroup, to(carol.id), http.StatusConflict, "disabled")
	alice.refusal(wire.OpOfferGroup, to("nobody"), http.StatusConflict, "not a member")
	must[string](alice, wire.OpAddGroupMember, to("nobody"))
	alice.refusal(wire.OpOfferGroup, to("nobody"), http.StatusNotFound, wire.CodeAccountUnknown)

	seq := bob.watch(0, 0).Seq
	first := must[string](alice, wire.OpOfferGroup, to(bob.id))
	if again := must[string](alice, wire.OpOfferGroup, to(bob.id)); again != first {
		t.Errorf("asked again, it says %q, first %q", again, first)
	}
	if got := pending(); got.OfferedTo != bob.id || !inADay(got.OfferFrom) {
		t.Errorf("members are shown %+v", got)
	}
	if events := bob.watch(seq, time.Second).Events; kinds(events) != "offer_group g bob; offer_group g bob" {
		t.Errorf("bob is told %s", kinds(events))
	}
	bob.refusal(wire.OpAcceptGroup, group, http.StatusConflict, wire.CodeNotOffered)
	must[string](alice, wire.OpOfferGroup, to(""))
	r.offerNow()
	bob.refusal(wire.OpAcceptGroup, group, http.StatusConflict, wire.CodeNotOffered)

	must[string](alice, wire.OpOfferGroup, to(bob.id))
	r.exec(fmt.Sprintf("UPDATE groups SET offer_from_ns = 1, offer_until_ns = %d", time.Now().UnixNano()))
	bob.refusal(wire.OpAcceptGroup, group, http.StatusConflict, wire.CodeNotOffered) // too late
	if got := pending(); got.OfferedTo != "" {
		t.Errorf("an offer that is over is shown: %+v", got)
	}

	must[string](alice, wire.OpOfferGroup, to(bob.id))
	must[string](alice, wire.OpDeleteGroup, group)
	must[string](alice, wire.OpSetGroupVersions, object{"group_id": "g", "keep": "1"})
	file := alice.upload("g", "f", []byte("content"))
	alice.removes("f", file.Seq)
	r.audits()
	r.offerNow()
	must[string](bob, wire.OpAcceptGroup, group)
	if got := pending(); got.GroupAt != "" || got.VersionsAt != "" || got.OfferedTo != "" {
		t.Errorf("what waited goes on: %+v", got)
	}
	for u, want := range map[*user]wire.Role{alice: wire.RoleWriter, bob: wire.RoleOwner} {
		if got := must[wire.AuthStatusResult](u, wire.OpAuthStatus, group).Role; got != want {
			t.Errorf("%s is a %s, want %s", u.id, got, want)
		}
	}
	if until := alice.deletedOf(file.Location).Until; until != "" {
		t.Errorf("what the owner of before removed ends at %s: the new owner decides", until)
	}
	alice.refusal(wire.OpOfferGroup, to(alice.id), http.StatusForbidden, wire.CodeNotAuthorized)
	bob.gives(alice, "g", "reader")
	must[string](bob, wire.OpSetGroupRetention, object{"group_id": "g", "retention_days": 30})
	r.audits()
}

// Threat 74: a stolen key that used up the free changes of a day keeps its owner from nothing that takes
// back, and a member from leaving. A full group keeps nobody from accepting.
func TestThreat74UsedUpChanges(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 6, MaxGroupBytes: 4 << 10})
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	group := object{"group_id": "g"}
	must[string](alice, wire.OpDeleteGroup, group)
	must[string](alice, wire.OpOfferGroup, object{"group_id": "g", "member_id": bob.id})
	usesUp := func(u *user) {
		for n := 0; ; n++ {
			status, _ := u.tool(wire.OpMakeFolder, object{"group_id": "g", "folder": fmt.Sprint(u.id, n)})
			if status == http.StatusTooManyRequests {
				return
			}
			if n > 6 {
				t.Fatal("the free changes of an account have no end")
			}
		}
	}
	usesUp(alice)
	alice.refusal(wire.OpOfferGroup, object{"group_id": "g", "member_id": bob.id},
		http.StatusTooManyRequests, wire.CodeRateLimited)
	must[string](alice, wire.OpOfferGroup, object{"group_id": "g", "member_id": ""})
	must[string](alice, wire.OpKeepFiles, group)
	r.dueNow()
	r.removes(0)
	usesUp(bob)
	must[string](bob, wire.OpLeaveGroup, group)

	carol, dave := r.user("carol", "10"), r.user("dave", "10")
	must[string](carol, wire.OpRegisterGroup, object{"group_id": "full"})
	must[string](carol, wire.OpAddGroupMember, object{"group_id": "full", "member_id": dave.id})
	carol.upload("full", "f", make([]byte, 3<<10))
	must[string](carol, wire.OpOfferGroup, object{"group_id": "full", "member_id": dave.id})
	r.exec("UPDATE stored_bytes SET bytes = bytes + 4096 WHERE name = 'full'")
	r.offerNow()
	must[string](dave, wire.OpAcceptGroup, object{"group_id": "full"})
	r.audits()
}

// The operator offers the groups of a disabled account to a member of them, and takes that back by
// enabling the account.
func TestGroupsOfDisabledAccounts(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "hers"})
	r.user("carol", "10")
	offer := func(owner, member string) (groups.Offered, error) {
		return r.svc.OfferGroups(t.Context(), owner, member)
	}
	if _, err := offer("alice", "bob"); err == nil || !strings.Contains(err.Error(), "svcd account disable") {
		t.Errorf("of an account that is not disabled: %v", err)
	}
	if _, err := r.svc.DisableAccount(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"alice", "nobody", "x y"} {
		if _, err := offer("alice", member); err == nil {
			t.Errorf("offered to %q", member)
		}
	}
	if got, err := offer("alice", "carol"); err != nil || len(got.Groups) != 0 || len(got.NoMember) != 2 {
		t.Errorf("to an account that is a member nowhere: %+v, %v", got, err)
	}
	for range 2 {
		got, err := offer("alice", "bob")
		if err != nil || !slices.Equal(got.Groups, []string{"g"}) || !slices.Equal(got.NoMember, []string{"hers"}) {
			t.Errorf("%+v, %v", got, err)
		}
		r.audits()
		if _, err := r.svc.EnableAccount(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		bob.refusal(wire.OpAcceptGroup, object{"group_id": "g"}, http.StatusConflict, wire.CodeNotOffered)
		if _, err := r.svc.DisableAccount(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := offer("alice", "bob"); err != nil {
		t.Fatal(err)
	}
	must[string](bob, wire.OpAcceptGroup, object{"group_id": "g"})
	if list := bob.listed(wire.OpGetOwnedGroups, object{}); list["g"] != wire.RoleOwner {
		t.Errorf("bob owns %v", list)
	}
	r.audits()
}

// A group that ended counts for nobody.
func TestEndedGroupsDoNotCount(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{DestructionDelay: -1})
	alice := r.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "carol"})
	must[string](alice, wire.OpDeleteGroup, object{"group_id": "g"})
	if made, err := r.svc.CreateAccount(t.Context(), "carol", wire.Amount{}); err != nil || made.MemberOf != 0 {
		t.Errorf("a new account is a member of %d groups, %v", made.MemberOf, err)
	}
}

// Threat 45: groups that a stranger made, and ended, hide no other group from the page.
func TestThreat45EndedGroupsHideNoOthers(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{DestructionDelay: -1, RequestRate: -1, Fees: ledger.Fees{}})
	mallory, bob := r.user("mallory", "10"), r.user("bob", "10")
	must[string](bob, wire.OpRegisterGroup, object{"group_id": "zoo"})
	for i := range 501 { // a page of the account page, and one more
		g := object{"group_id": fmt.Sprintf("a%03d", i)}
		must[string](mallory, wire.OpRegisterGroup, g)
		must[string](mallory, wire.OpAddGroupMember, object{"group_id": g["group_id"], "member_id": bob.id})
		must[string](mallory, wire.OpDeleteGroup, g)
	}
	s, err := store.Open(t.Context(), r.dir, "")
	ok(t, err)
	defer s.Close()
	list, err := groups.New(s, nil, nil, 0).Overview(t.Context(), bob.id, "", 501)
	ok(t, err)
	if len(list) != 1 {
		t.Errorf("the first page of groups of bob has %d groups, and so there is no next: want 1, his own", len(list))
	}
}

// Threat 45: of a group that ended nobody is told what others did before.
func TestThreat45WatchAfterTheEnd(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "carol"})
	ref := alice.upload("g", "secret", []byte("content")).Location
	must[string](alice, wire.OpDeleteGroup, object{"group_id": "g"})
	r.removes(1)
	for _, u := range []*user{bob, r.user("carol", "1")} {
		for _, e := range u.watch(0, 0).Events {
			if e.Ref == ref && e.Kind == "record_transaction" {
				t.Errorf("%s still sees the upload of %s: %+v", u.id, alice.id, e)
			}
		}
	}
}

// Threat 74: a thief who used up the owner's share of the reserve of a full disk keeps nobody from taking back.
func TestThreat74FullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "64m")
	r := runWith(t, service.Config{DataDir: filepath.Join(dir, "data"), RequestRate: -1})
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	must[string](alice, wire.OpDeleteGroup, object{"group_id": "g"})
	must[string](alice, wire.OpOfferGroup, object{"group_id": "g", "member_id": bob.id})
	ok(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 58<<20), 0o600)) // into the reserve, 6.4 MiB
	for n := 0; ; n++ {
		role := []string{"reader", "writer"}[n%2]
		status, _ := alice.tool(wire.OpAddGroupMember, object{"group_id": "g", "member_id": bob.id, "role": role})
		if status != http.StatusOK || n > 100_000 {
			break
		}
	}
	status, body := alice.tool(wire.OpOfferGroup, object{"group_id": "g", "member_id": ""})
	if status != http.StatusOK {
		t.Errorf("the offer is not taken back: %d %s", status, body)
	}
	if status, body := alice.tool(wire.OpKeepFiles, object{"group_id": "g"}); status != http.StatusOK {
		t.Errorf("the group is not kept: %d %s", status, body)
	}
}

// Threat 45: the files of a group that ended end by its owner, also those that a member had removed.
func TestThreat45FilesEndWithTheirGroup(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	ref := bob.upload("g", "his", []byte("x"))
	bob.removes("his", ref.Seq)
	must[string](alice, wire.OpDeleteGroup, object{"group_id": "g"})
	r.dueNow()
	r.exec("UPDATE files SET trash_until_ns = 1 WHERE trash_until_ns IS NOT NULL") // both are due in one sweep
	r.removes(1)
	var seq int64
	var by string
	db := r.openDatabase()
	ok(t, db.QueryRow("SELECT seq FROM ledger WHERE kind = 'delete_group'").Scan(&seq))
	ok(t, db.QueryRow("SELECT account FROM ledger WHERE kind = 'tombstone_transaction' AND seq > $1", seq).Scan(&by))
	if by != alice.id {
		t.Errorf("after delete_group, %s ended a file of the group", by)
	}
}

// Threat 45: nothing waits in a group that ended, the key of its lists is destroyed, and its tree of names is removed.
func TestThreat45NothingWaitsAfterTheEnd(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	refs := alice.many("g", groups.BulkFiles+1)
	alice.rootOfNames(t)
	counts := func() (trees, pages int) {
		t.Helper()
		ok(t, r.openDatabase().QueryRow("SELECT (SELECT count(*) FROM name_trees), (SELECT count(*) FROM name_pages)").
			Scan(&trees, &pages))
		return trees, pages
	}
	r.removes(0)
	if trees, pages := counts(); trees != 1 || pages == 0 {
		t.Errorf("the group has %d trees of %d pages", trees, pages)
	}
	for _, ref := range refs {
		alice.tool(wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	}
	must[string](alice, wire.OpDeleteGroup, object{"group_id": "g"})
	r.exec("UPDATE groups SET pending_end_ns = 1 WHERE pending_end_ns IS NOT NULL")
	r.removes(1)
	var keys int
	ok(t, r.openDatabase().QueryRow("SELECT count(*) FROM groups WHERE list_key IS NOT NULL").Scan(&keys))
	if keys > 0 {
		t.Error("the list key of the ended group is there after the sweep")
	}
	if trees, pages := counts(); trees+pages > 0 {
		t.Errorf("the ended group has %d trees of %d pages", trees, pages)
	}
	r.exec("INSERT INTO name_pages VALUES ('g', 1, 1, $1)", []byte{1}) // of a build that was killed
	r.removes(0)
	if _, pages := counts(); pages > 0 {
		t.Errorf("the ended group has %d pages of no tree", pages)
	}
	list, err := r.svc.Waiting(t.Context())
	ok(t, err)
	if len(list) > 0 {
		t.Errorf("after the group has ended there waits %+v", list)
	}
	r.audits()
}

// Threat 74: what any member asked for before is cancelled when a group changes its owner.
func TestThreat74NothingWaitsForTheNewOwner(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	carol := r.user("carol", "100")
	alice.adds(carol)
	refs := carol.many("g", groups.BulkFiles+1)
	for _, ref := range refs {
		carol.tool(wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	}
	must[string](alice, wire.OpOfferGroup, object{"group_id": "g", "member_id": bob.id})
	r.offerNow()
	must[string](bob, wire.OpAcceptGroup, object{"group_id": "g"})
	if got := must[wire.PendingResult](bob, wire.OpGetPending, object{"group_id": "g"}); got.Files > 0 {
		t.Errorf("%d deletions wait after accept_group", got.Files)
	}
	r.audits()
}

// A sweep has more patience with readers than a deletion: it cleans the database where a deletion gives up.
func TestASweepOutlastsReaders(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{})
	other, err := store.Open(t.Context(), r.dir, "")
	ok(t, err)
	defer other.Close()
	ok(t, other.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "PRAGMA busy_timeout = 700") // no attempt of a deletion lasts so long
		return err
	}))
	swept := make(chan error, 1)
	ok(t, other.Read(t.Context(), func(tx *store.Tx) error {
		if _, err := store.Values[string](t.Context(), tx, "read", "SELECT name FROM meta"); err != nil {
			return err
		}
		go func() { swept <- r.svc.Sweep(t.Context()) }()
		proctest.Eventually(t, "a long attempt", func() bool {
			err := other.Write(t.Context(), store.Everything(), func(*store.Tx) error { return nil })
			return errors.Is(err, store.ErrUnavailable) || len(swept) > 0
		})
		if len(swept) > 0 {
			t.Error("it did not wait")
		}
		return nil
	}))
	ok(t, <-swept)
}
