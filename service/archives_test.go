package service_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// clean verifies every byte and the chain of the ledger.
func (r *running) clean(files int) {
	r.t.Helper()
	n, err := r.svc.Verify(r.t.Context(), true, func(ref string, err error) { r.t.Errorf("verify %s: %v", ref, err) })
	if err != nil || (files >= 0 && n != files) {
		r.t.Errorf("verify: %d files, want %d, %v", n, files, err)
	}
	if err := r.svc.CheckStored(r.t.Context(), func(what string, err error) {
		r.t.Errorf("%s: %v", what, err)
	}); err != nil {
		r.t.Error(err)
	}
	if report, err := r.svc.AuditReport(r.t.Context()); err != nil || len(report.Refused) > 0 {
		r.t.Errorf("audit: %+v, %v", report, err)
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

// busyBlobs calls meanwhile before a blob is opened, or once it is: as in a bucket, who reads a blob that is gone then
// is told so.
type busyBlobs struct {
	blob.Store
	meanwhile func(id string)
	late      bool
}

func (b busyBlobs) Open(ctx context.Context, id string) (io.ReadSeekCloser, int64, error) {
	if !b.late {
		b.meanwhile(id)
	}
	r, size, err := b.Store.Open(ctx, id)
	if !b.late || err != nil {
		return r, size, err
	}
	b.meanwhile(id)
	return vanishing{r, func() error {
		again, _, err := b.Store.Open(ctx, id)
		if err == nil {
			err = again.Close()
		}
		return err
	}}, size, nil
}

type vanishing struct {
	io.ReadSeekCloser
	there func() error
}

func (v vanishing) Read(p []byte) (int, error) {
	if err := v.there(); err != nil {
		return 0, err
	}
	return v.ReadSeekCloser.Read(p)
}

// exportsWhile imports a full archive that was made while something happens whenever the export comes to a blob for
// which a query finds a row, and returns what the archive lacks.
func (r *running) exportsWhile(t *testing.T, late bool, happens map[string]func()) (there *running, lacks []string) {
	t.Helper()
	db := r.openDatabase()
	meanwhile := func(id string) {
		for query, f := range happens {
			var found bool
			ok(t, db.QueryRow("SELECT EXISTS ("+query+" AND blob_id = '"+id+"')").Scan(&found))
			if found {
				f()
			}
		}
	}
	var stream bytes.Buffer
	sum, err := r.svc.ExportFrom(t.Context(), &stream, func(b blob.Store) blob.Store {
		return busyBlobs{b, meanwhile, late}
	})
	ok(t, err)
	return r.imports(t, service.Config{Database: newDatabase(t)}, stream.Bytes()), sum.Damage
}

// An export ends, and nobody waits for it, though a file is replaced and the bytes of an upload are sent anew whenever
// it comes to them. All other files are whole. The file has no content in the archive, the upload has no bytes.
func TestExportEndsWhileBlobsVanish(t *testing.T) {
	t.Parallel()
	for what, late := range map[string]bool{"before they are opened": false, "while they are read": true} {
		t.Run(what, func(t *testing.T) {
			r := runAtOnce(t)
			alice := r.owner()
			content := bytes.Repeat([]byte("replaced "), 10_000) // too large for the database
			steady := alice.upload("g", "steady", content)
			head, before := alice.upload("g", "f", content).CID, ""
			up := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g", "filename": "up"})
			sealed, err := base64.StdEncoding.DecodeString(seal(t, up.Key, content))
			ok(t, err)
			put := func(u *user) {
				if status, body := u.put(up, bytes.NewReader(sealed)); status != http.StatusNoContent {
					t.Errorf("put: %d %s", status, body)
				}
			}
			put(alice)
			replaced, discarded := 0, 0
			there, lacks := r.exportsWhile(t, late, map[string]func(){
				"SELECT 1 FROM files WHERE filename = 'f' AND deleted_ns IS NULL": func() {
					before, head = head, alice.upload("g", "f", content).CID
					must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": before})
					replaced++
				},
				"SELECT 1 FROM uploads WHERE result IS NULL": func() {
					put(alice)
					discarded++
				},
			})
			if replaced != 3 || discarded != 3 || len(lacks) != 1 || !strings.Contains(lacks[0], "deleted meanwhile") {
				t.Errorf("%d replaced, %d discarded, it lacks %q", replaced, discarded, lacks)
			}
			var bad []string
			ok(t, errOf(there.svc.Verify(t.Context(), true, func(ref string, _ error) { bad = append(bad, ref) })))
			if !slices.Equal(bad, []string{before}) {
				t.Errorf("verify names %q, want %s", bad, before)
			}
			ok(t, errOf(there.svc.Audit(t.Context())))
			reader := alice.signsInAt(there)
			reader.reads(steady.CID, string(content))
			finish := object{"upload_id": up.UploadID, "file_hash": hash(content)}
			reader.refusal(wire.OpFinalizeUpload, finish, http.StatusBadRequest, "PUT to upload_url")
			put(reader)
			reader.reads(must[wire.FinalizeUploadResult](reader, wire.OpFinalizeUpload, finish).CID, string(content))
		})
	}
}

// A part that is written anew whenever the export comes to it is in the archive as it became.
func TestExportFollowsPartsThatAreWrittenAnew(t *testing.T) {
	t.Parallel()
	for what, late := range map[string]bool{"before they are opened": false, "while they are read": true} {
		t.Run(what, func(t *testing.T) {
			r := runAtOnce(t)
			alice := r.owner()
			var files []large
			loose := func() {
				s := alice.beginsLarge("g", fmt.Sprint("f", len(files)), "", contentOf("a", 6))
				s.puts("0-5")
				s.puts("2,4") // of the first part, two blocks are of no use
				files = append(files, s.finishes())
			}
			loose()
			there, lacks := r.exportsWhile(t, late, map[string]func(){
				"SELECT 1 FROM parts WHERE loose IS NOT NULL": func() {
					r.sweeps()
					loose()
				},
			})
			if len(files) != 4 || len(lacks) > 0 { // one more in each round
				t.Errorf("%d files, it lacks %q", len(files), lacks)
			}
			there.clean(3)
			there.keepsParts("0-1,3,5", "0-1,3,5", "0-1,3,5", "2,4", "2,4", "2,4")
			alice.signsInAt(there).readsLarge(files[:3]...)
		})
	}
}

// TestSweepBesideAnotherService runs services over one store: a new one and an import of the old one. The old one loses
// nothing, nor does the imported one.
func TestSweepBesideAnotherService(t *testing.T) {
	t.Parallel()
	blobs := filepath.Join(t.TempDir(), "blobs")
	live := runWith(t, service.Config{Database: newDatabase(t), Blobs: blobs})
	live.owner().upload("g", "f", bytes.Repeat([]byte("live "), 10_000)) // too large for the database
	var stream bytes.Buffer
	ok(t, errOf(live.svc.Export(t.Context(), &stream, nil)))
	other := runWith(t, service.Config{Database: newDatabase(t), Blobs: blobs})
	trial := runWith(t, service.Config{DataDir: masterKeyOnly(t, live.dir), Database: newDatabase(t), Blobs: blobs})
	mark := func() (mark string) {
		ok(t, trial.openDatabase().QueryRow("SELECT value FROM meta WHERE name = 'blob_mark'").Scan(&mark))
		return mark
	}
	before := mark()
	ok(t, errOf(trial.svc.Import(t.Context(), &stream)))
	if after := mark(); after != before { // under which the blobs are
		t.Errorf("mark %s, was %s before the import", after, before)
	}
	hourAgo := time.Now().Add(-time.Hour)
	ok(t, filepath.WalkDir(blobs, func(name string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(name, hourAgo, hourAgo))
	}))
	for _, r := range []*running{other, trial, live} {
		ok(t, r.svc.Sweep(t.Context()))
	}
	live.clean(1)
	trial.clean(1)
}

// A blob is removed when it has no record at two sweeps: what a bucket shows as old may have come just now.
func TestSweepLooksTwice(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "blobs")
	r := runWith(t, service.Config{Database: newDatabase(t), Blobs: dir})
	var mark string
	ok(t, r.openDatabase().QueryRow("SELECT value FROM meta WHERE name = 'blob_mark'").Scan(&mark))
	orphan := filepath.Join(dir, "aa", strings.Repeat("a", 32-len(mark))+mark)
	ok(t, os.MkdirAll(filepath.Dir(orphan), 0o700))
	ok(t, os.WriteFile(orphan, []byte("x"), 0o600))
	hourAgo := time.Now().Add(-time.Hour)
	ok(t, os.Chtimes(orphan, hourAgo, hourAgo))
	for look, isThere := range []bool{true, false} {
		ok(t, r.svc.SweepBlobs(t.Context()))
		if _, err := os.Stat(orphan); (err == nil) != isThere {
			t.Errorf("after look %d: %v", look+1, err)
		}
	}
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
		must[string](owner, wire.OpSetAttributes,
			attributesRequest(ref, `{"mtime":"-1","executable":true,"xattrs":{"user.é":"AP8="}}`))
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
	ref := legacy.Sum(sealWith(t, outside, []byte("elsewhere")),
		legacy.Layout{Version: 0, Chunk: 1 << 20, Links: 174}).String()
	if _, err := r.svc.ImportReference(t.Context(), service.LegacyFile{Group: "g", Key: key}, ref,
		hash([]byte("elsewhere"))); err != nil {
		t.Fatal(err)
	}
	return owner, contents
}

