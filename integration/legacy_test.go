package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
)

// imported is a line of svcd import-legacy.
type imported struct {
	CID      string `json:"cid"`
	FileHash string `json:"file_hash"`
	Filename string `json:"filename"`
}

func (w *world) importLegacy(args ...string) []imported {
	w.t.Helper()
	out, err := w.svcd(append([]string{"import-legacy"}, args...)...)
	if err != nil {
		w.t.Fatalf("import-legacy %v: %v\n%s", args, err, out)
	}
	var list []imported
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var i imported
		if err := dec.Decode(&i); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
		list = append(list, i)
	}
	return list
}

// Files of the old network, imported by an operator while the service runs, are
// read by every client, also by the unmodified JavaScript SDK 1.0.3, which takes
// no other references, and also after the group's key was rotated.
func TestLegacyFilesForEveryClient(t *testing.T) {
	w, alice, bob := team(t)
	content := bytes.Repeat([]byte("from before \x00\xff"), 60_000)
	file := filepath.Join(w.dir, "old report.pdf")
	write(t, file, content)
	empty := filepath.Join(w.dir, "empty")
	write(t, empty, nil)
	var refs []string
	for version, prefix := range []string{"Qm", "bafy"} {
		list := w.importLegacy("team", file, empty, "--cid-version", fmt.Sprint(version), "--account", "bob")
		if len(list) != 2 {
			t.Fatalf("imported %+v", list)
		}
		for _, i := range list {
			if !strings.HasPrefix(i.CID, prefix) {
				t.Errorf("version %d: %+v", version, i)
			}
		}
		refs = append(refs, list[0].CID)
		if again := w.importLegacy("team", file, "--cid-version", fmt.Sprint(version)); again[0].CID != refs[version] {
			t.Errorf("imported twice: %+v", again)
		}
		ok(t, os.Rename(file, file+".second"))
		file += ".second"
		write(t, empty+".second", nil)
		empty += ".second"
	}
	js := javaScript(t, w.url, "sdk.mjs")
	scripts := newAgent(t, w.url, sdk.AccountID(alice.id), alice.key)
	check := func(when string) {
		t.Helper()
		for _, ref := range refs {
			back := filepath.Join(w.dir, "back")
			if _, problem := js(alice, "team", "retrieve", ref, back); problem != "" ||
				!bytes.Equal(read(t, back), content) {
				t.Errorf("%s, JavaScript reads %s as %d bytes, %s", when, ref, len(read(t, back)), problem)
			}
			alice.must("get", "team", ref, "-o", back+"-svcfs-"+ref[:2]+when)
			if got := read(t, back+"-svcfs-"+ref[:2]+when); !bytes.Equal(got, content) {
				t.Errorf("%s, svcfs reads %s as %d bytes", when, ref, len(got))
			}
			if run := scripts.want(agentDone, "retrieve_and_decrypt.sh", "team", ref); !bytes.Equal(run.out, content) {
				t.Errorf("%s, the agent script reads %s as %d bytes: %s", when, ref, len(run.out), run.err)
			}
		}
	}
	check("at once")
	m := alice.mount("legacy")
	if got := read(t, m.path("team", "old report.pdf")); !bytes.Equal(got, content) {
		t.Errorf("the mount reads %d bytes", len(got))
	}
	alice.must("group", "revoke", "team", bob.id)
	check("after a rotation")
	if out, err := w.svcd("verify", "--read-data"); err != nil || !strings.Contains(out, "4 checked, 0 bad") {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// References whose bytes are elsewhere come from the operator's gateway.
func TestLegacyGateway(t *testing.T) {
	key := bytes.Repeat([]byte{42}, 32)
	k, err := format.NewKey(key)
	if err != nil {
		t.Fatal(err)
	}
	content := []byte("kept by a pinning service")
	sealed, err := format.SealBlob(k, content)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = w.Write(sealed)
	}))
	defer gateway.Close()
	w := newWorldOn(t)
	alice := w.account("alice", "1000")
	alice.must("group", "create", "team")
	keyFile := filepath.Join(w.dir, "old.key")
	write(t, keyFile, []byte(base64.StdEncoding.EncodeToString(key)))
	sealedFile := filepath.Join(w.dir, "sealed")
	write(t, sealedFile, sealed)
	hash := fmt.Sprintf("%x", sha256.Sum256(content))

	// The id is learned from an import into a service of its own.
	other := newWorldOn(t)
	other.account("alice", "1000").must("group", "create", "team")
	ref := other.importLegacy("team", sealedFile, "--ciphertext", "--key-file", keyFile, "--cid-version", "0")[0].CID

	out, err := w.svcd("import-legacy", "team", "--reference", ref, "--file-hash", hash, "--name", "elsewhere.txt",
		"--key-file", keyFile)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("without a gateway it is not read", func(t *testing.T) {
		if out, code := alice.try("get", "team", ref, "-o", filepath.Join(w.dir, "x")); code != 2 ||
			!strings.Contains(out, "--gateway") {
			t.Errorf("without a gateway: exit %d: %s", code, out)
		}
	})
	w.stop()
	w.stores = []string{"--gateway", gateway.URL + "/ipfs/", "--refs", "plain"}
	w.start()
	for range 2 {
		back := filepath.Join(w.dir, "back")
		_ = os.Remove(back)
		alice.must("get", "team", "elsewhere.txt", "-o", back)
		if got := read(t, back); !bytes.Equal(got, content) {
			t.Errorf("read %q", got)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the gateway was asked %d times", n)
	}
	write(t, filepath.Join(w.dir, "new"), []byte("new"))
	if out := alice.must("put", "team", filepath.Join(w.dir, "new")); strings.Contains(out, "bafy") {
		t.Errorf("--refs plain: %s", out)
	}
	if strings.Contains(w.log.String(), base64.StdEncoding.EncodeToString(key)) {
		t.Error("the log holds the key")
	}
}

func TestImportLegacyUsage(t *testing.T) {
	w, _, _ := team(t)
	file := filepath.Join(w.dir, "f")
	write(t, file, []byte("x"))
	loose := filepath.Join(w.dir, "loose.key")
	write(t, loose, bytes.Repeat([]byte{1}, 32))
	ok(t, os.Chmod(loose, 0o644))
	for _, tc := range []struct {
		word string
		args []string
	}{
		{"want GROUP", nil},
		{"want files", []string{"team"}},
		{"goes with --file-hash", []string{"team", "--reference", "QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o"}},
		{"without files", []string{"team", file, "--reference", "Qm", "--file-hash", "00"}},
		{"not a content id", []string{"team", "--reference", "Qm", "--file-hash", strings.Repeat("0", 64)}},
		{"64-char hex", []string{"team", "--reference", "QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o", "--file-hash",
			"00"}},
		{"--name is for one", []string{"team", file, file, "--name", "x"}},
		{"--cid-version is 0 or 1", []string{"team", file, "--cid-version", "2"}},
		{"--key-file goes with", []string{"team", file, "--key-file", loose}},
		{"chmod 600", []string{"team", file, "--ciphertext", "--key-file", loose}},
		{"no ciphertext", []string{"team", file, "--ciphertext"}},
		{"is not a file", []string{"team", w.dir}},
		{"no such file", []string{"team", file + ".none"}},
		{"Group not found", []string{"nobody", file}},
		{"not found", []string{"team", file, "--account", "nobody"}},
	} {
		if out, err := w.svcd(append([]string{"import-legacy"}, tc.args...)...); err == nil ||
			!strings.Contains(out, tc.word) {
			t.Errorf("%v: %v, want %q:\n%s", tc.args, err, tc.word, out)
		}
	}
}
