package service_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// wrappedKeys reads the wrapped keys of files past the service.
func (r *running) wrappedKeys() map[string][]byte {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close() // an open connection keeps SQLite's log
	rows, err := db.Query(`SELECT ref, wrapped_key FROM files JOIN file_keys ON file_keys.id = key_id
		UNION ALL SELECT ref, substr(data, 1, 60) FROM files JOIN small_contents ON small_contents.id = -key_id`)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	keys := map[string][]byte{}
	for rows.Next() {
		var ref string
		var key []byte
		ok(r.t, rows.Scan(&ref, &key))
		keys[ref] = key
	}
	ok(r.t, rows.Err())
	return keys
}

func (u *user) rows(group string) []wire.TransactionRow {
	u.t.Helper()
	return must[[]wire.TransactionRow](u, wire.OpGetGroupTransactions, object{"group_id": group})
}

func TestThreat34(t *testing.T) {
	t.Parallel()
	r, alice := runInFiles(t)
	up := alice.upload("g", "f", []byte("gone for good"))
	kept := alice.upload("g", "kept", []byte("still here"))
	file := object{"group_id": "g", "ipfs_hash": up.CID}
	blobPath, err := r.svc.BlobPath(t.Context(), up.CID)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := os.ReadFile(blobPath)
	if err != nil {
		t.Fatal(err)
	}
	wrapped := r.wrappedKeys()[up.CID]
	if len(wrapped) == 0 || !r.databaseHolds(wrapped) {
		t.Fatal("the wrapped key was not found before the deletion: the search proves nothing")
	}
	must[string](alice, wire.OpDeleteFile, file)
	if r.databaseHolds(wrapped) {
		t.Error("the wrapped key is still in the database")
	}
	if _, err := os.Stat(blobPath); !os.IsNotExist(err) {
		t.Errorf("the blob is still there: %v", err)
	}
	ok(t, os.WriteFile(blobPath, blob, 0o600))
	if status, body := alice.tool(wire.OpPrepareRetrieve, file); status != http.StatusNotFound ||
		!strings.Contains(body, "File deleted") || !strings.Contains(body, wire.CodeFileDeleted) {
		t.Errorf("with the blob put back: %d %s", status, body)
	}
	row := alice.rows("g")[0]
	if row.Deleted == nil || row.Deleted.Reason != wire.ReasonOwnerRequest || row.Deleted.DeletedBy != alice.id ||
		row.ChangedSeq <= row.Seq {
		t.Errorf("the row says %+v, changed at %d", row.Deleted, row.ChangedSeq)
	}
	alice.reads(kept.CID, "still here")
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 1 {
		t.Errorf("verify: %d, %v", n, err)
	}
}

// Pages of the database are split and joined while files come and go, and the
// places of destroyed keys are taken by others.
func TestThreat34ManyFiles(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	count := 100
	if r.database != "" {
		count = 12 // PostgreSQL does not overwrite in place: the rows are looked at, not the files
	}
	destroyed := map[string][]byte{}
	for range 2 {
		for i := range count {
			alice.upload("g", fmt.Sprint("file ", i), []byte{byte(i)})
		}
		i := 0
		for ref, wrapped := range r.wrappedKeys() { // in no order
			if i++; i%3 != 0 {
				must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
				destroyed[ref] = wrapped
			}
		}
		left := 0
		for _, wrapped := range destroyed {
			if r.databaseHolds(wrapped) {
				left++
			}
		}
		if left > 0 {
			t.Errorf("%d of %d destroyed keys are left", left, len(destroyed))
		}
	}
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 2*count-len(destroyed) {
		t.Errorf("verify: %d, %v", n, err)
	}
}

func TestDeleteIsIdempotentAndTheFirstRecordWins(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, uploader := r.user("owner", "10"), r.user("uploader", "10")
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "g"})
	owner.adds(uploader)
	file := object{"group_id": "g", "ipfs_hash": uploader.upload("g", "f", []byte("x")).CID}
	before, err := r.svc.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	must[string](uploader, wire.OpDeleteFile, file)
	first := *owner.rows("g")[0].Deleted
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if status, body := owner.tool(wire.OpDeleteFile, file); status != http.StatusOK {
				t.Errorf("deleted again: %d %s", status, body)
			}
		})
	}
	all.Wait()
	if got := *owner.rows("g")[0].Deleted; got != first || got.DeletedBy != uploader.id {
		t.Errorf("the record changed from %+v to %+v", first, got)
	}
	if after, err := r.svc.Audit(t.Context()); err != nil || after != before+1 {
		t.Errorf("%d records more, want 1: %v", after-before, err)
	}
	if status, body := owner.tool(wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": file["ipfs_hash"],
		"filename": "n"}); status != http.StatusNotFound || !strings.Contains(body, "File deleted") {
		t.Errorf("renamed after the deletion: %d %s", status, body)
	}
}

