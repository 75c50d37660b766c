package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/fault"
)

const sealedBlock = block + format.Overhead

// What the trash and a thinning would give back is what they do give back: parts that
// versions share count once, and not at all while another version needs them.
func TestBytesOfSharedParts(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	first := g.alice.savesAll("f", contentOf("a", 9))
	second := g.alice.savesBlock("f", first, 1)
	third := g.alice.savesBlock("f", second, 1)
	other := g.alice.savesAll("other", contentOf("b", 5))
	whole := int64(8*sealedBlock + 1000 + format.Overhead)
	stored := g.alice.ofFiles()
	if want := whole + 2*sealedBlock + 4*sealedBlock + 1000 + format.Overhead; stored != want {
		t.Errorf("%d bytes are stored, want %d", stored, want)
	}
	trash := func(want int64) {
		t.Helper()
		if got := must[wire.TrashResult](g.alice, wire.OpGetTrash, object{"group_id": "g"}); got.Bytes != want {
			t.Errorf("the trash has %d bytes, want %d", got.Bytes, want)
		}
	}
	// of the second version the part with block 1; the first shares all it has with the third
	would := g.owner.tries("1")
	if would.Versions != 2 || would.Bytes != sealedBlock || would.Names[0].Bytes != sealedBlock {
		t.Errorf("a thinning would take %+v", would)
	}
	trash(0)
	must[string](g.alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": second.CID})
	if got := g.alice.ofFiles(); got != stored-sealedBlock {
		t.Errorf("%d bytes are stored, want %d", got, stored-sealedBlock)
	}
	must[wire.NameResult](g.alice, wire.OpRemoveFile,
		object{"group_id": "g", "filename": "f", "seq": g.alice.lastSeq()})
	trash(whole + sealedBlock)
	must[wire.NameResult](g.alice, wire.OpRestoreFile,
		object{"group_id": "g", "filename": "f", "seq": g.alice.lastSeq()})
	trash(0)
	g.alice.readsLarge(first, third, other)
	must[wire.NameResult](g.alice, wire.OpRemoveFile,
		object{"group_id": "g", "filename": "f", "seq": g.alice.lastSeq()})
	g.wait(31)
	g.running.removes(2)
	if got := g.alice.ofFiles(); got != 4*sealedBlock+1000+format.Overhead {
		t.Errorf("after the trash time %d bytes are stored", got)
	}
	g.clean(1)
	g.audits()
}

// Parts of an upload that nobody finishes count while it lives, and go with it.
func TestAbandonedPartsGo(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	base := g.alice.savesAll("f", contentOf("a", 6))
	before := g.alice.stored("g")
	s := g.alice.beginsLarge("g", "f", base.CID, changed(base.plain, 2, "new"))
	s.puts("2")
	if got := g.alice.stored("g").Group.Bytes; got != before.Group.Bytes+sealedBlock {
		t.Errorf("%d bytes are stored with the upload, %d before", got, before.Group.Bytes)
	}
	g.ahead.Add(int64(23 * time.Hour))
	g.sweeps()
	g.keepsParts("0-3", "4-5", "2")
	g.ahead.Add(int64(2 * time.Hour))
	g.alice.login()
	g.sweeps()
	g.keepsParts("0-3", "4-5")
	if got := g.alice.stored("g"); *got.Group != *before.Group || got.Account != before.Account {
		t.Errorf("stored: %+v, before %+v", got.Group, before.Group)
	}
	if n := countFiles(t, filepath.Join(g.dir, "blobs")); n != 2 {
		t.Errorf("%d blobs are there", n)
	}
	s.takes(base, "0-1,3-5")
	s.refusedWith(wire.CodeMissing, s.manifest())
	g.alice.readsLarge(base)
	g.clean(1)
}

// Blocks that an upload sent twice, or sent and did not use, go with the next sweep.
func TestBlocksThatNobodyUsesGo(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	s := alice.beginsLarge("g", "f", "", contentOf("a", 6))
	s.puts("0-5")
	s.puts("2,4") // changed again before the file was recorded
	s.puts("4")
	version := s.finishes()
	r.keepsParts("0-5", "2,4", "4")
	r.sweeps()
	r.keepsParts("0-1,3,5", "2", "4")
	alice.readsLarge(version)
	r.clean(1)
}

// A download that finds its part gone says that the file was deleted, if it was: it began before.
func TestDeletedBeforeItsFirstPartIsOpened(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	file := alice.savesAll("f", contentOf("a", 2))
	b, err := r.svc.OpenBlocks(t.Context(), alice.id, "g", file.CID)
	ok(t, err)
	blocks := b.Reader(t.Context())
	defer blocks.Close()
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": file.CID})
	r.sweeps()
	r.keepsParts()
	var told *fault.Error
	if err := blocks.Open(); !errors.As(err, &told) || told.Code != wire.CodeFileDeleted {
		t.Errorf("%v", err)
	}
}

// A retrieval of a file in blocks that is deleted, and gone, once it was found says so.
func TestDeletedOnceItWasFound(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	file := alice.savesAll("f", contentOf("a", 2))
	err := r.svc.FindAndRetrieve(t.Context(), alice.id, "g", file.CID, func() {
		must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": file.CID})
		r.sweeps()
	})
	var told *fault.Error
	if !errors.As(err, &told) || told.Code != wire.CodeFileDeleted {
		t.Errorf("%v", err)
	}
}

// svcd verify follows a file from the ledger down to its blocks, and names every file that
// a damaged part belongs to.
func TestVerifyOfFilesInBlocks(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: 32 << 20})
	alice := r.owner()
	first := alice.savesAll("f", contentOf("a", 9))
	second := alice.savesBlock("f", first, 8)
	other := alice.savesAll("other", contentOf("b", 300))
	db := r.openDatabase()
	one := func(query string) (text string) {
		t.Helper()
		ok(t, db.QueryRow(query).Scan(&text))
		return text
	}
	blob := func(part format.PartID) string {
		id := one("SELECT blob_id FROM parts WHERE id = '" + part.String() + "'")
		return filepath.Join(r.dir, "blobs", id[:2], id)
	}
	bad := func(what string, readData bool, want ...large) {
		t.Helper()
		found := map[string]string{}
		n, err := r.svc.Verify(t.Context(), readData, func(ref string, err error) { found[ref] = err.Error() })
		if err != nil || n != 3 || len(found) != len(want) {
			t.Errorf("%s: %d files, %q, %v", what, n, found, err)
		}
		for _, v := range want {
			if found[v.CID] == "" {
				t.Errorf("%s: %s is not named", what, v.CID)
			}
		}
	}
	set := func(what, statement, undo string, want ...large) {
		t.Helper()
		for _, s := range []string{statement, undo} {
			if _, err := db.Exec(s); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if s == statement {
				bad(what, false, want...)
			}
		}
	}
	r.clean(3)
	shared, own := first.in[4], second.in[8]
	flip(t, blob(shared), 3*sealedBlock-1)
	bad("a changed block, not read", false)
	bad("a changed block", true, first, second)
	flip(t, blob(shared), 3*sealedBlock-1)
	kept := blob(own)
	raw, err := os.ReadFile(kept)
	ok(t, err)
	ok(t, os.Truncate(kept, 5))
	bad("a part that was cut", false, second)
	ok(t, os.Remove(kept))
	bad("a part that is gone", false, second)
	ok(t, os.WriteFile(kept, raw, 0o600))
	empty := "x''"
	if r.database != "" {
		empty = `''::bytea`
	}
	if _, err := db.Exec("CREATE TABLE saved AS SELECT tops FROM contents WHERE ref = '" + other.CID +
		"'"); err != nil {
		t.Fatal(err)
	}
	quoted := func(v large) string { return " WHERE ref = '" + v.CID + "'" }
	content := one("SELECT content FROM files" + quoted(first))
	set("the ledger has another content", "UPDATE files SET content = '"+content[2:]+content[:2]+"'"+quoted(first),
		"UPDATE files SET content = '"+content+"'"+quoted(first), first)
	set("a use is missing", "DELETE FROM part_uses WHERE part = '"+own.String()+"'",
		"INSERT INTO part_uses (part, ref) VALUES ('"+own.String()+"', '"+second.CID+"')", second)
	set("other blocks", "UPDATE parts SET blocks = '5-8' WHERE id = '"+shared.String()+"'",
		"UPDATE parts SET blocks = '4-7' WHERE id = '"+shared.String()+"'", first, second)
	set("no hashes", "UPDATE contents SET tops = "+empty+quoted(other),
		"UPDATE contents SET tops = (SELECT tops FROM saved)"+quoted(other), other)
	r.clean(3)
}

