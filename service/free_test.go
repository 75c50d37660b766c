package service_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// smallDisk is a disk of its own for a test.
func smallDisk(t *testing.T, size string) (dir string) {
	t.Helper()
	proctest.Need(t, "root", "apart") // mounts a small disk
	dir = filepath.Join(t.TempDir(), "disk")
	ok(t, os.Mkdir(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,size="+size, "tmpfs",
		dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a tmpfs: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir
}

// fillDisk takes the last byte of a disk, as another program does.
func fillDisk(t *testing.T, dir string) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ok(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	return filler
}

// goesOn shows that what a member did keeps nobody from listing, reading, removing and revoking.
func goesOn(t *testing.T, owner, member *user, ref, name string) {
	t.Helper()
	if rows := owner.rows("g"); len(rows) == 0 {
		t.Error("nothing is listed")
	}
	owner.reads(ref, "content")
	owner.removes(name, owner.lastSeq())
	must[string](owner, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": member.id})
	if status, body := member.tool(wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": ref}); status != http.StatusForbidden {
		t.Errorf("who was revoked reads: %d %s", status, body)
	}
}

// TestThreat31RecordsCountByTheirBytes: a free change counts once for each started KiB of its record,
// names and tags included, as the database keeps them.
func TestThreat31RecordsCountByTheirBytes(t *testing.T) {
	t.Parallel()
	const free = 120
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: free})
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	name := strings.Repeat("\x01", 2000) + strings.Repeat("ä", 1000) // a control character takes six bytes
	ref := bob.upload("g", name, []byte("content")).CID
	before := r.ledgerBytes()
	made := 0
	for ; ; made++ {
		status, body := bob.tool(wire.OpSetAttributes, attributesRequest(ref, fmt.Sprintf(`{"mtime":"%d"}`, made+1)))
		if status == http.StatusTooManyRequests {
			break
		}
		if status != http.StatusOK || made > free {
			t.Fatalf("change %d: %d %s", made, status, body)
		}
	}
	if grown := r.ledgerBytes() - before; made == 0 || grown > free<<10 {
		t.Errorf("%d changes wrote %d bytes, and %d may be written", made, grown, free<<10)
	}
	ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
	goesOn(t, alice, bob, ref, name)
	r.audits()
}

// ledgerBytes is what the texts of the ledger take.
func (r *running) ledgerBytes() (n int64) {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close()
	ok(
		r.t, db.QueryRow(
			`SELECT CAST(sum(octet_length(tx_id || kind || account || group_id || ref || file_hash || detail || chain || tags) + 64) AS BIGINT) FROM ledger`).Scan(&n))
	return n
}

// TestThreat31ListsThatAMemberMakesLong: a member makes fewer free changes in a group of somebody
// else, and fewer of one file, than the owner.
func TestThreat31ListsThatAMemberMakesLong(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 3000})
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](bob, wire.OpRegisterGroup, object{"group_id": "his"})
	alice.adds(bob)
	ref, other, his := bob.upload("g", "f", []byte("content")).CID, bob.upload("g", "other", []byte("x")).CID,
		bob.upload("his", "f", []byte("x")).CID
	n := 0
	change := func(u *user, group, ref string) (int, string) {
		n++
		return u.tool(wire.OpSetAttributes,
			object{"group_id": group, "ipfs_hash": ref, "attributes": object{"mtime": fmt.Sprint(n)}})
	}
	refused := func(what string, status int, body string) {
		t.Helper()
		if status != http.StatusTooManyRequests || !strings.Contains(body, what) ||
			!strings.Contains(body, "midnight UTC") {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	goes := func(status int, body string) {
		t.Helper()
		if status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
	}
	for range 100 {
		goes(change(bob, "g", ref))
	}
	status, body := change(bob, "g", ref)
	refused("of this file", status, body)
	goes(change(alice, "g", ref))
	goes(change(bob, "g", other))
	r.exec("UPDATE free_changes SET made = 1000 WHERE scope = 'group:g'")
	status, body = change(bob, "g", other)
	refused("in this group", status, body)
	goes(change(bob, "his", his))
	goes(change(alice, "g", ref))
	goesOn(t, alice, bob, ref, "f")
}

// TestThreat31FreeChangesLeaveTheReserve: on a full disk nothing that is free adds to the ledger but what makes
// room or takes rights away, and that uses a share of the reserve.
func TestThreat31FreeChangesLeaveTheReserve(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "64m")
	r := runWith(t, service.Config{Database: newDatabase(t), DataDir: filepath.Join(dir, "data"), DestructionDelay: -1})
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	ref, his := alice.upload("g", "f", []byte("content")).CID, bob.upload("g", "his", []byte("content")).CID
	bob.makesFolder("folder")
	ok(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 58<<20), 0o600)) // into the reserve, 6.4 MiB
	full := func(u *user, op string, request object) {
		t.Helper()
		if status, body := u.tool(op, request); status != http.StatusInsufficientStorage {
			t.Errorf("%s: %d %s", op, status, body)
		}
	}
	full(bob, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": his, "filename": "new"})
	full(bob, wire.OpSetAttributes, attributesRequest(his, `{"mtime":"1"}`))
	full(bob, wire.OpMakeFolder, object{"group_id": "g", "folder": "more"})
	bob.removesFolder("folder")
	full(alice, wire.OpSetGroupRetention, object{"group_id": "g", "retention_days": 30})
	for _, role := range []string{"reader", "writer"} {
		must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": bob.id, "role": role})
	}
	bob.removes("his", bob.lastSeq())
	full(bob, wire.OpRestoreFile, object{"group_id": "g", "filename": "his", "seq": bob.lastSeq()})
	r.exec("UPDATE free_changes SET made = 2000000 WHERE scope = 'reserve' AND account = '" + bob.id + "'")
	if status, body := bob.tool(wire.OpDeleteFile,
		object{"group_id": "g", "ipfs_hash": his}); status != http.StatusInsufficientStorage ||
		!strings.Contains(body, "share of the reserve") {
		t.Errorf("beyond the share: %d %s", status, body)
	}
	r.exec("UPDATE free_changes SET made = 0 WHERE scope = 'reserve' AND account = '" + bob.id + "'")
	r.exec("UPDATE free_changes SET made = 3355443 WHERE scope = 'reserve' AND account = ''") // half of 6.4 MiB
	if status, body := bob.tool(wire.OpDeleteFile,
		object{"group_id": "g", "ipfs_hash": his}); status != http.StatusInsufficientStorage ||
		!strings.Contains(body, "share of the reserve") {
		t.Errorf("where members used their half: %d %s", status, body)
	}
	goesOn(t, alice, bob, ref, "f")
}

