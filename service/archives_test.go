package service_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/legacy"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// clean verifies every byte and the chain of the ledger.
func (r *running) clean(files int) {
	r.t.Helper()
	n, err := r.svc.Verify(r.t.Context(), true, func(ref string, err error) { r.t.Errorf("verify %s: %v", ref, err) })
	if err != nil || (files >= 0 && n != files) {
		r.t.Errorf("verify: %d files, want %d, %v", n, files, err)
	}
	if err := r.svc.CheckStored(r.t.Context(), func(what string, err error) { r.t.Errorf("%s: %v", what, err) }); err != nil {
		r.t.Error(err)
	}
	if _, err := r.svc.Audit(r.t.Context()); err != nil {
		r.t.Error(err)
	}
}

// masterKeyOnly makes a data directory with nothing but the master key of another.
func masterKeyOnly(t *testing.T, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	raw, err := os.ReadFile(filepath.Join(from, "master.key"))
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "master.key"), raw, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBackupUnderLoadRestoresClean(t *testing.T) {
	if enginetest.OnPostgres(t) {
		r := run(t)
		refused(t, "PostgreSQL", errOf(r.svc.Backup(t.Context(), filepath.Join(t.TempDir(), "backup"), false)), "svcd export")
		return
	}
	r, alice := runWithGroup(t)
	before := make(map[string][]byte)
	for i := range 10 {
		content := []byte(fmt.Sprint("before ", i))
		before[alice.upload("g", fmt.Sprint(i), content).CID] = content
	}
	var stop atomic.Bool
	var load sync.WaitGroup
	for worker := range 3 {
		load.Go(func() {
			for i := 0; !stop.Load(); i++ {
				up := alice.upload("g", "load", []byte(fmt.Sprint(worker, i)))
				if i%3 == 0 {
					must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": up.CID})
				}
			}
		})
	}
	backup := filepath.Join(t.TempDir(), "backup")
	var problem error
	for n := range 3 { // the last one is restored
		backup = filepath.Join(t.TempDir(), fmt.Sprint("backup", n))
		if _, err := r.svc.Backup(t.Context(), backup, false); err != nil {
			problem = errors.Join(problem, err)
		}
	}
	stop.Store(true)
	load.Wait()
	if problem != nil {
		t.Fatal(problem)
	}
	t.Run("the backup is its owner's alone and has no master key", func(t *testing.T) {
		for name, want := range map[string]bool{"svc.db": true, "backup.json": true, "blobs": true, "master.key": false, "svc.db-wal": false} {
			info, err := os.Stat(filepath.Join(backup, name))
			if (err == nil) != want {
				t.Errorf("%s in the backup: %v", name, err)
			}
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s may be read by others: %v", name, info.Mode())
			}
		}
	})
	t.Run("it is not restored without the master key", func(t *testing.T) {
		empty := filepath.Join(t.TempDir(), "data")
		if _, err := service.Restore(t.Context(), backup, empty, service.MasterKey{}); err == nil || !strings.Contains(err.Error(), "master key is needed") {
			t.Errorf("restored without a master key: %v", err)
		}
	})
	t.Run("restored, it has what was there, and goes on", func(t *testing.T) {
		dir := masterKeyOnly(t, r.dir)
		if _, err := service.Restore(t.Context(), backup, dir, service.MasterKey{}); err != nil {
			t.Fatal(err)
		}
		restored := runWith(t, service.Config{DataDir: dir})
		restored.clean(-1)
		again := alice.signsInAt(restored)
		for ref, content := range before {
			again.reads(ref, string(content))
		}
		again.upload("g", "after", []byte("after"))
		restored.clean(-1)
		r.clean(-1) // blobs of the backup are links: the service still has its own
	})
}

