package service_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// stored returns the stored bytes.
func (u *user) stored(group string) wire.StorageResult {
	u.t.Helper()
	return must[wire.StorageResult](u, wire.OpGetStorage, object{"group_id": group})
}

// ofFiles are the bytes stored for group g without the records of free changes.
func (u *user) ofFiles() int64 {
	u.t.Helper()
	db := u.openDatabase()
	defer db.Close()
	var changes int64
	ok(u.t, db.QueryRow("SELECT CAST(sum(n) AS BIGINT) FROM (SELECT '' AS kind, '' AS name, 0 AS counted, "+
		"0 AS n "+ledger.FreeBytesKept+") kept WHERE kind = '' OR kind = 'group' AND name = 'g'").Scan(&changes))
	return u.stored("g").Group.Bytes - changes
}

// Threat 31: one account, or one group, does not fill the store alone. Versions and
// unfinished uploads count; deleted files and ended uploads do not.
func TestThreat31BytesKept(t *testing.T) {
	t.Parallel()
	const file = 10_000
	const sealed = file + format.Overhead
	cfg := service.Config{Database: newDatabase(t), MaxAccountBytes: 3 * sealed, MaxGroupBytes: 4 * sealed}
	r := runWith(t, cfg)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "other"})
	alice.adds(bob)
	content := make([]byte, file)
	first := alice.upload("g", "f", content)
	alice.uploadRaw("g", "f", content) // another version
	begun := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "other"})
	late := alice.finalize("g", "late", content)
	if status, body := alice.put(begun, bytes.NewReader(make([]byte, sealed))); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	if s := alice.stored("g"); s.Account != (wire.StoredBytes{Bytes: 3 * sealed, Max: 3 * sealed}) ||
		*s.Group != (wire.StoredBytes{Bytes: 2 * sealed, Max: 4 * sealed}) || *s.Left != 0 {
		t.Errorf("stored: %+v %+v %d", s.Account, s.Group, *s.Left)
	}
	refused := func(what string, status int, body string, words ...string) {
		t.Helper()
		for _, word := range append(words, wire.CodeStorageFull, "delete files or old versions") {
			if status != http.StatusInsufficientStorage || !strings.Contains(body, word) {
				t.Errorf("%s: %d %s, want %q", what, status, body, word)
			}
		}
	}
	t.Run("an account that is full", func(t *testing.T) {
		status, body := alice.tool(wire.OpPrepareUpload, object{"group_id": "g"})
		refused("before the bytes are sent", status, body, "account alice.svc.testnet is full: it keeps 30084 bytes",
			"--max-account-bytes")
		status, body = alice.tool(wire.OpFinalizeUpload, late)
		refused("prepared before", status, body)
		if status, body := alice.put(begun, bytes.NewReader(make([]byte, sealed))); status != http.StatusNoContent {
			t.Errorf("the same once more instead: %d %s", status, body)
		}
		if got, problem := alice.retrieve("g", first.CID); problem != "" || !bytes.Equal(got, content) {
			t.Errorf("reading: %s", problem)
		}
	})
	t.Run("a group that is full", func(t *testing.T) {
		bob.upload("g", "b", content)
		bob.upload("g", "b", content)
		status, body := bob.tool(wire.OpPrepareUpload, object{"group_id": "g", "size": sealed})
		refused("the group", status, body, `group \"g\" is full: it keeps 40112 bytes`, "--max-group-bytes")
	})
	t.Run("what is deleted or expires counts no more", func(t *testing.T) {
		must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": first.CID})
		bob.upload("g", "b", content)
		if _, err := r.openDatabase().Exec("UPDATE uploads SET expires_ns = 1 WHERE result IS NULL"); err != nil {
			t.Fatal(err)
		}
		serve(t, func(c *service.Config) { c.DataDir, c.Database = r.dir, r.database }) // sweeps
		proctest.Eventually(t, "what expired counts no more",
			func() bool { return alice.stored("").Account.Bytes == sealed })
		if s := alice.stored(""); s.Group != nil || *s.Left != 2*sealed {
			t.Errorf("afterwards: %+v", s)
		}
		if err := r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }); err != nil {
			t.Error(err)
		}
	})
	t.Run("without bounds", func(t *testing.T) {
		unbounded := r.againWith(service.Config{MaxAccountBytes: -1, MaxGroupBytes: -1})
		if s := alice.at(unbounded).stored("g"); s.Account.Max != 0 || s.Group.Max != 0 {
			t.Errorf("without bounds: %+v", s)
		}
	})
}

