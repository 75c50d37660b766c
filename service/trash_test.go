package service_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
)

// trashGroup is a group of an owner, two writers and a reader, with a clock that
// can be moved on.
type trashGroup struct {
	*running
	ahead                      *atomic.Int64
	tick                       atomic.Pointer[func()] // is called whenever the service asks for the time
	owner, alice, bob, visitor *user
}

func runTrash(t *testing.T) *trashGroup {
	t.Helper()
	ahead := new(atomic.Int64)
	g := &trashGroup{ahead: ahead}
	g.running = runWith(t, service.Config{Database: newDatabase(t), RequestRate: -1, Now: func() time.Time {
		if tick := g.tick.Load(); tick != nil {
			(*tick)()
		}
		return time.Now().Add(time.Duration(ahead.Load()))
	}})
	g.owner, g.alice, g.bob, g.visitor = g.user("owner", "10"), g.user("alice", "10"), g.user("bob", "10"),
		g.user("visitor", "10")
	must[string](g.owner, wire.OpRegisterGroup, object{"group_id": "g"})
	g.owner.gives(g.alice, "g", "writer")
	g.owner.gives(g.bob, "g", "writer")
	g.owner.gives(g.visitor, "g", "reader")
	return g
}

// wait lets days pass; tokens are made anew.
func (g *trashGroup) wait(days float64) {
	g.t.Helper()
	g.ahead.Add(int64(days * 24 * float64(time.Hour)))
	for _, u := range []*user{g.owner, g.alice, g.bob, g.visitor} {
		u.login()
	}
}

// audits replays the ledger against every table.
func (r *running) audits() {
	r.t.Helper()
	if _, err := r.svc.Audit(r.t.Context()); err != nil {
		r.t.Error(err)
	}
}

func (u *user) removes(name string, seq int64) wire.NameResult {
	u.t.Helper()
	return must[wire.NameResult](u, wire.OpRemoveFile, object{"group_id": "g", "filename": name, "seq": seq})
}

func (u *user) restores(name string, seq int64) wire.NameResult {
	u.t.Helper()
	return must[wire.NameResult](u, wire.OpRestoreFile, object{"group_id": "g", "filename": name, "seq": seq})
}

// lastSeq is the newest record about a file of the group.
func (u *user) lastSeq() (seq int64) {
	u.t.Helper()
	for _, row := range u.rows("g") {
		seq = max(seq, row.ChangedSeq)
	}
	return seq
}

// deletedOf is the deletion of a reference in a listing.
func (u *user) deletedOf(ref string) *wire.Deleted {
	u.t.Helper()
	for _, row := range u.rows("g") {
		if row.IPFSHash == ref {
			return row.Deleted
		}
	}
	u.t.Fatalf("%s is not listed", ref)
	return nil
}

// refusedAsDeleted wants the refusal that every client knows.
func (u *user) refusedAsDeleted(ref string) {
	u.t.Helper()
	status, body := u.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
	if status != http.StatusNotFound || !strings.Contains(body, wire.CodeFileDeleted) ||
		!strings.Contains(body, "File deleted") {
		u.t.Errorf("%s reads a file that is gone: %d %s", u.id, status, body)
	}
}