// A sectionOf is a section of an archive, as ARCHIVE.md describes it.
type sectionOf struct {
	kind byte
	name string
	data []byte
	from int // its first byte in the archive
}

const magic = "\x89svcd1\r\n"

// encoded returns the section with its checksums.
func (s sectionOf) encoded() []byte {
	size := binary.BigEndian.AppendUint64(nil, uint64(len(s.data)))
	raw := append([]byte(magic), s.kind, byte(len(s.name)))
	raw = append(append(raw, size[2:]...), s.name...)
	check := sha256.Sum256(raw)
	raw = append(append(raw, check[:8]...), s.data...)
	sum := sha256.Sum256(raw)
	return append(raw, sum[:]...)
}

func sections(t *testing.T, archive []byte) (list []sectionOf) {
	t.Helper()
	for at := 0; at < len(archive); {
		head := archive[at:][:16]
		name := int(head[9])
		size := int(binary.BigEndian.Uint64(append([]byte{0, 0}, head[10:]...)))
		s := sectionOf{head[8], string(archive[at+16:][:name]), archive[at+16+name+8:][:size], at}
		if raw := s.encoded(); !bytes.HasPrefix(archive[at:], raw) {
			t.Fatalf("the section at byte %d is not as ARCHIVE.md says", at)
		}
		list = append(list, s)
		at += 16 + name + 8 + size + 32
	}
	return list
}

