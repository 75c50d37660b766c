package service_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// rowsOfSmall counts the rows of small contents: those in use, and the others.
func (r *running) rowsOfSmall() (used, free int) {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close()
	ok(r.t, db.QueryRow("SELECT COALESCE(sum(CASE WHEN free THEN 0 ELSE 1 END), 0), COALESCE(sum(CASE WHEN free THEN "+
		"1 ELSE 0 END), 0) FROM small_contents").Scan(&used, &free))
	return used, free
}

// Ciphertext of up to 16 KiB lies in the database, however it came, and is read in every way.
func TestSmallContents(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	blobs, wants := 0, 0
	for _, size := range []int{0, 1, 228, 229, 4096, files.SmallBytes - format.Overhead,
		files.SmallBytes - format.Overhead + 1} {
		content := noise(int64(size))
		for how, up := range map[string]func() wire.FinalizeUploadResult{
			"inside JSON":    func() wire.FinalizeUploadResult { return alice.upload("g", "f", content) },
			"raw":            func() wire.FinalizeUploadResult { return alice.uploadRaw("g", "f", content) },
			"in one request": func() wire.FinalizeUploadResult { return alice.mustPut(alice.seals("g", "f", content)) },
		} {
			ref := up().CID
			if size+format.Overhead > files.SmallBytes {
				blobs++
			} else {
				wants++
			}
			if got, problem := alice.retrieve("g", ref); !bytes.Equal(got, content) {
				t.Errorf("%d bytes %s: %d came, %s", size, how, len(got), problem)
			}
			if where, err := r.svc.BlobPath(t.Context(), ref); err != nil ||
				(size+format.Overhead <= files.SmallBytes) != strings.Contains(where, "small_contents") {
				t.Errorf("%d bytes %s lie in %s, %v", size, how, where, err)
			}
		}
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != blobs {
		t.Errorf("%d files, want %d", n, blobs)
	}
	if used, free := r.rowsOfSmall(); used != wants || free != 0 {
		t.Errorf("%d rows are used and %d free, want %d", used, free, wants)
	}
	r.clean(wants + blobs)
}

// Small content has ranges and a HEAD, as any other.
func TestSmallRanges(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	up := alice.upload("g", "f", noise(1000))
	got := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": up.CID, "transfer": "raw"})
	all, err := base64.StdEncoding.DecodeString(got.EncryptedB64)
	ok(t, err)
	// The service hands tickets out for larger files only; the way behind them is the same.
	ticket, err := json.Marshal(object{"a": alice.id, "g": "g", "r": up.CID, "e": time.Now().Add(time.Hour).Unix()})
	ok(t, err)
	mac := hmac.New(sha256.New, alice.serviceKey(vaultwire.PurposeTickets))
	mac.Write(ticket)
	target := wire.PathReadBlob + base64.RawURLEncoding.EncodeToString(ticket) + "." +
		base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	for ranges, want := range map[string]string{"": string(all), "bytes=5-9": string(all[5:10]),
		"bytes=-3": string(all[len(all)-3:])} {
		if status, body := alice.fetch(target, ranges); status >= 300 || string(body) != want {
			t.Errorf("range %q: %d, %d bytes", ranges, status, len(body))
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, alice.url+target, nil)
	ok(t, err)
	req.Header = alice.header()
	resp, err := http.DefaultClient.Do(req)
	ok(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != int64(len(all)) {
		t.Errorf("HEAD: %d, %d bytes", resp.StatusCode, resp.ContentLength)
	}
}

// Threat 34: small ciphertext that was deleted, replaced, or never finished is destroyed, with its key,
// also between others that come and go, and its place is used again.
func TestThreat34SmallContents(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), RequestRate: -1, DestructionDelay: -1})
	alice := r.owner()
	sizes := []int64{100, 3000, 4000, 4096, 9000, 16000}
	var items []*sealedItem
	var refs []string
	for i := range 60 {
		item := alice.seals("g", fmt.Sprint(i), noise(sizes[i%len(sizes)]))
		items, refs = append(items, item), append(refs, alice.mustPut(item).CID)
	}
	wrapped := r.wrappedKeys()
	samples := func(i int) [][]byte { // of the key, of the beginning and of the end, which may be elsewhere
		return [][]byte{wrapped[refs[i]], items[i].blob[:48], items[i].blob[len(items[i].blob)-48:]}
	}
	for _, s := range samples(7) {
		if len(s) == 0 || !r.databaseHolds(s) {
			t.Fatal("the key or ciphertext was not found before the deletion: the search proves nothing")
		}
	}
	rows, _ := r.rowsOfSmall()
	for round := range 2 {
		for i := round; i < len(items); i += 3 {
			must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": refs[i]})
			for _, s := range samples(i) {
				if r.databaseHolds(s) {
					t.Errorf("round %d: key or ciphertext %d of %d bytes is still in the database", round, i,
						items[i].BlobSize)
				}
			}
		}
		for i := round; i < len(items); i += 3 {
			items[i] = alice.seals("g", "again", noise(sizes[i%len(sizes)]))
			refs[i] = alice.mustPut(items[i]).CID
		}
		wrapped = r.wrappedKeys()
	}
	if used, free := r.rowsOfSmall(); used != rows || free != 0 {
		t.Errorf("%d rows are used and %d are free, there were %d", used, free, rows)
	}
	for i := range items {
		if got, problem := alice.retrieve("g", refs[i]); len(got) != len(items[i].blob)-format.Overhead {
			t.Errorf("file %d: %d bytes, %s", i, len(got), problem)
		}
	}
	up := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	first := noise(5000)
	for _, content := range [][]byte{first, noise(6000)} {
		if status, body := alice.put(up, bytes.NewReader(content)); status != http.StatusNoContent {
			t.Fatal(status, body)
		}
	}
	r.exec("UPDATE uploads SET expires_ns = 1")
	ok(t, r.svc.Sweep(t.Context()))
	if used, _ := r.rowsOfSmall(); used != rows {
		t.Errorf("%d rows after an upload that was not finished, want %d", used, rows)
	}
	if r.database == "" && r.databaseHolds(first[:48]) {
		t.Error("ciphertext of an upload that was replaced is in the database")
	}
	r.clean(len(items))
}