func TestBackupAndRestoreRefusals(t *testing.T) {
	if enginetest.OnPostgres(t) {
		return // SQLite only
	}
	r, alice := runInFiles(t)
	alice.upload("g", "f", []byte("content"))
	key, outside := oldKey(t)
	ref := legacy.Sum(sealWith(t, outside, []byte("elsewhere")), legacy.Layout{Version: 0, Chunk: 1 << 20, Links: 174}).String()
	if _, err := r.svc.ImportReference(t.Context(), service.LegacyFile{Group: "g", Key: key}, ref, hash([]byte("elsewhere"))); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	backup := filepath.Join(dir, "backup")
	if _, err := r.svc.Backup(t.Context(), backup, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(backup, "master.key")); err != nil {
		t.Error(err)
	}
	refused(t, "backup over a backup", errOf(r.svc.Backup(t.Context(), backup, false)), "not empty")
	refused(t, "restore over a service", errOf(service.Restore(t.Context(), backup, r.dir, service.MasterKey{})), "not empty")
	refused(t, "restore of nothing", errOf(service.Restore(t.Context(), t.TempDir(), masterKeyOnly(t, r.dir), service.MasterKey{})), "not a complete backup")
	refused(t, "another master key", errOf(service.Restore(t.Context(), backup, masterKeyOnly(t, run(t).dir), service.MasterKey{})), "another master key")
	manifest := filepath.Join(backup, "backup.json")
	sealed, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(backup, "svc.db")
	original, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	enrich(t, database)
	refused(t, "a balance is changed", errOf(service.Restore(t.Context(), backup, masterKeyOnly(t, r.dir), service.MasterKey{})), "not the one its manifest speaks of")
	changed, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	was, is := sha256.Sum256(original), sha256.Sum256(changed)
	ok(t, os.WriteFile(manifest, bytes.Replace(sealed, []byte(hex.EncodeToString(was[:])), []byte(hex.EncodeToString(is[:])), 1), 0o600))
	refused(t, "a balance is changed, and the digest", errOf(service.Restore(t.Context(), backup, masterKeyOnly(t, r.dir), service.MasterKey{})), "was not sealed")
	ok(t, errors.Join(os.WriteFile(database, original, 0o600), os.WriteFile(manifest, sealed, 0o600)))
	blobs := filesBelow(t, filepath.Join(backup, "blobs"))
	raw, err := os.ReadFile(blobs[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := errors.Join(os.Remove(blobs[0]), os.WriteFile(blobs[0], raw, 0o600)); err != nil { // a link is cut, not written through
		t.Fatal(err)
	}
	target := filepath.Join(dir, "target")
	refused(t, "damaged blob", errOf(service.Restore(t.Context(), backup, target, service.MasterKey{})), "damaged in the backup")
	if entries, _ := os.ReadDir(target); len(entries) > 0 {
		t.Errorf("a failed restore left %v", entries)
	}
	r.clean(2)
}

// enrich changes a database behind the service's back.
func enrich(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(DELETE)")
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("UPDATE accounts SET balance = '9' || balance")
	ok(t, errors.Join(err, db.Close()))
}

// busyBlobs calls meanwhile before a blob is opened.
type busyBlobs struct {
	blob.Store
	meanwhile func()
}

func (b busyBlobs) Open(ctx context.Context, id string) (io.ReadSeekCloser, int64, error) {
	b.meanwhile()
	return b.Store.Open(ctx, id)
}

// A file that is replaced whenever the backup comes to it is in the backup all the same:
// in the end writers wait for the backup.
func TestBackupEndsWhileFilesAreReplaced(t *testing.T) {
	if enginetest.OnPostgres(t) {
		return // SQLite only
	}
	r, alice := runWithGroup(t)
	content := bytes.Repeat([]byte("replaced "), 10_000) // too large for the database
	head := alice.upload("g", "f", content).CID
	var replacing sync.WaitGroup
	defer replacing.Wait()
	replace := func() {
		done := make(chan struct{})
		replacing.Wait()
		replacing.Go(func() {
			defer close(done)
			before := head
			head = alice.upload("g", "f", content).CID
			must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": before})
		})
		select {
		case <-done:
		case <-time.After(time.Second): // it waits for the backup
		}
	}
	backup, dir := filepath.Join(t.TempDir(), "backup"), masterKeyOnly(t, r.dir)
	_, err := r.svc.BackupFrom(t.Context(), backup, func(b blob.Store) blob.Store { return busyBlobs{b, replace} })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.Restore(t.Context(), backup, dir, service.MasterKey{}); err != nil {
		t.Fatal(err)
	}
	runWith(t, service.Config{DataDir: dir}).clean(1)
}

// SQLite beside a bucket: the backup holds the files all the same.
func TestBackupOfABucket(t *testing.T) {
	if enginetest.OnPostgres(t) {
		return // SQLite only
	}
	bucket := s3test.Start(t)
	s3test.SetEnv(t)
	r := runWith(t, service.Config{Blobs: bucket.Location(bucket.NewBucket(t))})
	alice := r.owner()
	ref := alice.upload("g", "f", []byte("content")).CID
	backup, dir := filepath.Join(t.TempDir(), "backup"), masterKeyOnly(t, r.dir)
	if _, err := r.svc.Backup(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	if _, err := service.Restore(t.Context(), backup, dir, service.MasterKey{}); err != nil {
		t.Fatal(err)
	}
	restored := runWith(t, service.Config{DataDir: dir})
	restored.clean(1)
	again := alice.signsInAt(restored)
	again.reads(ref, "content")
}

func filesBelow(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	return list
}

// fillService makes a service with files in all states and returns those with
// bytes; one more is a reference to bytes elsewhere.
func fillService(t *testing.T, r *running, files int) (owner *user, contents map[string][]byte) {
	t.Helper()
	owner, member := r.user("owner", "1000"), r.user("member", "1000")
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "g"})
	owner.adds(member)
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "Gruppe ä/\"'"})
	must[string](owner, wire.OpSetGroupRetention, object{"group_id": "g", "retention_days": 30})
	contents = make(map[string][]byte)
	for i := range files {
		u := []*user{owner, member}[i%2]
		content := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+i*7)
		contents[u.upload("g", fmt.Sprintf("file %d ü\n", i), content).CID] = content
	}
	gone := owner.upload("g", "deleted", []byte("deleted"))
	must[string](owner, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": gone.CID})
	for ref := range contents {
		must[string](owner, wire.OpSetAttributes, attributesRequest(ref, `{"mtime":"-1","executable":true,"xattrs":{"user.é":"AP8="}}`))
		break // the audit of every copy compares it
	}
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": member.id})
	owner.finalize("g", "open", []byte("prepared, not finished"))
	old, err := r.svc.ImportPlain(t.Context(), service.LegacyFile{Group: "g", Name: "legacy"}, []byte("legacy"), 0)
	if err != nil {
		t.Fatal(err)
	}
	contents[old.CID] = []byte("legacy")
	key, outside := oldKey(t)
	ref := legacy.Sum(sealWith(t, outside, []byte("elsewhere")), legacy.Layout{Version: 0, Chunk: 1 << 20, Links: 174}).String()
	if _, err := r.svc.ImportReference(t.Context(), service.LegacyFile{Group: "g", Key: key}, ref, hash([]byte("elsewhere"))); err != nil {
		t.Fatal(err)
	}
	return owner, contents
}