// Threat 46: removing a name destroys nothing, hides all of its versions from all,
// and only uploader and owner read them or bring them back.
func TestThreat46RemovedAndBroughtBack(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	v1, v2 := g.alice.upload("g", "doc", []byte("one")), g.alice.upload("g", "doc", []byte("two"))
	keys := g.wrappedKeys()
	seen := g.bob.watch(0, 0).Seq
	for u, want := range map[*user]int{g.bob: 403, g.visitor: 403} {
		if status, body := u.tool(wire.OpRemoveFile,
			object{"group_id": "g", "filename": "doc", "seq": v2.Seq}); status != want {
			t.Errorf("%s removes it: %d %s", u.id, status, body)
		}
	}
	out := g.alice.removes("doc", v2.Seq)
	if out.Files != 2 || out.More || out.Until == "" {
		t.Errorf("removed %+v", out)
	}
	for _, ref := range []string{v1.CID, v2.CID} {
		d := g.bob.deletedOf(ref)
		if d == nil || !d.Trash || d.Until != out.Until || d.Reason != wire.ReasonOwnerRequest ||
			d.DeletedBy != g.alice.id {
			t.Errorf("others are told %+v", d)
		}
		g.bob.refusedAsDeleted(ref)
		g.visitor.refusedAsDeleted(ref)
	}
	g.alice.reads(v1.CID, "one")
	g.owner.reads(v2.CID, "two")
	if got := kinds(g.bob.watch(seen, time.Second).Events); strings.Count(got, chain.KindRemove) != 2 {
		t.Errorf("members are told %q", got)
	}
	if status, body := g.alice.tool(wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": v1.CID,
		"filename": "x"}); status != http.StatusNotFound || !strings.Contains(body, wire.CodeFileDeleted) {
		t.Errorf("renamed in the trash: %d %s", status, body)
	}
	for name, key := range g.wrappedKeys() {
		if string(keys[name]) != string(key) {
			t.Error("a key was changed")
		}
	}
	if got := must[wire.TrashResult](g.bob, wire.OpGetTrash, object{"group_id": "g"}); got.Files != 2 ||
		got.Days != 30 || got.Who != wire.TrashUploader || got.Bytes != 62 || got.Held != 0 {
		t.Errorf("the trash is %+v", got)
	}
	g.audits()
	if status, body := g.bob.tool(wire.OpRestoreFile,
		object{"group_id": "g", "filename": "doc", "seq": g.owner.lastSeq()}); status != 403 {
		t.Errorf("another writer brings it back: %d %s", status, body)
	}
	if out := g.alice.restores("doc", g.alice.lastSeq()); out.Files != 2 {
		t.Errorf("brought back %+v", out)
	}
	for ref, text := range map[string]string{v1.CID: "one", v2.CID: "two"} {
		if d := g.bob.deletedOf(ref); d != nil {
			t.Errorf("after it came back: %+v", d)
		}
		g.bob.reads(ref, text)
	}
	g.audits()
	if n, err := g.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 2 {
		t.Errorf("verify: %d, %v", n, err)
	}
}