// Threat 31: what a client says of tiny files counts like their bytes, however they come, and a
// deleted file keeps nothing of it.
func TestThreat31BytesOfFormats(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), MaxAccountBytes: 40_000})
	alice := r.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	said := json.RawMessage(`{"version":1,"filename":"f","said":"` + strings.Repeat("x", 30_000) + `"}`)
	sealed := func() (int, string) {
		item := alice.seals("g", "f", nil)
		item.Format = said
		alice.sealsKey(item, item.key, alice.id)
		return alice.puts(item)
	}
	inside := func() (int, string) {
		req := alice.finalize("g", "f", nil)
		req.Format = said
		return alice.tool(wire.OpFinalizeUpload, req)
	}
	raw := func() (int, string) {
		up := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
		if status, body := alice.put(up,
			bytes.NewReader(make([]byte, format.Overhead))); status != http.StatusNoContent {
			t.Fatal(status, body)
		}
		return alice.tool(wire.OpFinalizeUpload,
			wire.FinalizeUploadRequest{UploadID: up.UploadID, FileHash: hash(nil), Format: said})
	}
	for name, upload := range map[string]func() (int, string){"in one request": sealed, "inside JSON": inside,
		"raw": raw} {
		if status, body := upload(); status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, status, body)
		}
		for other, again := range map[string]func() (int, string){"in one request": sealed, "inside JSON": inside,
			"raw": raw} {
			if status, body := again(); status != http.StatusInsufficientStorage ||
				!strings.Contains(body, wire.CodeStorageFull) {
				t.Errorf("%s after %s: %d %s", other, name, status, body)
			}
		}
		ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
		rows := alice.rows("g")
		must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": rows[len(rows)-1].IPFSHash})
		r.exec("DELETE FROM uploads WHERE result IS NULL")
		if n := alice.stored("").Account.Bytes; n != 0 {
			t.Errorf("%d bytes count after the deletion", n)
		}
		if r.databaseHolds([]byte(strings.Repeat("x", 1000))) {
			t.Error("the database keeps what was said of a deleted file")
		}
	}
	r.clean(0)
}

