package service_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/legacy"
)

// prepared is the answer of prepare_retrieve.
func (u *user) prepared(group, ref string) wire.PrepareRetrieveResult {
	u.t.Helper()
	return must[wire.PrepareRetrieveResult](u, wire.OpPrepareRetrieve, object{"group_id": group, "ipfs_hash": ref})
}

func (u *user) row(group, ref string) wire.TransactionRow {
	u.t.Helper()
	for _, row := range must[[]wire.TransactionRow](u, wire.OpGetGroupTransactions, object{"group_id": group}) {
		if row.IPFSHash == ref {
			return row
		}
	}
	u.t.Fatalf("%s is not listed", ref)
	return wire.TransactionRow{}
}

// Imported files are legacy files in every respect, and a rotation of the
// group's key loses none.
func TestLegacyImportAndRotation(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	before := alice.balance()
	contents := [][]byte{{}, []byte("old report"), bytes.Repeat([]byte("large "), 100_000)}
	var refs []string
	for version, prefix := range []string{"Qm", "bafy"} {
		for i, content := range contents {
			done, err := r.svc.ImportPlain(t.Context(),
				service.LegacyFile{Group: "g", Name: fmt.Sprint(version, "-", i)}, content, version)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(done.CID, prefix) || done.FileHash != hash(content) || done.Known {
				t.Errorf("imported as %+v", done)
			}
			again, err := r.svc.ImportPlain(t.Context(), service.LegacyFile{Group: "g", Name: done.Filename}, content,
				version)
			if err != nil || !again.Known || again.CID != done.CID || again.TransID != done.TransID {
				t.Errorf("once more: %+v, %v", again, err)
			}
			refs = append(refs, done.CID)
		}
	}
	t.Run("importing costs nothing", func(t *testing.T) {
		if got := alice.balance(); got != before {
			t.Errorf("importing cost something: %s of %s are left", got, before)
		}
	})
	t.Run("it is listed as an old file", func(t *testing.T) {
		row := alice.row("g", refs[1])
		if *row.Backend != "Ipfs" || *row.Filename != "0-1" || *row.OriginalSize != int64(len(contents[1])) ||
			row.UserID != alice.id {
			t.Errorf("listed as %+v", row)
		}
	})
	first := alice.prepared("g", refs[1])
	if string(first.Format) != "null" {
		t.Errorf("format %s", first.Format)
	}
	blob, err := base64.StdEncoding.DecodeString(first.EncryptedB64)
	if err != nil || legacy.Sum(blob, legacy.Default(0)).String() != refs[1] {
		t.Errorf("the reference does not name the ciphertext, %v", err)
	}
	if other := alice.prepared("g", refs[4]); other.Key != first.Key {
		t.Error("two legacy files of one version have different keys: that is not the group's key")
	}

	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	t.Run("after a rotation members read, and nobody else", func(t *testing.T) {
		for i, ref := range refs {
			alice.reads(ref, string(contents[i%len(contents)]))
		}
		if _, problem := bob.retrieve("g", refs[1]); !strings.Contains(problem, "not authorized") {
			t.Errorf("a revoked member: %s", problem)
		}
	})
	t.Run("what is imported after a rotation has the new key", func(t *testing.T) {
		later, err := r.svc.ImportPlain(t.Context(), service.LegacyFile{Group: "g", Name: "later"}, []byte("later"), 1)
		if err != nil {
			t.Fatal(err)
		}
		key := alice.prepared("g", later.CID).Key
		if key == first.Key {
			t.Error("a file imported after the rotation has the key of before")
		}
		r.rotated() // the master key, which changes nothing
		again, err := r.svc.ImportPlain(t.Context(), service.LegacyFile{Group: "g", Name: "later"}, []byte("later"), 1)
		if err != nil || again.CID != later.CID || alice.prepared("g", later.CID).Key != key {
			t.Errorf("imported under another master key as %s, %v", again.CID, err)
		}
		if alice.upload("g", "new", []byte("x")).CID == "" ||
			*alice.row("g", alice.upload("g", "n", []byte("x")).CID).Backend != "FastFS" {
			t.Error("a new file is no FastFS file")
		}
	})
	t.Run("all is verified", func(t *testing.T) {
		if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
			n != len(refs)+3 {
			t.Errorf("verify: %d, %v", n, err)
		}
		if _, err := r.svc.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("it is deleted", func(t *testing.T) {
		must[string](alice, "delete_file", object{"group_id": "g", "ipfs_hash": refs[1]})
		if _, problem := alice.retrieve("g", refs[1]); !strings.Contains(problem, "deleted") {
			t.Errorf("a deleted legacy file: %s", problem)
		}
	})
}

// oldKey is a group key of another service, in a file.
func oldKey(t *testing.T) (*format.Key, *format.Key) {
	t.Helper()
	raw := bytes.Repeat([]byte{7}, 32)
	file := filepath.Join(t.TempDir(), "old.key")
	ok(t, os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(raw)+"\n"), 0o600))
	key, err := keys.ReadFileKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v", key, *key, key); strings.Contains(text, "7") {
		t.Errorf("the key prints as %s", text)
	}
	ok(t, os.WriteFile(file, raw, 0o600))
	if again, err := keys.ReadFileKey(file); err != nil || again.Base64() != key.Base64() {
		t.Errorf("32 bytes: %v", err)
	}
	for name, content := range map[string][]byte{"short": raw[:31], "long": append(raw, 1), "empty": {},
		"base64 of 16": []byte("AAAAAAAAAAAAAAAAAAAAAA==")} {
		ok(t, os.WriteFile(file, content, 0o600))
		refused(t, name, errOf(keys.ReadFileKey(file)), "want 32 bytes")
	}
	ok(t, os.Chmod(file, 0o644))
	if _, err := keys.ReadFileKey(file); !errors.Is(err, ownfile.ErrReadable) {
		t.Errorf("a key others may read: %v", err)
	}
	outside, err := format.NewKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key, outside
}