// Engine switch: SQLite and a directory to PostgreSQL and S3, and back.
func TestExportMovesTheServiceBetweenStoresAndBack(t *testing.T) {
	if enginetest.OnPostgres(t) {
		return // has both
	}
	server := pgtest.Start(t)
	bucket := s3test.Start(t)
	s3test.SetEnv(t)
	first := runWith(t, service.Config{DataDir: filepath.Join(t.TempDir(), "data"), SmallBytes: -1})
	owner, contents := fillService(t, first, 200)
	check := func(r *running) {
		t.Helper()
		r.clean(len(contents) + 1)
		u := owner.signsInAt(r)
		rows := must[[]wire.TransactionRow](u, wire.OpGetGroupTransactions, object{"group_id": "g"})
		if len(rows) != len(contents)+2 { // one is deleted, one elsewhere
			t.Errorf("%d rows", len(rows))
		}
		for ref, want := range contents {
			u.reads(ref, string(want))
		}
	}
	second := runWith(t, service.Config{DataDir: masterKeyOnly(t, first.dir), Database: server.NewDatabase(t), Blobs: bucket.Location(bucket.NewBucket(t))})
	third := runWith(t, service.Config{DataDir: masterKeyOnly(t, first.dir)})
	var there, back bytes.Buffer
	sum, err := first.svc.Export(t.Context(), &there)
	if err != nil || sum.Blobs != 201 || sum.LedgerRoot == "" {
		t.Fatal(sum, err)
	}
	got, err := second.svc.Import(t.Context(), bytes.NewReader(there.Bytes()))
	if err != nil || got.LedgerRoot != sum.LedgerRoot {
		t.Fatal(got, err)
	}
	if sum, err = second.svc.Export(t.Context(), &back); err != nil || got.LedgerRoot != sum.LedgerRoot {
		t.Fatal(sum, err)
	}
	if got, err = third.svc.Import(t.Context(), &back); err != nil || got.LedgerRoot != sum.LedgerRoot {
		t.Fatal(got, err)
	}
	check(second)
	check(third)
	master, err := os.ReadFile(filepath.Join(first.dir, "master.key"))
	if err != nil || bytes.Contains(there.Bytes(), master) {
		t.Error("the stream holds the master key", err)
	}
	_, err = first.svc.Import(t.Context(), bytes.NewReader(there.Bytes()))
	refused(t, "imported into a service with accounts", err, "holds accounts already")
}