// archiveOf is an archive of sections, whose checksums are right again. With the master key in dir, so are the seals.
func archiveOf(t *testing.T, dir string, list []sectionOf) []byte {
	t.Helper()
	var all []byte
	for _, s := range list {
		if dir != "" && s.kind == 'i' {
			key, err := vaulttest.Derived(vaultwire.InDirectory(dir), "archives")
			ok(t, err)
			mac := hmac.New(sha256.New, key)
			end := bytes.LastIndex(s.data, []byte("seal "))
			fmt.Fprintf(mac, "archive index %s", s.data[:end])
			s.data = fmt.Appendf(bytes.Clone(s.data[:end]), "seal %x\n", mac.Sum(nil))
		}
		all = append(all, s.encoded()...)
	}
	return all
}

// with returns the sections with old replaced by new in each of a kind.
func with(t *testing.T, list []sectionOf, kind byte, name, old, new string) []sectionOf {
	t.Helper()
	list = slices.Clone(list)
	changed := 0
	for i, s := range list {
		if s.kind == kind && strings.HasPrefix(s.name, name) && bytes.Contains(s.data, []byte(old)) {
			list[i].data = bytes.ReplaceAll(s.data, []byte(old), []byte(new))
			changed++
		}
	}
	if changed == 0 {
		t.Fatalf("no section %c %s holds %s", kind, name, old)
	}
	return list
}

// exports makes an archive, since the last one of a chain.
func (r *running) exports(chain ...[]byte) []byte {
	r.t.Helper()
	var since io.Reader
	if len(chain) > 0 {
		since = bytes.NewReader(chain[len(chain)-1])
	}
	var b bytes.Buffer
	if _, err := r.svc.Export(r.t.Context(), &b, since); err != nil {
		r.t.Fatal(err)
	}
	return b.Bytes()
}

func readers(chain ...[]byte) (list []io.Reader) {
	for _, archive := range chain {
		list = append(list, bytes.NewReader(archive))
	}
	return list
}

// imports imports a chain into a new service.
func (r *running) imports(t *testing.T, cfg service.Config, chain ...[]byte) *running {
	t.Helper()
	cfg.DataDir = masterKeyOnly(t, r.dir)
	there := runWith(t, cfg)
	if _, err := there.svc.Import(t.Context(), readers(chain...)...); err != nil {
		t.Fatal(err)
	}
	return there
}