func sealWith(t *testing.T, key *format.Key, content []byte) []byte {
	t.Helper()
	sealed, err := format.SealBlob(key, content)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// Ciphertext of another service, as bytes or base64, under the id it is known by.
func TestLegacyCiphertext(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "other"})
	key, outside := oldKey(t)
	l := service.LegacyFile{Group: "g", Key: key}
	content := []byte("sealed long ago")
	sealed := sealWith(t, outside, content)
	text := []byte(base64.StdEncoding.EncodeToString(sealed))
	t.Run("as bytes and as base64", func(t *testing.T) {
		for name, data := range map[string][]byte{"bytes": sealed, "base64": text,
			"base64 with newline": append(text[:len(text):len(text)], '\n')} {
			id := legacy.Sum(data, legacy.Default(0)).String()
			for _, want := range []string{id, ""} {
				done, err := r.svc.ImportSealed(t.Context(), l, data, want, 0)
				if err != nil || done.CID != id || done.FileHash != hash(content) || done.Known != (want == "") {
					t.Fatalf("%s: %+v, %v", name, done, err)
				}
			}
			alice.reads(id, string(content))
		}
	})
	t.Run("anything else is refused", func(t *testing.T) {
		id := legacy.Sum(sealed, legacy.Default(0)).String()
		for _, tc := range []struct {
			name string
			file service.LegacyFile
			data []byte
			cid  string
			word string
		}{
			{"other bytes than the id names", l, text, id, "not those that"},
			{"not a content id", l, sealed, "bafy.svc.testnet/x", "not a content id"},
			{"the group's own key", service.LegacyFile{Group: "g"}, sealWith(t, outside, []byte("more")), "",
				"--key-file"},
			{"changed bytes", l, append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1), "",
				"--key-file"},
			{"too short", l, sealed[:20], "", "no ciphertext"},
			{"another group", service.LegacyFile{Group: "other", Key: key}, sealed, id, "recorded already"},
			{"no such group", service.LegacyFile{Group: "nobody", Key: key}, sealed, id, "Group not found"},
			{"no such account", service.LegacyFile{Group: "g", Key: key, Account: "nobody"}, sealWith(t, outside, nil),
				"", "not found"},
		} {
			refused(t, tc.name, errOf(r.svc.ImportSealed(t.Context(), tc.file, tc.data, tc.cid, 1)), tc.word)
		}
		if blobs := countFiles(t, filepath.Join(r.dir, "blobs")); blobs != 3 {
			t.Errorf("%d blobs for 3 files", blobs)
		}
	})
	t.Run("ciphertext of this service from before a rotation, back from elsewhere", func(t *testing.T) {
		plain, err := r.svc.ImportPlain(t.Context(), service.LegacyFile{Group: "g"}, []byte("ours"), 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := base64.StdEncoding.DecodeString(alice.prepared("g", plain.CID).EncryptedB64)
		if err != nil {
			t.Fatal(err)
		}
		must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "x"})
		must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": "x"})
		// the other version: another reference
		done, err := r.svc.ImportSealed(t.Context(), service.LegacyFile{Group: "g"}, ours, "", 1)
		if err != nil || done.Known {
			t.Fatal(done, err)
		}
		alice.reads(done.CID, "ours")
	})
}