// A request that is repeated after a lost answer changes nothing that came between.
func TestRemoveIsIdempotent(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	seq := g.alice.upload("g", "doc", []byte("one")).Seq
	if n := g.alice.removes("doc", seq).Files; n != 1 {
		t.Errorf("removed %d", n)
	}
	later := g.alice.upload("g", "doc", []byte("later"))
	if n := g.alice.removes("doc", seq).Files; n != 0 {
		t.Errorf("again removed %d", n)
	}
	g.bob.reads(later.CID, "later")
	removed := g.alice.lastSeq()
	if n := g.alice.restores("doc", removed).Files; n != 1 {
		t.Errorf("brought back %d", n)
	}
	if n := g.alice.removes("doc", seq).Files; n != 0 {
		t.Errorf("a late repetition removed %d that had come back", n)
	}
	g.alice.removes("doc", g.alice.lastSeq())
	if n := g.alice.restores("doc", removed).Files; n != 0 {
		t.Errorf("a late repetition brought back %d", n)
	}
	renamed := g.alice.upload("g", "before", []byte("x"))
	must[string](g.alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": renamed.CID, "filename": "after"})
	if n := g.alice.removes("after", renamed.Seq).Files; n != 1 {
		t.Errorf("who gave it a name, and does not know the sequence of that, removed %d", n)
	}
	g.audits()
	for _, request := range []object{{"filename": "doc"}, {"seq": 5}, {"filename": "none", "seq": 5}} {
		request["group_id"] = "g"
		if status, body := g.alice.tool(wire.OpRemoveFile, request); status != 400 && status != 404 {
			t.Errorf("%v: %d %s", request, status, body)
		}
	}
}

// The name of an upload that has none is its content.
func TestRemoveWithoutAName(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	one, two := g.alice.upload("g", "", []byte("same")), g.alice.upload("g", "", []byte("same"))
	other := g.alice.upload("g", "", []byte("other"))
	out := must[wire.NameResult](g.alice, wire.OpRemoveFile,
		object{"group_id": "g", "ipfs_hash": one.CID, "seq": other.Seq})
	if out.Files != 2 || g.alice.deletedOf(two.CID) == nil || g.alice.deletedOf(other.CID) != nil {
		t.Errorf("removed %+v", out)
	}
	out = must[wire.NameResult](g.alice, wire.OpRestoreFile,
		object{"group_id": "g", "ipfs_hash": two.CID, "seq": g.alice.lastSeq()})
	if out.Files != 2 {
		t.Errorf("brought back %+v", out)
	}
}

// A name with a version of another account below it is not removed.
func TestRemoveNeedsEveryVersion(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	g.alice.upload("g", "doc", []byte("alice's"))
	seq := g.bob.upload("g", "doc", []byte("bob's")).Seq
	for _, u := range []*user{g.alice, g.bob} {
		if status, body := u.tool(wire.OpRemoveFile,
			object{"group_id": "g", "filename": "doc", "seq": seq}); status != 403 {
			t.Errorf("%s removed the other's version: %d %s", u.id, status, body)
		}
	}
	if n := g.owner.removes("doc", seq).Files; n != 2 {
		t.Errorf("the owner removed %d", n)
	}
	if n := g.bob.restores("doc", g.bob.lastSeq()).Files; n != 1 {
		t.Errorf("bob brought back %d, and has one", n)
	}
}

// A file of another account that got the name after the client looked stays.
func TestRemoveLeavesWhatOthersGaveTheNameLater(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	bobs := g.bob.upload("g", "draft", []byte("bob's"))
	g.alice.upload("g", "doc", []byte("alice's"))
	seen := g.owner.lastSeq()
	must[string](g.bob, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": bobs.CID, "filename": "doc"})
	if n := g.owner.removes("doc", seen).Files; n != 1 {
		t.Errorf("removed %d, and has seen one", n)
	}
	g.alice.reads(bobs.CID, "bob's")
}

// Versions of others do not become invisible behind many of one's own, nor keep one's own
// away.
func TestRemoveAndRestoreBeyondOneRequest(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	carol := g.user("carol", "100")
	g.owner.gives(carol, "g", "writer")
	carol.recorded("g", 1001, func(int) string { return "doc" })
	g.bob.upload("g", "doc", []byte("b"))
	if status, body := carol.tool(wire.OpRemoveFile,
		object{"group_id": "g", "filename": "doc", "seq": carol.lastSeq()}); status != 403 {
		t.Errorf("carol removes the name of bob's version: %d %s", status, body)
	}
	seq := g.owner.lastSeq()
	out := g.owner.removes("doc", seq)
	if n := len(out.Records); out.Files != 1000 || n == 0 || n > 64 || out.Receipt.Number != out.Records[n-1].Number {
		t.Errorf("%d versions were removed with %d records and the receipt %+v", out.Files, n, out.Receipt)
	}
	for out.More {
		out = g.owner.removes("doc", seq)
	}
	if out := g.bob.restores("doc", g.bob.lastSeq()); out.Files != 1 || out.More {
		t.Errorf("bob brought back %+v", out)
	}
}

// Threat 46: when the trash time is over the key is destroyed as by a deletion, and
// not before.
func TestThreat46TrashEnds(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	up := g.alice.upload("g", "doc", []byte("content"))
	must[string](g.owner, wire.OpSetGroupTrash, object{"group_id": "g", "days": 3})
	if status, _ := g.alice.tool(wire.OpSetGroupTrash, object{"group_id": "g", "days": 1}); status != 403 {
		t.Errorf("a writer set the trash time: %d", status)
	}
	for _, bad := range []object{{"days": 0}, {"days": 5000}, {"who": "me"}} {
		bad["group_id"] = "g"
		if status, _ := g.owner.tool(wire.OpSetGroupTrash, bad); status != 400 {
			t.Errorf("%v: %d", bad, status)
		}
	}
	before := must[wire.StorageResult](g.alice, wire.OpGetStorage, object{}).Account.Bytes
	g.alice.removes("doc", up.Seq)
	must[string](g.owner, wire.OpSetGroupTrash, object{"group_id": "g", "days": 1}) // of files removed from now on
	g.wait(2.9)
	g.running.removes(0)
	if now := must[wire.StorageResult](g.alice, wire.OpGetStorage, object{}).Account.Bytes; now != before {
		t.Errorf("%d bytes are counted with the trash, %d before", now, before)
	}
	g.alice.reads(up.CID, "content")
	g.wait(0.2)
	g.running.removes(1)
	if d := g.alice.deletedOf(up.CID); d == nil || d.Trash || d.Reason != wire.ReasonOwnerRequest ||
		d.DeletedBy != g.alice.id {
		t.Errorf("after the end: %+v", d)
	}
	g.alice.refusedAsDeleted(up.CID)
	if len(g.wrappedKeys()) != 0 {
		t.Error("the key is there")
	}
	if status, body := g.alice.tool(wire.OpRestoreFile,
		object{"group_id": "g", "filename": "doc", "seq": g.alice.lastSeq()}); status != http.StatusNotFound {
		t.Errorf("brought back after the end: %d %s", status, body)
	}
	if now := must[wire.StorageResult](g.alice, wire.OpGetStorage, object{}).Account.Bytes; now != 0 {
		t.Errorf("%d bytes are counted after the end", now)
	}
	g.audits()
}

// Threat 46: a file removed by a member that may not destroy it, or may not any more,
// waits for the owner of the group.
func TestThreat46TheEndWaitsForTheOwner(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	alices, bobs := g.alice.upload("g", "alice's", []byte("a")), g.bob.upload("g", "bob's", []byte("b"))
	must[string](g.owner, wire.OpSetGroupTrash, object{"group_id": "g", "who": "writers"})
	if out := g.bob.removes("alice's", bobs.Seq); out.Files != 1 || out.Until != "" {
		t.Errorf("a writer removed another's: %+v", out)
	}
	if out := g.bob.removes("bob's", bobs.Seq); out.Until == "" {
		t.Errorf("its own: %+v", out)
	}
	g.audits()
	must[string](g.owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": g.bob.id})
	if got := must[wire.TrashResult](g.owner, wire.OpGetTrash, object{"group_id": "g"}); got.Held != 2 ||
		got.Files != 2 {
		t.Errorf("after the revocation: %+v", got)
	}
	g.audits()
	g.wait(4000)
	g.running.removes(0)
	if n := g.alice.restores("alice's", g.alice.lastSeq()).Files; n != 1 {
		t.Errorf("the uploader brought back %d", n)
	}
	must[string](g.owner, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": bobs.CID}) // the owner decides
	g.owner.refusedAsDeleted(bobs.CID)
	g.alice.reads(alices.CID, "a")
	g.audits()
}

// Threat 46: a stolen account removes everything with the shortest trash time. Once the
// operator has disabled the account, nothing is destroyed.
func TestThreat46DisabledAccountDestroysNothing(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	up := g.owner.upload("g", "doc", []byte("content"))
	must[string](g.owner, wire.OpSetGroupTrash, object{"group_id": "g", "days": 1})
	g.owner.removes("doc", up.Seq)
	if _, err := g.svc.DisableAccount(t.Context(), "owner"); err != nil {
		t.Fatal(err)
	}
	g.audits()
	g.ahead.Add(int64(100 * 24 * time.Hour))
	g.running.removes(0)
	if _, err := g.svc.EnableAccount(t.Context(), "owner"); err != nil {
		t.Fatal(err)
	}
	g.wait(1)
	g.running.removes(0)
	g.audits()
	if n := g.owner.restores("doc", g.owner.lastSeq()).Files; n != 1 {
		t.Errorf("brought back %d", n)
	}
	g.owner.reads(up.CID, "content")
	g.audits()
}

// Retention wins over trash time, and the delay of deletions in bulk too.
func TestTrashAndOtherDestruction(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	up := g.alice.upload("g", "doc", []byte("content"))
	g.owner.retention("g", 8)
	g.wait(7)
	g.alice.removes("doc", up.Seq)
	g.wait(1.1)
	g.running.removes(1)
	if d := g.alice.deletedOf(up.CID); d == nil || d.Trash || d.Reason != wire.ReasonRetentionPolicy {
		t.Errorf("after the retention window: %+v", d)
	}
	g.audits()
	slow := runWith(t, service.Config{Database: newDatabase(t), DestructionDelay: 100 * 24 * time.Hour})
	carol := slow.user("carol", "10")
	must[string](carol, wire.OpRegisterGroup, object{"group_id": "g"})
	out := carol.removes("doc", carol.upload("g", "doc", []byte("x")).Seq)
	if until, err := strconv.ParseInt(out.Until, 10, 64); err != nil ||
		time.Until(time.Unix(0, until)) < 99*24*time.Hour {
		t.Errorf("it ends at %q, before the delay of deletions in bulk is over: %v", out.Until, err)
	}
}

// Bringing a file back takes back a deletion of it that waits: else it would be destroyed
// among the living files.
func TestRestoreCancelsADeletionThatWaits(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	up := g.alice.upload("g", "doc", []byte("content"))
	g.alice.removes("doc", up.Seq)
	for _, ref := range g.alice.many("g", groups.BulkFiles) {
		must[string](g.alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	}
	if status, body := g.alice.tool(wire.OpDeleteFile, object{"group_id": "g",
		"ipfs_hash": up.CID}); status == http.StatusOK || !strings.Contains(body, wire.CodePending) {
		t.Fatalf("the deletion does not wait: %d %s", status, body)
	}
	g.alice.restores("doc", g.alice.lastSeq())
	g.dueNow()
	g.running.removes(0)
	g.alice.reads(up.CID, "content")
	g.audits()
}

// The longest names that are recorded are removed and brought back like others, also
// when nothing of them can be compressed.
func TestLongestNamesInTheTrash(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	long := func() (name string) {
		for len(name) < files.MaxFilename {
			name += rand.Text()
		}
		return name[:files.MaxFilename]
	}
	name := long()
	up := g.alice.upload("g", long(), []byte("content"))
	must[string](g.alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": up.CID, "filename": name})
	if n := g.alice.removes(name, g.alice.lastSeq()).Files; n != 1 {
		t.Errorf("removed %d", n)
	}
	if n := g.alice.restores(name, g.alice.lastSeq()).Files; n != 1 {
		t.Errorf("brought back %d", n)
	}
	g.alice.reads(up.CID, "content")
	g.audits()
}

// A client that lists by change and knows no chains would call a file that comes back a
// rollback: such a file never leaves that list.
func TestTrashInTheListByChange(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	up := g.alice.upload("g", "doc", []byte("content"))
	g.alice.removes("doc", up.Seq)
	rows := must[[]wire.TransactionRow](g.bob, wire.OpGetGroupTransactions,
		object{"group_id": "g", "after_seq": up.Seq, "limit": 10})
	if len(rows) != 1 || rows[0].Deleted != nil || rows[0].ChangedSeq <= up.Seq {
		t.Errorf("the list says %+v", rows)
	}
}

// The trash goes with a group to another database.
func TestTrashIsExported(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	up := g.alice.upload("g", "doc", []byte("content"))
	must[string](g.owner, wire.OpSetGroupTrash, object{"group_id": "g", "days": 5, "who": "writers"})
	g.alice.removes("doc", up.Seq)
	var export bytes.Buffer
	if _, err := g.svc.Export(t.Context(), &export, nil); err != nil {
		t.Fatal(err)
	}
	there := runWith(t, service.Config{DataDir: masterKeyOnly(t, g.dir), Database: newDatabase(t)})
	if _, err := there.svc.Import(t.Context(), &export); err != nil {
		t.Fatal(err)
	}
	there.audits()
	alice := g.alice.at(there)
	alice.login()
	if n := alice.restores("doc", alice.lastSeq()).Files; n != 1 {
		t.Errorf("brought back %d", n)
	}
	alice.reads(up.CID, "content")
}