// stateOf is what the last index of an archive says of the state: the pages of all tables that do not name blobs,
// whose ids differ at each service.
func stateOf(t *testing.T, archive []byte) string {
	t.Helper()
	var lines []string
	list := sections(t, archive)
	for line := range strings.Lines(string(list[len(list)-1].data)) {
		if f := strings.Fields(line); f[0] == "rows" && !slices.Contains([]string{"files", "uploads", "parts"}, f[1]) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// A service moves with a full archive and increments from SQLite and a directory to PostgreSQL and S3, and back. What
// was destroyed, revoked or spent meanwhile is so there: every table is equal, in what its rows say.
func TestIncrementsMoveTheServiceBetweenStoresAndBack(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		return // has both
	}
	bucket := s3test.Start(t)
	first := runWith(t, service.Config{DataDir: filepath.Join(t.TempDir(), "data"), DestructionDelay: -1})
	owner, contents := fillService(t, first, 250)
	friend := first.user("friend", "10")
	owner.adds(friend)
	large := owner.savesAll("blocks", contentOf("a", 3))
	owner.upload("g", "large", bytes.Repeat([]byte("large"), 10_000))
	shared := owner.upload("g", "shared", []byte("shared")).CID
	friend.reads(shared, "shared")
	gone := owner.upload("g", "destroyed later", []byte("destroyed later")).CID
	wrapped := first.wrappedKeys()[gone]
	if !first.databaseHolds(wrapped) {
		t.Fatal("the key was not found before: the search proves nothing")
	}
	full := first.exports()
	chain := [][]byte{full}
	change := func(r *running, u *user) {
		t.Helper()
		item := u.seals("g", "spent", []byte("spent"))
		contents[u.mustPut(item).CID] = []byte("spent")
		added := bytes.Repeat([]byte("new "), 20_000)
		contents[u.upload("g", "new", added).CID] = added
	}
	change(first, owner)
	must[string](owner, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": gone})
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": friend.id})
	chain = append(chain, first.exports(chain...))
	chain = append(chain, first.exports(chain...)) // of nothing

	t.Run("an increment holds what is new", func(t *testing.T) {
		pagesOf := func(list []sectionOf) (pages []string) {
			for _, s := range list {
				// A page is written twice.
				if s.kind == 'r' && s.name == "ledger" && !slices.Contains(pages, string(s.data)) {
					pages = append(pages, string(s.data))
				}
			}
			return pages
		}
		blobs := 0
		for _, s := range sections(t, chain[1]) {
			if s.kind == 'b' {
				blobs++
			}
		}
		added, before := pagesOf(sections(t, chain[1])), pagesOf(sections(t, full))
		isAgain := len(before) > 1 && slices.Contains(added, before[0]) // the records decide where a page ends
		if blobs != 1 || len(added) == 0 || isAgain || len(chain[1]) > len(full)*2/3 {
			t.Errorf("%d blobs, %d pages of records beside %d, the first again: %t, %d bytes of %d", blobs, len(added),
				len(before), isAgain, len(chain[1]), len(full))
		}
		for _, s := range sections(t, chain[2]) {
			if s.kind == 'b' || s.kind == 'r' {
				t.Errorf("an increment of nothing has %c %s", s.kind, s.name)
			}
		}
	})
	check := func(r *running) {
		t.Helper()
		r.clean(-1)
		u := owner.signsInAt(r)
		for ref, want := range contents {
			u.reads(ref, string(want))
		}
		u.readsLarge(large)
		if _, problem := u.retrieve("g", gone); problem == "" {
			t.Error("a destroyed file came back")
		}
		if r.databaseHolds(wrapped) {
			t.Error("a destroyed key came back")
		}
		if _, problem := friend.signsInAt(r).retrieve("g", shared); problem == "" {
			t.Error("a revoked member reads")
		}
	}
	second := first.imports(t, service.Config{Database: engines.NewPostgres(t),
		Blobs: bucket.Location(bucket.NewBucket(t)), DestructionDelay: -1}, chain...)
	back := second.exports()
	if stateOf(t, back) != stateOf(t, chain[2]) {
		t.Error("the rows in PostgreSQL are not those in SQLite")
	}
	check(second)
	// From now on places are not the sequences.
	if _, err := second.openDatabase().Exec("SELECT nextval('ledger_seq')"); err != nil {
		t.Fatal(err)
	}
	change(second, owner.signsInAt(second))
	more := second.exports(back)
	third := second.imports(t, service.Config{}, back, more)
	if stateOf(t, third.exports()) != stateOf(t, more) {
		t.Error("the rows in SQLite are not those in PostgreSQL")
	}
	check(third)
	must[string](owner.signsInAt(third), wire.OpRegisterGroup, object{"group_id": "another"})
	if n, err := third.svc.Audit(t.Context()); err != nil || n <= 250 {
		t.Error("a record after the move:", n, err)
	}
	fourth := second.imports(t, service.Config{Database: engines.NewPostgres(t)}, second.exports())
	fifth := second.imports(t, service.Config{}, second.exports())
	a, err1 := fourth.svc.AuditReport(t.Context())
	b, err2 := fifth.svc.AuditReport(t.Context())
	a.Opens, b.Opens = wire.Opens{}, wire.Opens{} // of two vaults
	if errors.Join(err1, err2) != nil || !reflect.DeepEqual(a, b) || a.Signed != a.Records {
		t.Errorf("the trees are %v and %v, %v, %v", a, b, err1, err2)
	}
	master, err := os.ReadFile(filepath.Join(first.dir, "master.key"))
	if err != nil || bytes.Contains(full, master) {
		t.Error("the archive holds the master key", err)
	}
}

func TestImportRefusesEverythingButAWholeChain(t *testing.T) {
	t.Parallel()
	source := run(t)
	owner, contents := fillService(t, source, 5)
	large := bytes.Repeat([]byte("large"), 10_000)
	contents[owner.upload("g", "large", large).CID] = large
	full := source.exports()
	owner.upload("g", "a", []byte("a"))
	second := source.exports(full)
	owner.upload("g", "b", []byte("b"))
	third := source.exports(full, second)
	fork := source.exports(full)
	list := sections(t, full)
	last := len(list) - 1

	empty := func(cfg service.Config) *running {
		if cfg.DataDir == "" {
			cfg.DataDir = masterKeyOnly(t, source.dir)
		}
		cfg.Database = newDatabase(t)
		return runWith(t, cfg)
	}
	target := empty(service.Config{})
	own := func(list []sectionOf) []byte { return archiveOf(t, source.dir, list) }
	plain := func(list []sectionOf) []byte { return archiveOf(t, "", list) }
	one := func(archive []byte) [][]byte { return [][]byte{archive} }
	for _, tc := range []struct {
		name  string
		chain [][]byte
		want  string
		into  *running
	}{
		{"nothing", one(nil), "no archive of svcd", target},
		{"text", one([]byte(strings.Repeat("no archive ", 200))), "no archive of svcd", target},
		{"an increment alone", one(second), "give the full archive and all increments", target},
		{"a gap", [][]byte{full, third}, "archive 2 continues the archive", target},
		{"a wrong order", [][]byte{full, third, second},
			"archive 2 continues archive 3: give the archives in the order", target},
		{"a full one in the middle", [][]byte{full, full}, "archive 2 is a full archive", target},
		{"an increment of another branch", [][]byte{full, fork, third}, "archive 3 continues the archive", target},
		{"a page is missing",
			one(own(slices.DeleteFunc(slices.Clone(list), func(s sectionOf) bool { return s.name == "accounts" }))),
			"it is in none of the archives", target},
		{"a blob is missing",
			one(own(slices.DeleteFunc(slices.Clone(list), func(s sectionOf) bool { return s.kind == 'b' }))),
			"is in none of the archives", target},
		{"no end", one(plain(list[:last])), "it does not end with its index", target},
		{"something after the end", one(plain(append(slices.Clone(list), list[3]))), "it does not end with its index",
			target},
		{"a newer format", one(own(with(t, list, 'h', "", `"version":1`, `"version":2`))), "newer", target},
		{"another schema", one(own(with(t, list, 'i', "", `"schema":`, `"schema":1`))), "import it with that svcd",
			target},
		{"a balance is changed", one(own(with(t, list, 'r', "accounts", `"balance":"`, `"balance":"9`))),
			"it is in none of the archives", target},
		{"the index is changed", one(plain(with(t, list, 'i', "", "rows accounts", "rows groups"))),
			"not sealed with this master key", target},
		{"the ledger is another", one(own(with(t, list, 'i', "", `"records":`, `"records":1`))),
			"not the one that the index names", target},
		{"an unknown table", one(own(with(t, list, 'i', "", "rows accounts", "rows sqlite_master"))),
			"does not belong here", target},
		{"nonsense in the index", one(own(with(t, list, 'i', "", "rows accounts", "rows"))), "no archive of svcd",
			target},
		{"an index of another archive",
			one(own(append(slices.Clone(list), sections(t, second)[len(sections(t, second))-1]))), "no archive of svcd",
			target},
		{"another contract", one(full), "--contract svc.testnet", empty(service.Config{ContractID: "x.testnet"})},
		{"another master key", one(full), "another master key",
			empty(service.Config{DataDir: filepath.Join(t.TempDir(), "data")})},
		{"a service with accounts", one(full), "holds accounts already", source},
	} {
		_, err := tc.into.svc.Import(t.Context(), readers(tc.chain...)...)
		refused(t, tc.name, err, tc.want)
	}
	t.Run("a row that is not one", func(t *testing.T) {
		for change, want := range map[[2]string]string{{`"balance"`, `"balanse"`}: "has no balance",
			{`"key_generation":1`, `"key_generation":"1"`}: "wrong type", {`{"`, `["`}: "not JSON"} {
			changed := with(t, list, 'r', "accounts", change[0], change[1])
			for i, s := range list {
				if s.name == "accounts" { // the index names the changed page
					was, is := sha256.Sum256(trimSum(s.encoded())), sha256.Sum256(trimSum(changed[i].encoded()))
					changed = with(t, changed, 'i', "", hex.EncodeToString(was[:]), hex.EncodeToString(is[:]))
					break
				}
			}
			refused(t, want, errOf(target.svc.Import(t.Context(), bytes.NewReader(own(changed)))), want)
		}
	})
	t.Run("what an increment may not continue", func(t *testing.T) {
		for name, tc := range map[string]struct {
			since []byte
			want  string
			at    *running
		}{
			"a cut archive":      {full[:list[last].from], "is not complete", source},
			"a damaged one":      {append([]byte{0}, full...), "no archive of svcd", source},
			"text":               {[]byte("text"), "no archive of svcd", source},
			"one of another":     {full, "another service", target},
			"another master key": {full, "another master key", run(t)},
			"one with other ends": {archiveOf(t, "", with(t, list, 'i', "", `"records":`, `"records":1`)), "not sealed",
				source},
		} {
			refused(t, name, errOf(tc.at.svc.Export(t.Context(), io.Discard, bytes.NewReader(tc.since))), tc.want)
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
	t.Run("the whole chain is taken afterwards", func(t *testing.T) {
		for range 2 { // who starts it again, because it was killed before it could say so, is told
			_, err := target.svc.Import(t.Context(), readers(full, second, third)...)
			if err != nil && !errors.Is(err, archive.ErrImported) {
				t.Fatal(err)
			}
		}
		refused(t, "another chain", errOf(target.svc.Import(t.Context(), readers(full, second)...)),
			"holds accounts already")
		target.clean(len(contents) + 3)
	})
}

// trimSum is a section without its checksum.
func trimSum(raw []byte) []byte { return raw[:len(raw)-sha256.Size] }

// salvaged salvages a chain into a new service. Each file is read there, or was named as missing, and
// why may be false only where no file may be missing. It returns how many are missing.
func (u *user) salvaged(t *testing.T, contents map[string][]byte, chain ...[]byte) (missing int, sum archive.Summary) {
	t.Helper()
	there := runWith(t, service.Config{DataDir: masterKeyOnly(t, u.dir), Database: newDatabase(t), RequestRate: -1})
	defer there.svc.Close()
	lost := make(map[string]bool)
	sum, err := there.svc.Salvage(t.Context(), func(group, name, ref string, _ error) {
		if group != "g" || name == "" {
			t.Errorf("missing is %q in group %q", name, group)
		}
		lost[ref] = true
	}, readers(chain...)...)
	if err != nil {
		t.Fatal(err)
	}
	reader := u.signsInAt(there)
	for ref, want := range contents {
		got, problem := reader.retrieve("g", ref)
		if bytes.Equal(got, want) == lost[ref] {
			t.Errorf("%s is named as missing: %v; it reads %d bytes, %s", ref, lost[ref], len(got), problem)
		}
	}
	return len(lost), sum
}

// Damage of a byte, wherever it is, is named and refused. All that it does not hit is restored: rows are there twice,
// and what is lost with a blob, or with contents in the database, is listed by group and name.
func TestDamageIsNamedAndTheRestSurvives(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	contents := make(map[string][]byte)
	save := func(n, size int) {
		content := bytes.Repeat([]byte(fmt.Sprint("content ", n, " ")), size)
		contents[alice.upload("g", fmt.Sprint("file ", n), content).CID] = content
	}
	for n := range 12 {
		save(n, 1)
	}
	save(100, 5_000)
	full := r.exports()
	save(101, 5_000)
	save(102, 1)
	increment := r.exports(full)
	random := rand.New(rand.NewPCG(1, 2))
	target := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
	hit := func(list []sectionOf, archive []byte, n int, may func([]byte) [][]byte) {
		s, end := list[n], len(archive)
		if n+1 < len(list) {
			end = list[n+1].from
		}
		at := s.from + random.IntN(end-s.from)
		damaged := bytes.Clone(archive)
		damaged[at] ^= byte(1 + random.IntN(255))
		what := fmt.Sprintf("byte %d of section %d, %c %s", at, n, s.kind, s.name)
		chain := may(damaged)
		_, err := target.svc.Import(t.Context(), readers(chain...)...)
		refused(t, what, err, "because of damage")
		missing, sum := alice.salvaged(t, contents, chain...)
		if len(sum.Damage) == 0 || missing > 0 && s.kind != 'b' && s.name != "small_contents" || missing == 0 &&
			s.kind == 'b' {
			t.Errorf("%s: %d files are missing, damage %q", what, missing, sum.Damage)
		}
	}
	step := 1
	if r.database != "" {
		step = 4 // each salvage is a database
	}
	list := sections(t, full)
	for n := random.IntN(step); n < len(list); n += step {
		hit(list, full, n, func(damaged []byte) [][]byte { return [][]byte{damaged, increment} })
	}
	list = sections(t, increment)
	for n := random.IntN(step); n < len(list); n += step {
		hit(list, increment, n, func(damaged []byte) [][]byte { return [][]byte{full, damaged} })
	}
	t.Run("both copies of the files are lost", func(t *testing.T) {
		var rest []sectionOf
		for _, s := range sections(t, full) {
			if s.name != "files" {
				rest = append(rest, s)
			}
		}
		older := maps.Clone(contents)
		for ref := range older {
			if alice.names()[ref] >= "file 101" && alice.names()[ref] <= "file 102" {
				delete(older, ref)
			}
		}
		missing, sum := alice.salvaged(t, older, archiveOf(t, "", rest))
		if missing != len(older) || !strings.Contains(strings.Join(sum.Damage, "; "), "rows of files are lost") {
			t.Errorf("%d of %d files are missing: %q", missing, len(older), sum.Damage)
		}
	})
	t.Run("what is missing is missing in the next archive too", func(t *testing.T) {
		rest := slices.DeleteFunc(sections(t, full), func(s sectionOf) bool { return s.kind == 'b' })
		there := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
		ok(t, errOf(there.svc.Salvage(t.Context(), func(string, string, string, error) {},
			bytes.NewReader(archiveOf(t, "", rest)))))
		var next bytes.Buffer
		sum, err := there.svc.Export(t.Context(), &next, nil)
		if err != nil || sum.Blobs != 0 || len(sum.Damage) != 1 || !strings.Contains(sum.Damage[0], "is missing") {
			t.Fatalf("%+v, %v", sum, err)
		}
		bad := 0
		n, err := there.imports(t, service.Config{Database: newDatabase(t)}, next.Bytes()).svc.Verify(t.Context(), true,
			func(string, error) { bad++ })
		if err != nil || n != 13 || bad != 1 {
			t.Errorf("%d of %d files are missing there, %v", bad, n, err)
		}
	})
}

// An increment that is lost costs the files that came with it. Older files whose rows it wrote anew are as they were.
func TestALostIncrementCostsNoOlderFile(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), RequestRate: -1})
	alice := r.owner()
	contents := make(map[string][]byte)
	refs := alice.many("g", 200)
	for i, ref := range refs {
		contents[ref] = []byte{byte(i)}
	}
	full := r.exports()
	for i := 0; i < 200; i += 20 { // in several pages
		must[string](alice, wire.OpRenameFile,
			object{"group_id": "g", "ipfs_hash": refs[i], "filename": fmt.Sprint("renamed ", i)})
	}
	contents[alice.upload("g", "of the increment", []byte("lost")).CID] = []byte("lost")
	increment := r.exports(full)
	contents[alice.upload("g", "last", []byte("last")).CID] = []byte("last")
	last := r.exports(full, increment)
	missing, sum := alice.salvaged(t, contents, full, last)
	if missing > 3 || len(sum.Damage) == 0 {
		t.Errorf("%d files are missing: %q", missing, sum.Damage)
	}
}

// A row that was deleted in a page that is there stays deleted, although another page of its table is lost and an
// earlier archive has the row.
func TestDeletedRowsStayDeletedInASalvage(t *testing.T) {
	t.Parallel()
	r, _ := runWithGroup(t)
	const members = 1500 // several pages
	member := func(i int) string { return fmt.Sprintf("member-%0100d.svc.testnet", i) }
	var rows []string
	for i := range members {
		rows = append(rows, fmt.Sprintf("('g', '%s', 1, 'writer')", member(i)))
	}
	r.exec("INSERT INTO members (group_id, account, since, role) VALUES " + strings.Join(rows, ", "))
	full := r.exports()
	for _, gone := range []string{member(1), member(members - 2)} {
		r.exec("DELETE FROM members WHERE account = '" + gone + "'")
	}
	increment := r.exports(full)
	kept, lost := 0, 0
	list := slices.DeleteFunc(sections(t, increment), func(s sectionOf) bool {
		if s.kind != 'r' || s.name != "members" {
			return false
		}
		if bytes.Contains(s.data, []byte(member(2))) {
			kept++
			return false
		}
		lost++
		return true
	})
	if kept == 0 || lost == 0 {
		t.Fatalf("%d pages are kept, %d lost", kept, lost)
	}
	there := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
	sum, err := there.svc.Salvage(t.Context(), func(string, string, string, error) {},
		readers(full, archiveOf(t, "", list))...)
	if err != nil || len(sum.Damage) == 0 {
		t.Fatalf("damage %q, %v", sum.Damage, err)
	}
	db := there.openDatabase()
	defer db.Close()
	var gone, all int
	ok(t, db.QueryRow("SELECT count(*) FROM members WHERE account = '"+member(1)+"'").Scan(&gone))
	ok(t, db.QueryRow("SELECT count(*) FROM members").Scan(&all))
	if gone != 0 || all < members-2 {
		t.Errorf("%d of the deleted rows are back, %d rows in all", gone, all)
	}
}

// names are those of the files of the group g, by reference.
func (u *user) names() map[string]string {
	all := make(map[string]string)
	for _, row := range u.rows("g") {
		all[row.IPFSHash] = *row.Filename
	}
	return all
}

// An archive that is cut, wherever it is, is refused. What came is restored.
func TestCutArchives(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	contents := make(map[string][]byte)
	for n := range 3 {
		content := bytes.Repeat([]byte(fmt.Sprint(n, " content ")), 1+n*5_000)
		contents[alice.upload("g", fmt.Sprint(n), content).CID] = content
	}
	full := r.exports()
	target := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
	hasIndex := false
	blobs := 0
	for n, s := range sections(t, full) {
		for _, cut := range []int{s.from, s.from + 1 + n*7%40} {
			_, err := target.svc.Import(t.Context(), bytes.NewReader(full[:cut]))
			if err == nil {
				t.Fatalf("an archive that is cut at byte %d was taken", cut)
			}
			if !hasIndex {
				_, err = target.svc.Salvage(t.Context(), nil, bytes.NewReader(full[:cut]))
				refused(t, "salvaged without an index", err, "archive")
			} else if r.database == "" || s.kind == 'b' {
				if missing, sum := alice.salvaged(t, contents, full[:cut]); missing != 2-blobs || len(sum.Damage) == 0 {
					t.Errorf("cut at byte %d, behind %d of 2 blobs: %d files are missing", cut, blobs, missing)
				}
			}
		}
		hasIndex = hasIndex || s.kind == 'i'
		if s.kind == 'b' {
			blobs++
		}
	}
	if blobs != 2 {
		t.Errorf("%d blobs", blobs)
	}
}

func TestExportUnderLoad(t *testing.T) {
	t.Parallel()
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
	var chain [][]byte
	for range 3 { // a full archive and increments
		chain = append(chain, r.exports(chain...))
	}
	stop.Store(true)
	load.Wait()
	for n := range chain {
		r.imports(t, service.Config{Database: newDatabase(t)}, chain[:n+1]...).clean(-1)
	}
}

// A part whose bytes are not those of its leaves leaves no service, and enters none.
func TestChangedPartsDoNotMove(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t)})
	alice := r.owner()
	alice.savesAll("f", contentOf("a", 3))
	list := sections(t, r.exports())
	imports := func(what, word string, change func(*sectionOf)) {
		t.Helper()
		changed := slices.Clone(list)
		for i := range changed {
			if changed[i].kind == 'b' {
				change(&changed[i])
			}
		}
		target := runWith(t, service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)})
		_, err := target.svc.Import(t.Context(), bytes.NewReader(archiveOf(t, r.dir, changed)))
		if word == "" {
			ok(t, err)
			return
		}
		refused(t, what, err, word)
	}
	id := func(s *sectionOf) string { id, _, _ := strings.Cut(s.name, "/"); return id }
	imports("as it was", "", func(*sectionOf) {})
	imports("another byte", "was changed on the way", func(s *sectionOf) {
		s.data = bytes.Clone(s.data)
		s.data[len(s.data)-1] ^= 1
	})
	imports("nothing that proves it", "was changed on the way", func(s *sectionOf) { s.name = id(s) })
	imports("blocks of another size", "was changed on the way", func(s *sectionOf) { s.name = id(s) + "/131100" })
	imports("blocks of no size", "which svcd does not write", func(s *sectionOf) { s.name = id(s) + "/-1" })
	if found, _ := filepath.Glob(filepath.Join(r.dir, "blobs", "??", "*")); len(found) > 0 {
		flip(t, found[0], 70_000)
	}
	refused(t, "an export", errOf(r.svc.Export(t.Context(), io.Discard, nil)), "was changed since it was stored")
}