// gatewayFor serves one file in one of several ways.
type gatewayFor struct {
	mu      sync.Mutex
	mode    string
	data    []byte
	asked   atomic.Int64
	foreign atomic.Int64 // requests at the place a redirect points to
}

func (g *gatewayFor) set(mode string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mode = mode
}

func (g *gatewayFor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	mode := g.mode
	g.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/elsewhere") {
		g.foreign.Add(1)
	}
	g.asked.Add(1)
	switch mode {
	case "redirect":
		http.Redirect(w, r, "/elsewhere/"+r.URL.Path, http.StatusTemporaryRedirect)
	case "endless":
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	case "wrong bytes":
		_, _ = w.Write(append([]byte{g.data[0] ^ 1}, g.data[1:]...))
	case "longer":
		_, _ = w.Write(append(bytes.Clone(g.data), 0))
	case "nothing":
	case "short":
		_, _ = w.Write(g.data[:10])
	case "broken base64":
		_, _ = w.Write([]byte(strings.Repeat("A", 100) + "!"))
	case "cut":
		w.Header().Set("Content-Length", fmt.Sprint(len(g.data)))
		_, _ = w.Write(g.data[:len(g.data)/2])
	case "html":
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>please wait</html>"))
	case "compressed":
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(g.data)
	case "missing":
		w.WriteHeader(http.StatusNotFound)
	case "failing":
		w.WriteHeader(http.StatusBadGateway)
	default:
		_, _ = w.Write(g.data)
	}
}