// entry is one entry of a stream.
type entry struct {
	name   string
	data   []byte
	header map[string]string // more records
}

func readStream(t *testing.T, stream []byte) (list []entry) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(stream))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{h.Name, data, own(h.PAXRecords)})
	}
}

// own are the records of a header that tar itself does not know.
func own(records map[string]string) map[string]string {
	maps.DeleteFunc(records, func(name, _ string) bool { return !strings.HasPrefix(name, "SVCD.") })
	return records
}

func writeStream(t *testing.T, list []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		ok(t, w.WriteHeader(&tar.Header{Name: e.name, Size: int64(len(e.data)), Typeflag: tar.TypeReg, Mode: 0o600, PAXRecords: e.header}))
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, w.Close())
	return b.Bytes()
}

// withDigest returns the entries with a matching digest in the trailer, as an attacker
// without the master key can compute it.
func withDigest(t *testing.T, list []entry) []byte {
	t.Helper()
	digest, last := sha256.New(), len(list)-1
	for _, e := range list[:last] {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(digest, "%d %s ", len(e.name), e.name)
		digest.Write(sum[:])
	}
	var trailer map[string]any
	ok(t, json.Unmarshal(list[last].data, &trailer))
	trailer["digest"] = hex.EncodeToString(digest.Sum(nil))
	raw, err := json.Marshal(trailer)
	if err != nil {
		t.Fatal(err)
	}
	return writeStream(t, append(slices.Clone(list[:last]), entry{name: list[last].name, data: raw}))
}