// Files in blocks with shared parts go round whole: to the other engine and store and back,
// and with another master key.
func TestFilesInBlocksMove(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		return // has both
	}
	bucket := s3test.Start(t)
	first := runWith(t, service.Config{DataDir: filepath.Join(t.TempDir(), "data"), DestructionDelay: -1})
	alice := first.owner()
	versions := []large{alice.savesAll("f", contentOf("a", 9))}
	for i := range 4 {
		versions = append(versions, alice.savesBlock("f", versions[i], int64(i)))
	}
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": versions[0].CID})
	versions = versions[1:]
	open := alice.beginsLarge("g", "f", versions[3].CID, changed(versions[3].plain, 7, "new"))
	open.puts("7")
	second := runWith(t, service.Config{DataDir: masterKeyOnly(t, first.dir), Database: engines.NewPostgres(t),
		Blobs: bucket.Location(bucket.NewBucket(t)), DestructionDelay: -1})
	third := runWith(t, service.Config{DataDir: masterKeyOnly(t, first.dir), DestructionDelay: -1})
	for _, move := range [][2]*running{{first, second}, {second, third}} {
		var stream bytes.Buffer
		if _, err := move[0].svc.Export(t.Context(), &stream, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := move[1].svc.Import(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		move[1].clean(4)
		alice.signsInAt(move[1]).readsLarge(versions...)
	}
	at := alice.signsInAt(third)
	third.sweeps() // what the deletion left to do goes along
	third.keepsParts("1-3", "4-7", "8", "0", "1", "2", "3", "7")
	open.user = at // the upload goes on where the service is now
	open.takes(versions[3], "0-6,8")
	versions = append(versions, open.finishes())
	if _, err := third.svc.RotateMasterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	at.readsLarge(versions...)
	third.clean(5)
	restored := third.moved()
	restored.clean(5)
	alice.signsInAt(restored).readsLarge(versions...)
	for _, r := range []*running{second, restored} { // on the other engine, too, space comes back
		u := alice.signsInAt(r)
		for _, row := range u.rows("g") {
			if row.Deleted == nil {
				if status, body := u.tool(wire.OpDeleteFile,
					object{"group_id": "g", "ipfs_hash": row.IPFSHash}); status != http.StatusOK {
					t.Fatal(body)
				}
				r.sweeps()
				r.clean(-1)
			}
		}
	}
	restored.keepsParts()
	second.keepsParts("7") // of the upload that nobody finished there
}

// Archives are whole while versions are saved and deleted, and parts written anew.
func TestFilesInBlocksMoveUnderLoad(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	stays := alice.savesAll("stays", contentOf("s", 6))
	var stop atomic.Bool
	var load sync.WaitGroup
	load.Go(func() {
		version := alice.savesAll("f", contentOf("a", 6))
		for i := int64(0); !stop.Load(); i++ {
			before := version
			version = alice.savesBlock("f", before, i%6)
			must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": before.CID})
		}
	})
	load.Go(func() {
		for !stop.Load() {
			if err := r.svc.Sweep(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("sweep: %v", err)
			}
		}
	})
	var chain []*bytes.Buffer
	for range 4 { // a full archive and increments
		archive := &bytes.Buffer{}
		var since io.Reader
		if n := len(chain); n > 0 {
			since = bytes.NewReader(chain[n-1].Bytes())
		}
		if _, err := r.svc.Export(t.Context(), archive, since); err != nil {
			t.Error(err)
		}
		chain = append(chain, archive)
	}
	stop.Store(true)
	load.Wait()
	for n := range chain {
		m := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
		var readers []io.Reader
		for _, archive := range chain[:n+1] {
			readers = append(readers, bytes.NewReader(archive.Bytes()))
		}
		if _, err := m.svc.Import(t.Context(), readers...); err != nil {
			t.Fatal(err)
		}
		m.clean(-1)
		alice.signsInAt(m).readsLarge(stays)
	}
	r.clean(-1)
}

// A part that the sweep writes anew meanwhile is read all the same.
func TestPartsAreWrittenAnewUnderReaders(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	version := alice.savesAll("f", contentOf("a", 9))
	for i := range int64(5) {
		before := version
		version = alice.savesBlock("f", before, i)
		answer := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": version.CID, "formats": []int{1, 2}})
		must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": before.CID})
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.sweeps()
		}()
		for range 5 {
			if status, sealed := alice.fetch(answer.DataURL, ""); status != http.StatusOK ||
				int64(len(sealed)) != answer.DataSize {
				t.Errorf("%d, %d of %d bytes", status, len(sealed), answer.DataSize)
			}
		}
		<-done
		alice.readsLarge(version)
	}
	r.keepsParts("0", "1", "2", "3", "4", "5-7", "8")
	r.clean(1)
}