// Threat 31: uploads that arrive at the same time do not pass the bound together.
func TestThreat31BytesKeptAtOnce(t *testing.T) {
	t.Parallel()
	const sealed = 5000 + format.Overhead
	cfg := service.Config{Database: newDatabase(t), MaxAccountBytes: 3 * sealed, SmallBytes: -1}
	r := runWith(t, cfg)
	alice := r.owner()
	elsewhere := alice.at(r.againWith(cfg))
	var requests []wire.FinalizeUploadRequest
	for i := range 16 {
		requests = append(requests, alice.finalize("g", fmt.Sprint(i), make([]byte, 5000)))
	}
	var all sync.WaitGroup
	for i, request := range requests {
		at := []*user{alice, elsewhere}[i%2]
		all.Go(func() {
			if status, body := at.tool(wire.OpFinalizeUpload, request); status != http.StatusOK &&
				status != http.StatusInsufficientStorage {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
	if s := alice.stored("g"); s.Account.Bytes != 3*sealed {
		t.Errorf("%d bytes are kept, want %d", s.Account.Bytes, 3*sealed)
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 3 {
		t.Errorf("%d blobs are kept", n)
	}
}

// verify names a count that is wrong.
func TestVerifyComparesStoredBytes(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	alice.upload("g", "f", []byte("x"))
	if _, err := r.openDatabase().Exec("UPDATE stored_bytes SET bytes = 7 WHERE kind = 'group'"); err != nil {
		t.Fatal(err)
	}
	var bad []string
	ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { bad = append(bad, what+": "+err.Error()) }))
	if len(bad) != 1 || !strings.HasPrefix(bad[0], "group g: 7 bytes are counted, 29 are kept") {
		t.Errorf("%v", bad)
	}
}

// Fault "the database server's disk is full": uploads are refused; reading, removing and
// administration use the reserve.
func TestFullDiskOfTheDatabaseServer(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		return // it has a server of its own
	}
	proctest.Need(t, "root", "apart") // mounts a small disk
	server := pgtest.Start(t)
	database := smallDatabase(t, server)
	s := serve(t, func(c *service.Config) { c.Database = database })
	alice := s.user("alice", "1000")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	content := []byte("content")
	var refs []string
	for i := range 10 {
		refs = append(refs, alice.upload("g", fmt.Sprint(i), content).CID)
	}
	db := s.openDatabase()
	held := func() (rows int64) {
		t.Helper()
		ok(t, db.QueryRow("SELECT count(*) FROM held_back").Scan(&rows))
		return rows
	}
	proctest.Eventually(t, "space is held back", func() bool { return held() > 0 })
	if _, err := db.Exec("CREATE TABLE filler (text CHAR(400))"); err != nil {
		t.Fatal(err)
	}
	for rows := 20_000; rows > 0; rows /= 2 { // to the last page
		for err := error(nil); err == nil; {
			_, err = db.Exec("INSERT INTO filler SELECT '' FROM generate_series(1, $1)", rows)
		}
	}
	for i := 0; ; i++ {
		if i > 1000 {
			t.Fatal("the disk is not full")
		}
		if status, body := alice.tool(wire.OpPrepareUpload, object{"group_id": "g"}); status != http.StatusOK {
			if status != http.StatusInsufficientStorage || !strings.Contains(body, "storage is full") {
				t.Errorf("%d %s", status, body)
			}
			break
		}
	}
	if held() != 0 {
		t.Error("what was held back was not used")
	}
	if _, out := s.asked(); out["space"] != "full" || out["status"] != "degraded" {
		t.Errorf("health: %v", out)
	}
	for _, ref := range refs {
		alice.reads(ref, string(content))
	}
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": refs[0]})
	bob := s.user("bob", "10")
	alice.adds(bob)
	bob.reads(refs[1], string(content))
	if _, err := db.Exec("DROP TABLE filler"); err != nil {
		t.Fatal(err)
	}
	again := alice.at(serve(t, func(c *service.Config) { c.DataDir, c.Database = s.dir, database }).running)
	proctest.Eventually(t, "space is held back again", func() bool { return held() > 0 })
	again.login()
	again.upload("g", "after room was made", content)
}

// The limits of accounts and groups are half of the disk as it is now, not as it was at the start.
func TestLimitsFollowTheDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "64m")
	resize := func(options string) {
		t.Helper()
		if out, err := exec.Command("mount", "-o", "remount,"+options, dir).CombinedOutput(); err != nil {
			t.Fatalf("mount a tmpfs: %s", out)
		}
	}
	r := runWith(t, service.Config{Database: newDatabase(t), Blobs: dir})
	alice := r.owner()
	for _, size := range []int64{64 << 20, 128 << 20} {
		if got := alice.stored("g"); got.Account.Max != size/2 || got.Group == nil || got.Group.Max != size/2 {
			t.Errorf("with %d bytes of disk the limits are %+v, %+v", size, got.Account, got.Group)
		}
		resize("size=128m")
	}
}