// TestThreat31DiskFilledByAnotherProgram: with no byte free, listing, reading, removing, revoking and a restart
// work.
func TestThreat31DiskFilledByAnotherProgram(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "64m")
	database, data := newDatabase(t), filepath.Join(dir, "data")
	s := serve(t, func(c *service.Config) { c.DataDir, c.Database = data, database })
	alice := s.user("alice", "1000")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	var members []*user
	var refs []string
	for i := range 2 {
		members = append(members, s.user(fmt.Sprint("m", i), "10"))
		alice.adds(members[i])
		refs = append(refs, alice.upload("g", fmt.Sprint(i), []byte("content")).CID)
	}
	held := func() bool {
		info, err := os.Stat(filepath.Join(data, "held-back"))
		return err == nil && info.Size() > 0
	}
	proctest.Eventually(t, "space is held back", held)
	filler := fillDisk(t, dir)
	goesOn(t, alice, members[0], refs[0], "0")
	s.end()
	fillDisk(t, dir)
	again := serve(t, func(c *service.Config) { c.DataDir, c.Database = data, database })
	alice, members[1] = alice.at(again.running), members[1].at(again.running)
	alice.login()
	members[1].login()
	goesOn(t, alice, members[1], refs[1], "1")
	if status, body := alice.tool(wire.OpPrepareUpload,
		object{"group_id": "g"}); status != http.StatusInsufficientStorage {
		t.Errorf("an upload: %d %s", status, body)
	}
	ok(t, os.Remove(filler))
	again.end()
	last := serve(t, func(c *service.Config) { c.DataDir, c.Database = data, database })
	proctest.Eventually(t, "space is held back again", held)
	alice = alice.at(last.running)
	alice.login()
	alice.upload("g", "after room was made", []byte("content"))
}