// sparse is a stream whose second entry is one byte that claims to be a megabyte.
func sparse(t *testing.T, first entry) []byte {
	t.Helper()
	var records string
	for _, record := range []string{"GNU.sparse.size=1048576", "GNU.sparse.numblocks=1", "GNU.sparse.map=1048575,1"} {
		n := len(record) + 2
		records += fmt.Sprintf("%d %s\n", n+len(strconv.Itoa(n)), record)
	}
	stream := writeStream(t, []entry{first, {name: "pax", data: []byte(records)}, {name: "blobs/large", data: []byte("x")}})
	header := stream[bytes.Index(stream, []byte("pax\x00")):][:512]
	header[156] = tar.TypeXHeader
	copy(header[148:156], "        ")
	sum := 0
	for _, c := range header {
		sum += int(c)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return stream
}

func TestImportRefusesEverythingButAWholeExport(t *testing.T) {
	source := run(t)
	_, contents := fillService(t, source, 5)
	var b bytes.Buffer
	if _, err := source.svc.Export(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	whole := readStream(t, b.Bytes())
	find := func(prefix string) int {
		return slices.IndexFunc(whole, func(e entry) bool { return strings.HasPrefix(e.name, prefix) })
	}
	change := func(prefix, old, new string) []byte {
		list := slices.Clone(whole)
		i := find(prefix)
		changed := bytes.Replace(list[i].data, []byte(old), []byte(new), 1)
		if bytes.Equal(changed, list[i].data) {
			t.Fatalf("%s holds no %s", prefix, old)
		}
		list[i].data = changed
		return writeStream(t, list)
	}
	without := func(prefix string) []byte {
		i := find(prefix)
		return writeStream(t, slices.Delete(slices.Clone(whole), i, i+1))
	}
	target := runWith(t, service.Config{DataDir: masterKeyOnly(t, source.dir), Database: newDatabase(t)})
	other := runWith(t, service.Config{DataDir: filepath.Join(t.TempDir(), "data"), Database: newDatabase(t), ContractID: "x.testnet"})
	cases := []struct {
		name   string
		stream []byte
		want   string
		into   *running
	}{
		{"nothing", nil, "ends early", target},
		{"text", []byte(strings.Repeat("no tar ", 200)), "read the stream", target},
		{"another tar", writeStream(t, []entry{{name: "a", data: []byte("b")}}), "no export of svcd", target},
		{"newer format", change(headerPrefix, `"version": 1`, `"version": 2`), "newer", target},
		{"newer schema", change(headerPrefix, `"schema": `, `"schema": 1`), "newer", target},
		{"no trailer", without("trailer.json"), "ends early", target},
		{"something after the trailer", writeStream(t, append(slices.Clone(whole), entry{name: "rows/meta/000009.jsonl"})), "follows the trailer", target},
		{"a blob is missing", without("blobs/"), "not in the stream", target},
		{"a blob twice", writeStream(t, slices.Insert(slices.Clone(whole), 1, whole[find("blobs/")])), "comes twice", target},
		{"rows are missing", without("rows/uploads"), "trailer", target},
		{"ledger rows are missing", without("rows/ledger"), "no such chain", target},
		{"a ledger row is changed", change("rows/ledger", `"kind":"create_account"`, `"kind":"fund"`), "row 1", target},
		{"a balance is changed", change("rows/accounts", `"balance":"`, `"balance":"9`), "trailer", target},
		{"a balance is changed, and the digest", withDigest(t, readStream(t, change("rows/accounts", `"balance":"`, `"balance":"9`))), "was not sealed", target},
		{"a key is changed, and the digest", withDigest(t, readStream(t, change("rows/accounts", `"key_hash":"`, `"key_hash":"AAAA`))), "was not sealed", target},
		{"an entry with holes", sparse(t, whole[0]), "does not belong", target},
		{"a column is missing", change("rows/accounts", `"balance"`, `"balanse"`), "has no balance", target},
		{"a column of another type", change("rows/accounts", `"key_generation":1`, `"key_generation":"1"`), "wrong type", target},
		{"an unknown table", writeStream(t, slices.Insert(slices.Clone(whole), len(whole)-1, entry{name: "rows/sqlite_master/000001.jsonl", data: []byte("{}")})), "does not belong", target},
		{"a path", writeStream(t, slices.Insert(slices.Clone(whole), 1, entry{name: "../evil", data: []byte("{}")})), "does not belong", target},
		{"another contract", b.Bytes(), "--contract svc.testnet", other},
		{"another master key", b.Bytes(), "another master key", runWith(t, service.Config{DataDir: filepath.Join(t.TempDir(), "data"), Database: newDatabase(t)})},
	}
	i := find("blobs/")
	damaged := slices.Clone(whole)
	damaged[i].data = bytes.Clone(damaged[i].data)
	damaged[i].data[0] ^= 1
	cases = append(cases, struct {
		name   string
		stream []byte
		want   string
		into   *running
	}{"a blob is changed", writeStream(t, damaged), "changed on the way", target})
	for _, tc := range cases {
		_, err := tc.into.svc.Import(t.Context(), bytes.NewReader(tc.stream))
		refused(t, tc.name, err, tc.want)
	}
	t.Run("cut anywhere", func(t *testing.T) {
		for cut := 0; cut < len(bytes.TrimRight(b.Bytes(), "\x00")); cut += 997 { // what tar fills up with zeros says nothing
			if _, err := target.svc.Import(t.Context(), bytes.NewReader(b.Bytes()[:cut])); err == nil {
				t.Errorf("a stream cut at byte %d was accepted", cut)
			}
		}
	})
	t.Run("nothing is left of what was refused", func(t *testing.T) {
		if list, err := target.svc.Accounts(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("a refused import left accounts: %v %v", list, err)
		}
		if n := countFiles(t, filepath.Join(target.dir, "blobs")); n != 0 {
			t.Errorf("a refused import left %d blobs", n)
		}
	})
	t.Run("the whole one is taken afterwards", func(t *testing.T) {
		if _, err := target.svc.Import(t.Context(), bytes.NewReader(b.Bytes())); err != nil {
			t.Fatal(err) // after all this the target still takes the whole one
		}
		target.clean(len(contents) + 1)
	})
	t.Run("who starts it again, because it was killed before it could say so, is told", func(t *testing.T) {
		blobs := countFiles(t, filepath.Join(target.dir, "blobs"))
		if sum, err := target.svc.Import(t.Context(), bytes.NewReader(b.Bytes())); !errors.Is(err, archive.ErrImported) || sum.Blobs != int64(blobs) {
			t.Errorf("imported again: %+v, %v", sum, err)
		}
		if n := countFiles(t, filepath.Join(target.dir, "blobs")); n != blobs {
			t.Errorf("importing again left %d blobs of %d", n, blobs)
		}
		b.Reset()
		if _, err := source.svc.Export(t.Context(), &b); err != nil { // made at another time
			t.Fatal(err)
		}
		for name, stream := range map[string][]byte{"another export": b.Bytes(), "a cut one": b.Bytes()[:b.Len()/2], "no export": []byte("x"), "a changed one": change("rows/accounts", `"balance":"`, `"balance":"9`)} {
			if _, err := target.svc.Import(t.Context(), bytes.NewReader(stream)); err == nil || errors.Is(err, archive.ErrImported) {
				t.Errorf("%s into a full service: %v", name, err)
			}
		}
	})
}

const headerPrefix = "header.json"

func TestExportUnderLoad(t *testing.T) {
	r, alice := runWithGroup(t)
	var stop atomic.Bool
	var load sync.WaitGroup
	for worker := range 3 {
		load.Go(func() {
			for i := 0; !stop.Load(); i++ {
				alice.upload("g", "load", []byte(fmt.Sprint(worker, i)))
			}
		})
	}
	var streams []*bytes.Buffer
	for range 3 {
		b := &bytes.Buffer{}
		if _, err := r.svc.Export(context.Background(), b); err != nil {
			t.Error(err)
		}
		streams = append(streams, b)
	}
	stop.Store(true)
	load.Wait()
	for _, b := range streams {
		target := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
		if _, err := target.svc.Import(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		target.clean(-1)
	}
}