// Threat 30, for the gateway: the service asks it only for references that an operator
// recorded. Its answers are bounded and checked, and a retrieval is charged only for a
// right one. A redirect leads nowhere; fetched bytes are kept.
func TestThreat30Gateway(t *testing.T) {
	t.Parallel()
	key, outside := oldKey(t)
	content := bytes.Repeat([]byte("elsewhere "), 60_000)
	gateway := &gatewayFor{data: sealWith(t, outside, content)}
	server := httptest.NewServer(http.StripPrefix("/ipfs", gateway))
	defer server.Close()
	r := runWith(t, service.Config{Database: newDatabase(t), Gateway: server.URL + "/ipfs/", MaxFileBytes: 1 << 20})
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	ref := legacy.Sum(gateway.data, legacy.Layout{Version: 0, Chunk: 1 << 20, Links: 174}).String()
	l := service.LegacyFile{Group: "g", Name: "elsewhere.bin", Key: key}
	done, err := r.svc.ImportReference(t.Context(), l, ref, strings.ToUpper(hash(content)))
	if err != nil || done.CID != ref {
		t.Fatal(done, err)
	}
	t.Run("a reference is recorded once, and nothing is kept of it", func(t *testing.T) {
		if again, err := r.svc.ImportReference(t.Context(), l, ref, hash(content)); err != nil || !again.Known {
			t.Errorf("once more: %+v, %v", again, err)
		}
		refused(t, "with another hash", errOf(r.svc.ImportReference(t.Context(), l, ref, hash([]byte("x")))),
			"recorded already")
		refused(t, "an address", errOf(r.svc.ImportReference(t.Context(), l, "http://127.0.0.1/x", hash(nil))),
			"not a content id")
		if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
			n != 1 {
			t.Errorf("verify: %d, %v", n, err)
		}
		refused(t, "its place", errOf(r.svc.BlobPath(t.Context(), ref)), "not kept here")
		if row := alice.row("g", ref); *row.Backend != "Ipfs" || row.OriginalSize != nil {
			t.Errorf("listed as %+v", row)
		}
	})
	t.Run("the gateway is not asked for what nobody may have", func(t *testing.T) {
		for _, other := range []string{server.URL + "/ipfs/x", "QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o",
			ref + "/../x"} {
			if _, problem := alice.retrieve("g", other); !strings.Contains(problem, "not found") {
				t.Errorf("%s: %s", other, problem)
			}
		}
		if _, problem := bob.retrieve("g", ref); !strings.Contains(problem, "not authorized") {
			t.Errorf("a stranger: %s", problem)
		}
		if n := gateway.asked.Load(); n != 0 {
			t.Errorf("the gateway was asked %d times for what nobody may have", n)
		}
	})
	t.Run("lies of the gateway are refused, cost nothing and leave nothing", func(t *testing.T) {
		before := alice.balance()
		for mode, code := range map[string]string{"redirect": wire.CodeUnavailable, "endless": wire.CodeTooLarge,
			"wrong bytes": wire.CodeBlobCorrupt,
			"longer":      wire.CodeBlobCorrupt, "nothing": wire.CodeBlobCorrupt, "short": wire.CodeBlobCorrupt,
			"broken base64": wire.CodeBlobCorrupt, "cut": wire.CodeUnavailable,
			"html": wire.CodeBlobCorrupt, "missing": wire.CodeFileNotFound, "failing": wire.CodeUnavailable} {
			gateway.set(mode)
			if _, problem := alice.retrieve("g", ref); !strings.Contains(problem, `"`+code+`"`) {
				t.Errorf("a gateway in mode %q: %s, want %s", mode, problem, code)
			}
		}
		if n := gateway.foreign.Load(); n != 0 {
			t.Errorf("a redirect was followed %d times", n)
		}
		if got := alice.balance(); got != before {
			t.Errorf("lies cost something: %s of %s are left", got, before)
		}
		if blobs := countFiles(t, filepath.Join(r.dir, "blobs")); blobs != 0 {
			t.Errorf("lies left %d blobs", blobs)
		}
	})
	t.Run("it is asked once for one file", func(t *testing.T) {
		gateway.set("compressed")
		asked := gateway.asked.Load()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				alice.reads(ref, string(content))
			})
		}
		all.Wait()
		if n := gateway.asked.Load() - asked; n != 1 {
			t.Errorf("the gateway was asked %d times for one file", n)
		}
		if row := alice.row("g", ref); row.OriginalSize == nil || *row.OriginalSize != int64(len(content)) {
			t.Errorf("now listed as %+v", row)
		}
	})
	t.Run("then the file is kept here", func(t *testing.T) {
		server.Close()
		alice.reads(ref, string(content))
		answer := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": ref, "transfer": "raw"})
		if status, body := alice.fetch(answer.DataURL, ""); status != http.StatusOK ||
			!bytes.Equal(body, gateway.data) {
			t.Errorf("raw: %d, %d bytes", status, len(body))
		}
		if blobs := countFiles(t, filepath.Join(r.dir, "blobs")); blobs != 1 {
			t.Errorf("%d blobs for one file", blobs)
		}
	})
}