// The uploader and the owner may delete and rename, while they are members.
func TestThreat25DeleteAndRename(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, uploader, member, outsider := r.user("owner", "10"), r.user("uploader", "10"), r.user("member", "10"),
		r.user("outsider", "10")
	for _, g := range []string{"g", "other"} {
		must[string](owner, wire.OpRegisterGroup, object{"group_id": g})
	}
	for _, u := range []*user{uploader, member} {
		owner.adds(u)
	}
	ref := uploader.upload("g", "f", []byte("x")).CID
	for _, tc := range []struct {
		name   string
		u      *user
		group  string
		ref    string
		status int
	}{
		{"member", member, "g", ref, 403},
		{"outsider", outsider, "g", ref, 403},
		{"no such file", owner, "g", "bafy-none", 404},
		{"no such group", owner, "none", ref, 404},
		{"in another group", owner, "other", ref, 404},
		{"nothing", owner, "", "", 404},
		{"dead token", &user{running: r, id: owner.id, token: "x"}, "g", ref, 401},
	} {
		for op, more := range map[string]object{wire.OpDeleteFile: {}, wire.OpRenameFile: {"filename": "new"},
			wire.OpSetAttributes: {"attributes": object{"mtime": "1"}}} {
			more["group_id"], more["ipfs_hash"] = tc.group, tc.ref
			if status, body := tc.u.tool(op, more); status != tc.status {
				t.Errorf("%s as %s: %d, want %d: %s", op, tc.name, status, tc.status, body)
			} else if status == 403 && !strings.Contains(body, "not authorized") {
				t.Errorf("%s as %s: the text holds no word of the specification: %s", op, tc.name, body)
			}
		}
	}
	for _, u := range []*user{uploader, owner} {
		must[string](u, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": "by " + u.id})
	}
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": uploader.id})
	if status, body := uploader.tool(wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref}); status != 403 {
		t.Errorf("a revoked uploader deleted: %d %s", status, body)
	}
	must[string](owner, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
}

func TestRename(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	up := alice.upload("g", "old", []byte("content"))
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": up.CID, "filename": "folder/ünïcödé 文"})
	row := alice.rows("g")[0]
	if *row.Filename != "folder/ünïcödé 文" || row.ChangedSeq <= row.Seq || row.Seq != up.Seq ||
		row.TransID != up.TransID {
		t.Errorf("row %+v", row)
	}
	changed := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
		object{"group_id": "g", "after_seq": up.Seq})
	if len(changed) != 1 || changed[0].IPFSHash != up.CID {
		t.Errorf("a listing after the upload shows %+v", changed)
	}
	alice.reads(up.CID, "content")
	for name, filename := range map[string]string{"empty": "", "NUL": "a\x00b", "long": strings.Repeat("x", 5000)} {
		if status, body := alice.tool(wire.OpRenameFile,
			object{"group_id": "g", "ipfs_hash": up.CID, "filename": filename}); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if got := *alice.rows("g")[0].Filename; got != *row.Filename {
		t.Errorf("a refused name was recorded: %q", got)
	}
}

// Reads under way while a file is deleted give the content or say that it is gone.
func TestReadsUnderWayEndCleanly(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "50")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	for round := range 5 {
		content := bytes.Repeat([]byte{byte(round)}, 100_000) // beside the JSON
		ref := alice.upload("g", "f", content).CID
		raw := object{"group_id": "g", "ipfs_hash": ref, "transfer": "raw"}
		address := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, raw).DataURL
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if status, body := alice.tool(wire.OpPrepareRetrieve,
					object{"group_id": "g", "ipfs_hash": ref}); status != 200 &&
					!strings.Contains(body, "File deleted") {
					t.Errorf("retrieve: %d %.200s", status, body)
				}
			})
			all.Go(func() {
				req, err := http.NewRequest(http.MethodGet, r.url+address, nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = alice.header()
				if status, body := r.do(req); status == 200 && len(body) != len(content)+28 || status != 200 &&
					!strings.Contains(string(body), "File deleted") {
					t.Errorf("transfer: %d, %d bytes", status, len(body))
				}
			})
		}
		all.Go(func() {
			if status, body := alice.tool(wire.OpDeleteFile,
				object{"group_id": "g", "ipfs_hash": ref}); status != http.StatusOK {
				t.Errorf("delete: %d %s", status, body)
			}
		})
		all.Wait()
	}
}