// A changed row is noticed before a charge, and svcd verify names its file.
func TestSmallContentDamaged(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	ref := alice.mustPut(alice.seals("g", "f", noise(1000))).CID
	other := alice.upload("g", "f", noise(1000)).CID
	r.exec("UPDATE small_contents SET data = ? WHERE id = (SELECT min(id) FROM small_contents)", make([]byte, 1280))
	before := alice.balance()
	status, body := alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
	refuses(t, "a changed row", status, body, wire.CodeBlobCorrupt)
	r.exec("DELETE FROM small_contents WHERE id = (SELECT max(id) FROM small_contents)")
	status, body = alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": other})
	refuses(t, "a missing row", status, body, wire.CodeBlobCorrupt)
	if alice.balance() != before {
		t.Error("a damaged file was charged")
	}
	bad := map[string]bool{}
	if _, err := r.svc.Verify(t.Context(), true, func(ref string, _ error) { bad[ref] = true }); err != nil ||
		!bad[ref] || !bad[other] {
		t.Errorf("verify names %v, %v", bad, err)
	}
	found := 0
	ok(t, r.svc.CheckStored(t.Context(), func(string, error) { found++ }))
	if found != 1 {
		t.Errorf("doctor finds %d differences, want the missing row", found)
	}
}

// Small contents travel with the rows: in archives, between both databases.
func TestSmallContentsMove(t *testing.T) {
	t.Parallel()
	first := runWith(t, service.Config{DataDir: filepath.Join(t.TempDir(), "data")})
	alice := first.owner()
	content := map[string][]byte{}
	for _, size := range []int64{10, 4096, 30_000} {
		c := noise(size)
		content[alice.upload("g", "f", c).CID] = c
	}
	gone := alice.upload("g", "gone", noise(500)).CID
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": gone})
	item := alice.seals("g", "sealed", []byte("sealed"))
	content[alice.mustPut(item).CID] = []byte("sealed")
	check := func(r *running) {
		t.Helper()
		there := alice.signsInAt(r)
		for ref, want := range content {
			if got, problem := there.retrieve("g", ref); !bytes.Equal(got, want) {
				t.Errorf("%d bytes of %d: %s", len(got), len(want), problem)
			}
		}
		there.mustPut(item) // its id is spent there too
		if n := len(there.rows("g")); n != len(content)+1 {
			t.Errorf("%d files", n)
		}
		r.clean(len(content))
	}
	second := runWith(t, service.Config{DataDir: masterKeyOnly(t, first.dir), Database: engines.NewPostgres(t)})
	third := runWith(t, service.Config{DataDir: masterKeyOnly(t, first.dir)})
	var there, back bytes.Buffer
	sum, err := first.svc.Export(t.Context(), &there, nil)
	if err != nil || sum.Blobs != 1 {
		t.Fatal(sum, err)
	}
	ok(t, errOf(second.svc.Import(t.Context(), &there)))
	check(second)
	ok(t, errOf(second.svc.Export(t.Context(), &back, nil)))
	ok(t, errOf(third.svc.Import(t.Context(), &back)))
	check(third)
}