// The refusal of a reference without a gateway names the next step of the operator;
// importing its bytes later fills it.
func TestLegacyReferenceIsFilledLater(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	key, outside := oldKey(t)
	l := service.LegacyFile{Group: "g", Key: key}
	sealed := sealWith(t, outside, []byte("later"))
	ref := legacy.Sum(sealed, legacy.Default(1)).String()
	if _, err := r.svc.ImportReference(t.Context(), l, ref, hash([]byte("later"))); err != nil {
		t.Fatal(err)
	}
	if _, problem := alice.retrieve("g", ref); !strings.Contains(problem, "not found") ||
		!strings.Contains(problem, "--gateway") {
		t.Errorf("without its bytes: %s", problem)
	}
	for range 2 {
		if _, err := r.svc.ImportSealed(t.Context(), l, sealed, ref, 1); err != nil {
			t.Fatal(err)
		}
	}
	alice.reads(ref, "later")
	if blobs := countFiles(t, filepath.Join(r.dir, "blobs")); blobs != 1 {
		t.Errorf("%d blobs for one file", blobs)
	}
	must[string](alice, "delete_file", object{"group_id": "g", "ipfs_hash": ref})
	refused(t, "after its deletion", errOf(r.svc.ImportSealed(t.Context(), l, sealed, ref, 1)), "deleted")
}

func TestPlainReferences(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		r := runWith(t, service.Config{Database: newDatabase(t), PlainRefs: plain})
		alice := r.owner()
		ref := alice.upload("g", "f", []byte("x")).CID
		if got := strings.HasPrefix(ref, "bafy."); got == plain || plain &&
			!strings.HasPrefix(ref, "svc.testnet/fastfs.svc.testnet/") {
			t.Errorf("plain %v: %s", plain, ref)
		}
		alice.reads(ref, "x")
	}
	for _, address := range []string{"gateway.example.org", "ftp://gateway.example.org",
		"https://user:secret@gateway.example.org/", "https://", "https://x/?y", "://"} {
		_, err := openService(t.Context(), service.Config{DataDir: t.TempDir(), Gateway: address})
		if err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), "https://HOST/ipfs/") {
			t.Errorf("gateway %s: %v", address, err)
		}
	}
}

// Threat 31: a file at the gateway that is too large for an answer of JSON is
// refused before it is charged, also when it was not fetched yet.
func TestThreat31LargeFileAtTheGateway(t *testing.T) {
	t.Parallel()
	key, outside := oldKey(t)
	content := make([]byte, 65<<20)
	gateway := &gatewayFor{data: sealWith(t, outside, content)}
	server := httptest.NewServer(gateway)
	defer server.Close()
	r := runWith(t, service.Config{Database: newDatabase(t), Gateway: server.URL, MaxFileBytes: 100 << 20})
	alice := r.owner()
	ref := legacy.Sum(gateway.data, legacy.Default(1)).String()
	if _, err := r.svc.ImportReference(t.Context(), service.LegacyFile{Group: "g", Key: key}, ref,
		hash(content)); err != nil {
		t.Fatal(err)
	}
	before := alice.balance()
	if status, body := alice.tool(wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": ref}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("inside JSON: %d %.200s", status, body)
	}
	if after := alice.balance(); after != before {
		t.Errorf("the refusal left %s of %s", after, before)
	}
	if got := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": ref, "transfer": "raw"}); got.DataSize != int64(len(gateway.data)) {
		t.Errorf("raw: %d bytes", got.DataSize)
	}
}