// smallDatabase is a database on a disk of its own, of 64 MiB.
func smallDatabase(t *testing.T, server *pgtest.Server) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgdisk-") // where another user can reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a tmpfs: %s", out)
	}
	t.Cleanup(func() {
		server.Stop()
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	server.Own(t, dir)
	db, err := sql.Open("pgx", server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"CREATE TABLESPACE small LOCATION '" + dir + "'",
		"CREATE DATABASE small TABLESPACE small"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Replace(server.URL(), "/postgres?", "/small?", 1)
}

// Fault "the bucket has no room": it is not tried again for every upload, reading and
// removing go on, and removing makes uploads try again.
func TestFullBucket(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	direct := server.Location(server.NewBucket(t))
	full, puts, at := fullBucket(t, direct)
	r := runWith(t, service.Config{Database: newDatabase(t), Blobs: at, SmallBytes: -1})
	alice := r.owner()
	content := []byte("content")
	kept := alice.upload("g", "kept", content)
	gone := alice.upload("g", "gone", content)
	late := alice.finalize("g", "late", content)
	full.Store(true)
	if status, body := alice.tool(wire.OpFinalizeUpload, late); status != http.StatusInsufficientStorage ||
		!strings.Contains(body, "storage is full") {
		t.Errorf("the first: %d %s", status, body)
	}
	tried := puts.Load()
	for range 5 {
		if status, body := alice.tool(wire.OpPrepareUpload,
			object{"group_id": "g"}); status != http.StatusInsufficientStorage {
			t.Errorf("before the bytes are sent: %d %s", status, body)
		}
		if status, body := alice.tool(wire.OpFinalizeUpload, late); status != http.StatusInsufficientStorage {
			t.Errorf("prepared before: %d %s", status, body)
		}
	}
	if n := puts.Load(); n != tried {
		t.Errorf("the bucket was tried %d times more", n-tried)
	}
	alice.reads(kept.CID, string(content))
	full.Store(false)
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": gone.CID})
	must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, late)
}

// fullBucket is a bucket that refuses puts while full is set, counts puts, and passes on
// everything else.
func fullBucket(t *testing.T, location string) (full *atomic.Bool, puts *atomic.Int64, at string) {
	t.Helper()
	full, puts = new(atomic.Bool), new(atomic.Int64)
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	endpoint, err := url.Parse(query.Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	behind := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(endpoint)
		p.Out.Host = p.In.Host // it is signed
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			puts.Add(1)
			if full.Load() {
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(
					w,
					`<?xml version="1.0"?><Error><Code>QuotaExceeded</Code><Message>The quota of the bucket is used up.</Message></Error>`)
				return
			}
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	query.Set("endpoint", proxy.URL)
	u.RawQuery = query.Encode()
	return full, puts, u.String()
}

// Threat 31: uploads of every kind are refused the reserve before their bytes are taken,
// even those prepared before; nothing else is refused it.
func TestThreat31ReserveIsKept(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	content := []byte("content")
	first, second := alice.upload("g", "first", content), alice.upload("g", "second", content)
	small := alice.finalize("g", "small", content)
	large := alice.finalize("g", "large", make([]byte, 2<<20))
	begun := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	arrived := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	if status, body := alice.put(arrived, bytes.NewReader(make([]byte, 100))); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	blobs := countFiles(t, filepath.Join(r.dir, "blobs"))

	full := serve(t, func(c *service.Config) { c.DataDir, c.Database, c.ReserveBytes = r.dir, r.database, 1<<60 })
	alice = alice.at(full.running)
	alice.login() // tokens are good for one address
	for what, send := range map[string]func() (int, string){
		"prepare": func() (int, string) {
			return alice.tool(wire.OpPrepareUpload, object{"group_id": "g"})
		},
		"a small file":         func() (int, string) { return alice.tool(wire.OpFinalizeUpload, small) },
		"a large file in JSON": func() (int, string) { return alice.tool(wire.OpFinalizeUpload, large) },
		"a raw transfer":       func() (int, string) { return alice.put(begun, bytes.NewReader(make([]byte, 100))) },
		"one of unknown size": func() (int, string) {
			return alice.put(begun, io.MultiReader(strings.NewReader("x")))
		},
	} {
		if status, body := send(); status != http.StatusInsufficientStorage ||
			!strings.Contains(body, "kept for reading and removing") {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != blobs {
		t.Errorf("%d blobs, there were %d", n, blobs)
	}
	// its bytes are there
	must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload,
		object{"upload_id": arrived.UploadID, "file_hash": hash(nil)})
	alice.reads(first.CID, string(content))
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": second.CID})
	alice.adds(bob)
	if s := alice.stored("g"); *s.Left != 0 {
		t.Errorf("%d bytes are said to be left", *s.Left)
	}
	if status, out := full.asked(); status != http.StatusOK || out["space"] != "full" || out["status"] != "degraded" {
		t.Errorf("health: %d %v", status, out)
	}
}

// Threat 31: a file inside JSON counts while it arrives, when its upload is not known
// yet: one such request may come beside the storage of the account.
func TestThreat31BytesArrivingInsideJSON(t *testing.T) {
	t.Parallel()
	const file = 900_000
	s := serve(t, func(c *service.Config) { c.MaxAccountBytes, c.MaxFileBytes = 2*file, file })
	alice := s.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	var conns []net.Conn
	send := func() {
		conn := s.dial()
		conns = append(conns, conn)
		fmt.Fprintf(conn, "POST /tools/finalize_upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+
			"%s\r\nContent-Length: 1250000\r\n\r\n%s", alice.token, strings.Repeat(" ", file/3*4))
	}
	for range 4 { // two and a half fit
		send()
	}
	proctest.Eventually(t, "all but two are refused", func() bool {
		refused := s.metric(`svcd_requests_total{operation="finalize_upload",status="507"}`)
		flying := s.metric(inFlight)
		if refused+flying == len(conns) && flying < 2 { // three were refused before one of them had gone
			send()
			return false
		}
		return refused+flying == len(conns) && flying == 2
	})
	for _, conn := range conns {
		_ = conn.Close()
	}
	proctest.Eventually(t, "they are over", func() bool { return s.metric(inFlight) == 0 })
	alice.upload("g", "f", make([]byte, file-format.Overhead))
	last := alice.finalize("g", "f", make([]byte, file-format.Overhead)) // to the last byte
	first := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, last)
	if again := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, last); again.CID != first.CID {
		t.Errorf("asked again where nothing more fits: %s, want %s", again.CID, first.CID)
	}
}

// Threat 31: arriving bytes count as well. Neither many uploads at once, nor stalled
// ones, nor ones of unknown length take more of the disk than the account, or all of a
// group, may keep.
func TestThreat31BytesArriving(t *testing.T) {
	t.Parallel()
	const sealed = 1 << 20 // a store writes whole pieces
	s := serve(t, func(c *service.Config) { c.MaxAccountBytes, c.MaxGroupBytes = 3*sealed, 4*sealed })
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	must[string](bob, wire.OpRegisterGroup, object{"group_id": "other"})
	send := func(u *user, group, length, body string) net.Conn {
		t.Helper()
		conn := s.dial()
		fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s",
			must[wire.PrepareUploadResult](u, wire.OpPrepareUpload,
				object{"group_id": group}).UploadURL, u.token, length, body)
		return conn
	}
	known := fmt.Sprintf("Content-Length: %d", sealed)
	var stalled []net.Conn
	for range 3 {
		stalled = append(stalled, send(alice, "g", known, "x"))
	}
	arriving := func() (sizes []int64) { // of files that are reserved
		files, _ := os.ReadDir(filepath.Join(s.dir, "blobs", blob.TmpDir))
		for _, file := range files {
			if info, err := file.Info(); err == nil {
				sizes = append(sizes, info.Size())
			}
		}
		return sizes
	}
	proctest.Eventually(t, "the stalled uploads", func() bool { return len(arriving()) == 3 })
	refused := func(what string, conn net.Conn, word string) {
		t.Helper()
		if status, body := reply(t, conn); status != http.StatusInsufficientStorage || !strings.Contains(body, word) {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	refused("one more", send(alice, "g", known, "x"), "account "+alice.id)
	refused("one that does not say how long it is", send(alice, "g", "Transfer-Encoding: chunked",
		"40\r\n"+strings.Repeat("x", 64)+"\r\n0\r\n\r\n"), "account "+alice.id)
	stalled = append(stalled, send(bob, "g", "Transfer-Encoding: chunked",
		fmt.Sprintf("%x\r\n%s", sealed, strings.Repeat("x", sealed))))
	proctest.Eventually(t, "bob's", func() bool { return slices.Contains(arriving(), sealed) })
	refused("the group's", send(bob, "g", "Transfer-Encoding: chunked",
		"40\r\n"+strings.Repeat("x", 64)+"\r\n0\r\n\r\n"), `group \"g\"`)
	if got := bob.uploadRaw("other", "f", make([]byte, sealed)); got.CID == "" {
		t.Error("another group")
	}
	for _, conn := range stalled {
		_ = conn.Close()
	}
	proctest.Eventually(t, "they are over", func() bool { return s.metric(inFlight) == 0 })
	for range 3 {
		alice.uploadRaw("g", "f", make([]byte, sealed-format.Overhead)) // fails the test unless it succeeds
	}
}