// The sweep removes few rows in one write, for which all others wait, however many are out of date.
func TestSweepInPieces(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	const many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001) INSERT INTO "
	before := alice.stored("").Account.Bytes
	r.exec(many+"uploads (id, account, group_id, ref, filename, key_version, key_id, expires_ns, blob_id, blob_size) "+
		"SELECT 'id' || i, ?, 'g', '', '', 1, i, 1, 'blob' || i, 5 FROM n", alice.id)
	r.exec(many+"file_keys (id, wrapped_key, free) SELECT i, ?, i < 0 FROM n", make([]byte, 60))
	r.exec(many+"part_uploads (id, account, group_id, block_size, began_ns, expires_ns, parts, part_bytes) "+
		"SELECT 'id' || i, ?, 'g', 1, 1, 1, 0, 0 FROM n", alice.id)
	r.exec(many + "claims (account, claim_id, ref, time_ns) SELECT 'a', 'id' || i, 'ref', 1 FROM n")
	if got := alice.stored("").Account.Bytes; got != before+5*1001 {
		t.Fatalf("%d bytes are counted", got-before)
	}
	const writes = `svcd_part_duration_seconds_count{call="write",part="database"}`
	made := r.metric(writes)
	ok(t, r.svc.Sweep(t.Context()))
	if made = r.metric(writes) - made; made < 4 {
		t.Errorf("3003 rows went in %d writes", made)
	}
	var left int
	ok(t, r.openDatabase().QueryRow("SELECT (SELECT count(*) FROM uploads) + (SELECT count(*) FROM part_uploads) + "+
		"(SELECT count(*) FROM claims) + (SELECT count(*) FROM file_keys WHERE free = (id < 0))").Scan(&left))
	if got := alice.stored("").Account.Bytes; left != 0 || got != before {
		t.Errorf("%d rows are left, and %d bytes are counted", left, got-before)
	}
	ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
}
