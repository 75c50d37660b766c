package service_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
)

// sealedItem is an upload in one request, as an account would keep it.
type sealedItem struct {
	wire.SealedHead
	blob []byte
	key  *format.Key
}

// based makes an upload demand a version of its name.
func (u *user) based(i *sealedItem, base string) *sealedItem {
	u.t.Helper()
	i.Base = base
	u.sealsKey(i, i.key, u.id)
	return i
}

// vaultKey is the key that the service publishes.
func (r *running) vaultKey() *wire.VaultKey {
	r.t.Helper()
	var out wire.Capabilities
	_, body := r.get(wire.PathCapabilities)
	if err := json.Unmarshal([]byte(body), &out); err != nil || out.Vault == nil {
		r.t.Fatalf("capabilities: %+v, %v", out, err)
	}
	return &out.Vault.VaultKey
}

// seals makes an item for a group.
func (u *user) seals(group, name string, content []byte) *sealedItem {
	u.t.Helper()
	return u.sealsFor(u.vaultKey(), group, name, content)
}

func (u *user) sealsFor(v *wire.VaultKey, group, name string, content []byte) *sealedItem {
	u.t.Helper()
	key, err := format.RandomKey()
	if err != nil {
		u.t.Fatal(err)
	}
	blob, err := format.SealBlob(key, content)
	if err != nil {
		u.t.Fatal(err)
	}
	meta, err := json.Marshal(format.NewMetadata(int64(len(content)), "", name))
	if err != nil {
		u.t.Fatal(err)
	}
	id := make([]byte, wire.UploadIDBytes)
	_, _ = rand.Read(id)
	binary.BigEndian.PutUint64(id, uint64(time.Now().UnixNano())) // neighbours in the index, as those of clients
	i := &sealedItem{blob: blob, key: key,
		SealedHead: wire.SealedHead{ID: hex.EncodeToString(id), GroupID: group, FileHash: hash(content), Salt: hash(id),
			Format: meta, BlobSize: int64(len(blob)), BlobHash: hash(blob), Versioned: true}}
	u.sealsKeyFor(v, i, key, u.id)
	return i
}

// sealsKey seals the key of an item for an account and the newest epoch.
func (u *user) sealsKey(i *sealedItem, key *format.Key, account string) {
	u.t.Helper()
	u.sealsKeyFor(u.vaultKey(), i, key, account)
}

func (u *user) sealsKeyFor(v *wire.VaultKey, i *sealedItem, key *format.Key, account string) {
	u.t.Helper()
	public, err := base64.StdEncoding.DecodeString(v.PublicKey)
	if err != nil {
		u.t.Fatal(err)
	}
	vault, err := format.NewVaultPublic(public)
	if err != nil {
		u.t.Fatal(err)
	}
	sealed, err := vault.SealKey(format.SealedFor{Service: "svc.testnet", Account: account, Upload: i.ID,
		Epoch: v.Epoch}, i.Sum(), key)
	if err != nil {
		u.t.Fatal(err)
	}
	i.Epoch, i.SealedKey = v.Epoch, base64.StdEncoding.EncodeToString(sealed)
}

// frame is the item as it travels.
func (i *sealedItem) frame() []byte {
	head, _ := json.Marshal(i.SealedHead)
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...), i.blob...)
}

// puts sends an item in a request of its own.
func (u *user) puts(i *sealedItem) (status int, body string) {
	u.t.Helper()
	return u.putsFrame(i.ID, i.frame())
}

func (u *user) putsFrame(id string, frame []byte) (status int, body string) {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), http.MethodPut, u.url+wire.PathSealed+id,
		bytes.NewReader(frame))
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header = u.header()
	status, raw := u.do(req)
	return status, string(raw)
}

// mustPut sends an item that is recorded.
func (u *user) mustPut(i *sealedItem) wire.FinalizeUploadResult {
	u.t.Helper()
	status, body := u.puts(i)
	var out struct{ Result wire.FinalizeUploadResult }
	if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil {
		u.t.Fatalf("put: %d %s", status, body)
	}
	return out.Result
}

// refuses demands that an answer is a refusal with a code.
func refuses(t testing.TB, what string, status int, body, code string) {
	t.Helper()
	if status < 400 || !strings.Contains(body, `"code":"`+code+`"`) {
		t.Errorf("%s: %d %.300s, want %s", what, status, body, code)
	}
}

// The key of the vault is signed by the key of the log, with a text of its own.
func TestVaultKeyIsSigned(t *testing.T) {
	t.Parallel()
	r := run(t)
	v := r.vaultKey()
	public, err1 := base64.StdEncoding.DecodeString(v.PublicKey)
	signature, err2 := base64.StdEncoding.DecodeString(v.Signature)
	verifier, err3 := note.NewVerifier(strings.TrimSpace(r.logKey()))
	if err1 != nil || err2 != nil || err3 != nil || v.Epoch != 1 || v.KEM != format.SealedKeyKEM {
		t.Fatal(v, err1, err2, err3)
	}
	parts := strings.SplitN(strings.TrimSpace(r.logKey()), "+", 3)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil {
		t.Fatal(err)
	}
	text := chain.VaultKey{Origin: verifier.Name(), Epoch: v.Epoch, KEM: v.KEM, Public: public,
		NotAfter: v.NotAfter}.Text()
	if !ed25519.Verify(raw[1:], text, signature) {
		t.Errorf("the signature of %q is wrong", text)
	}
}

// An upload in one request is a file as any other, and costs the same.
func TestSealedUpload(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	for _, size := range []int{0, 100, 4096, 16 << 10, 100 << 10, 1 << 20} {
		content := bytes.Repeat([]byte{7}, size)
		before := alice.balance()
		item := alice.seals("g", "f", content)
		out := alice.mustPut(item)
		if out.FileHash != hash(content) || out.Receipt == nil || out.Record == nil || out.Record.Detail != "f" {
			t.Errorf("%d bytes: %+v", size, out)
		}
		if out.Fee == "" || alice.balance() == before {
			t.Errorf("%d bytes: fee %q, balance %s", size, out.Fee, before)
		}
		if got, _ := alice.retrieve("g", out.CID); !bytes.Equal(got, content) {
			t.Errorf("%d bytes: read %d others", size, len(got))
		}
	}
	if n, err := alice.svc.Verify(t.Context(), true,
		func(ref string, err error) { t.Errorf("%s: %v", ref, err) }); err != nil || n != 6 {
		t.Errorf("verify: %d, %v", n, err)
	}
	if _, err := alice.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Threat 56: an upload in one request is good once, for the account, id, epoch and content
// that its key was sealed for; whatever is refused costs nothing.
func TestThreat56StolenUploads(t *testing.T) {
	t.Parallel()
	_, alice, bob := runWithMember(t)
	stranger := alice.running.user("carol", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "other"})
	content := []byte("alice's own")
	item := func(change func(i *sealedItem)) *sealedItem {
		i := alice.seals("g", "f", content)
		change(i)
		return i
	}
	sum := func(i *sealedItem) { i.BlobHash, i.BlobSize = hash(i.blob), int64(len(i.blob)) }
	before, beforeBob := alice.balance(), bob.balance()
	for what, c := range map[string]struct {
		by   *user
		item *sealedItem
		code string
	}{
		"of another member": {bob, item(func(*sealedItem) {}), wire.CodeValidation},
		"of a stranger":     {stranger, item(func(*sealedItem) {}), wire.CodeValidation},
		"under another id": {alice,
			item(func(i *sealedItem) { i.ID = strings.Repeat("ab", wire.UploadIDBytes) }), wire.CodeValidation},
		"another ciphertext": {alice, item(func(i *sealedItem) { i.blob[20] ^= 1 }), wire.CodeValidation},
		"another ciphertext, hashed": {alice, item(func(i *sealedItem) { i.blob[20] ^= 1; sum(i) }),
			wire.CodeValidation},
		"a changed sealed key": {alice, item(func(i *sealedItem) { i.SealedKey = "AAAA" + i.SealedKey[4:] }),
			wire.CodeValidation},
		"an epoch to come": {alice, item(func(i *sealedItem) { i.Epoch++ }), wire.CodeEpoch},
		"epoch 0":          {alice, item(func(i *sealedItem) { i.Epoch = 0 }), wire.CodeEpoch},
		"a short id":       {alice, item(func(i *sealedItem) { i.ID = "ab" }), wire.CodeValidation},
		"an id in capitals": {alice, item(func(i *sealedItem) { i.ID = strings.ToUpper(i.ID[:31]) + "A" }),
			wire.CodeValidation},
		"too short": {alice, item(func(i *sealedItem) { i.blob = i.blob[:10]; sum(i) }),
			wire.CodeValidation},
		"no file hash": {alice, item(func(i *sealedItem) { i.FileHash = "" }), wire.CodeValidation},
		"no name": {alice, item(func(i *sealedItem) { i.Format = json.RawMessage(`{"version":1}`) }),
			wire.CodeValidation},
		"format version 2": {alice, item(func(i *sealedItem) {
			i.Format = json.RawMessage(`{"version":2,"filename":"f"}`)
		}), wire.CodeValidation},
		"of a group of others": {stranger, stranger.seals("g", "f", content), wire.CodeNotAuthorized},
		"no group":             {alice, alice.seals("nowhere", "f", content), wire.CodeGroupNotFound},
		"another group":        {alice, item(func(i *sealedItem) { i.GroupID = "nowhere" }), wire.CodeValidation},
		"another name": {alice, item(func(i *sealedItem) {
			i.Format = bytes.Replace(i.Format, []byte(`"f"`), []byte(`"g"`), 1)
		}), wire.CodeValidation},
		"another file hash": {alice, item(func(i *sealedItem) { i.FileHash = hash([]byte("another")) }),
			wire.CodeValidation},
		"another salt": {alice, item(func(i *sealedItem) { i.Salt = hash([]byte("another")) }),
			wire.CodeValidation},
		"another base":     {alice, item(func(i *sealedItem) { i.Base = "bafyother" }), wire.CodeValidation},
		"another upon":     {alice, item(func(i *sealedItem) { i.Upon = wire.NoBase }), wire.CodeValidation},
		"without versions": {alice, item(func(i *sealedItem) { i.Versioned = false }), wire.CodeValidation},
		"larger than allowed": {alice,
			item(func(i *sealedItem) { i.blob = make([]byte, wire.WholeFileBytes+100); sum(i) }), wire.CodeTooLarge},
	} {
		status, body := c.by.puts(c.item)
		refuses(t, what, status, body, c.code)
	}
	honest := alice.seals("g", "f", content)
	frame := honest.frame()
	huge := binary.BigEndian.AppendUint32(nil, wire.MaxSealedHead+1)
	for what, c := range map[string]struct {
		id    string
		frame []byte
		code  string
	}{
		"an oversized head":   {honest.ID, append(huge, frame[4:]...), wire.CodeTooLarge},
		"a cut head":          {honest.ID, frame[:100], wire.CodeValidation},
		"a cut frame":         {honest.ID, frame[:len(frame)-1], wire.CodeValidation},
		"something after it":  {honest.ID, append(bytes.Clone(frame), 0), wire.CodeValidation},
		"an empty frame":      {honest.ID, nil, wire.CodeValidation},
		"another address":     {strings.Repeat("cd", wire.UploadIDBytes), frame, wire.CodeValidation},
		"a head without JSON": {honest.ID, append([]byte{0, 0, 0, 2, '{', '{'}, honest.blob...), wire.CodeInvalidJSON},
		"a deep head": {honest.ID,
			append(binary.BigEndian.AppendUint32(nil, 200), bytes.Repeat([]byte("["), 200)...), wire.CodeInvalidJSON},
	} {
		status, body := alice.putsFrame(c.id, c.frame)
		refuses(t, what, status, body, c.code)
	}
	if alice.balance() != before || bob.balance() != beforeBob || len(alice.rows("g")) != 0 {
		t.Errorf("refusals cost: %s of %s, %s of %s, %d files", alice.balance(), before, bob.balance(), beforeBob,
			len(alice.rows("g")))
	}
}

// Threat 56: who knows the id of an upload that another account has not sent yet, such as from a copy
// of its disk, cannot spend it: the upload is recorded, and its key is given back until then.
func TestThreat56IdsOfOthers(t *testing.T) {
	t.Parallel()
	_, alice, bob := runWithMember(t)
	waits := alice.seals("g", "f", []byte("waits"))
	theirs := bob.seals("g", "theirs", []byte("first"))
	theirs.ID = waits.ID
	key, err := format.RandomKey()
	ok(t, err)
	theirs.blob, err = format.SealBlob(key, []byte("first"))
	ok(t, err)
	theirs.BlobSize, theirs.BlobHash = int64(len(theirs.blob)), hash(theirs.blob)
	bob.sealsKey(theirs, key, bob.id)
	first := bob.mustPut(theirs)
	second := alice.mustPut(waits)
	if again := bob.mustPut(theirs); again.Seq != first.Seq || alice.mustPut(waits).Seq != second.Seq ||
		first.Seq == second.Seq {
		t.Errorf("records %d and %d, again %d", first.Seq, second.Seq, again.Seq)
	}
}

// Threat 57: an id stays spent. The same upload again gives the first answer without a
// charge, also after the file was deleted; any other use of the id is refused.
func TestThreat57IdsStaySpent(t *testing.T) {
	t.Parallel()
	_, alice, bob := runWithMember(t)
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "other"})
	item := alice.seals("g", "f", []byte("once"))
	first := alice.mustPut(item)
	paid := alice.balance()
	same := func(when string) {
		t.Helper()
		again := alice.mustPut(item)
		if !again.Repeated {
			t.Errorf("%s: the answer does not say that it is that of an earlier upload", when)
		}
		again.Repeated, again.Receipt, first.Receipt = false, nil, nil // signed anew
		if !reflect.DeepEqual(again, first) {
			t.Errorf("%s: %+v, first %+v", when, again, first)
		}
		if alice.balance() != paid || len(alice.rows("g")) != 1 {
			t.Errorf("%s: %s left of %s, %d files", when, alice.balance(), paid, len(alice.rows("g")))
		}
	}
	same("at once")
	reused := alice.seals("g", "f", []byte("twice"))
	reused.ID = item.ID
	key, err := format.RandomKey()
	ok(t, err)
	alice.sealsKey(reused, key, alice.id)
	elsewhere, renamed := *item, *item
	elsewhere.GroupID = "other"
	renamed.Format = json.RawMessage(strings.ReplaceAll(string(item.Format), `"f"`, `"another"`))
	for what, i := range map[string]*sealedItem{"another content": reused, "another group": &elsewhere,
		"another name": &renamed} {
		status, body := alice.puts(i)
		refuses(t, what, status, body, wire.CodeSpent)
	}
	status, body := bob.puts(item)
	refuses(t, "another account", status, body, wire.CodeValidation)
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": first.CID})
	same("after the file was deleted")
	if got, problem := alice.retrieve("g", first.CID); got != nil {
		t.Errorf("a deleted file came back: %q %s", got, problem)
	}
	beside := make(chan string, 8)
	concurrent := alice.seals("g", "many at once", []byte("concurrent"))
	for range cap(beside) {
		go func() { _, body := alice.puts(concurrent); beside <- body }()
	}
	seqs := map[int64]bool{}
	for range cap(beside) {
		var out struct{ Result wire.FinalizeUploadResult }
		if err := json.Unmarshal([]byte(<-beside), &out); err != nil || out.Result.Seq == 0 {
			t.Error("a concurrent repetition was refused:", err, out)
		}
		seqs[out.Result.Seq] = true
	}
	if len(seqs) != 1 {
		t.Errorf("one upload made the records %v", seqs)
	}
	if _, err := alice.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Threat 58: a sealed key is opened for 90 days after its epoch ended, and its epoch's key
// is destroyed then.
func TestThreat58EpochsEnd(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	r := runWith(t, service.Config{Database: newDatabase(t),
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	alice := r.owner()
	first, second := alice.seals("g", "1", []byte("1")), alice.seals("g", "2", []byte("2"))
	promised := r.vaultKey().NotAfter
	ok(t, r.svc.RotateUploadKey(t.Context()))
	if v := r.vaultKey(); v.Epoch != 2 {
		t.Fatalf("epoch %d after a rotation", v.Epoch)
	}
	alice.mustPut(alice.seals("g", "new", []byte("new")))
	later.Store(int64(time.Until(time.Unix(promised, 0))))
	ok(t, r.svc.Sweep(t.Context()))
	alice.login()
	alice.mustPut(first)
	later.Add(int64(25 * time.Hour))
	alice.login()
	status, body := alice.puts(second)
	refuses(t, "before the sweep", status, body, wire.CodeEpoch)
	ok(t, r.svc.Sweep(t.Context()))
	status, body = alice.puts(second)
	refuses(t, "after the sweep", status, body, wire.CodeEpoch)
	var epochs int
	ok(t, r.openDatabase().QueryRow("SELECT count(*) FROM service_keys WHERE purpose = 'uploads'").Scan(&epochs))
	if epochs != 1 {
		t.Errorf("%d keys of epochs are kept", epochs)
	}
	alice.mustPut(alice.seals("g", "newer", []byte("newer")))
}

// An upload that names the version it follows is recorded only after that one.
func TestSealedBase(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	based := func(name, base string) *sealedItem {
		return alice.based(alice.seals("g", name, []byte(name+base)), base)
	}
	stale := func(what, name, base string) {
		t.Helper()
		status, body := alice.puts(based(name, base))
		refuses(t, what, status, body, wire.CodeHead)
	}
	first := alice.mustPut(based("f", wire.NoBase)).CID
	stale("a name that is there", "f", wire.NoBase)
	second := alice.mustPut(based("f", first)).CID
	paid := alice.balance()
	stale("the version before", "f", first)
	if alice.balance() != paid {
		t.Error("a refusal was charged")
	}
	other := alice.upload("g", "other", []byte("x")).CID
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": other, "filename": "f"})
	stale("an earlier file", "f", second)
	must[string](alice, wire.OpSetAttributes,
		object{"group_id": "g", "ipfs_hash": second, "attributes": rawJSON(`{"xattrs":{"user.a":""}}`)})
	third := alice.mustPut(based("f", other)).CID
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": third})
	fourth := alice.mustPut(based("f", other)).CID
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": fourth, "filename": "h"})
	stale("a name whose newest version went", "f", fourth)
	alice.mustPut(based("h", fourth))
	alice.mustPut(alice.seals("g", "f", []byte("without a base")))
}

// An upload may say which version its content was made from, of any name of its group: the record has it as a tag, the
// audit proves it, and a version of no file there is refused.
func TestSealedUpon(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "other"})
	from := func(name, upon string) *sealedItem {
		i := alice.seals("g", name, []byte(name+upon))
		i.Upon = upon
		alice.sealsKey(i, i.key, alice.id)
		return i
	}
	first, elsewhere := alice.mustPut(alice.seals("g", "f", []byte("1"))).CID, alice.upload("other", "f", []byte("x")).CID
	gone := alice.mustPut(alice.seals("g", "f", []byte("2"))).CID
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": gone})
	for name, upon := range map[string]string{"beside": first, "of one that is deleted": gone, "of none": wire.NoBase,
		"f": first, "not said": ""} {
		out := alice.mustPut(from(name, upon))
		if at := slices.Index(out.Record.Tags, chain.TagUpon); (at < 0) != (upon == "") ||
			at >= 0 && out.Record.Tags[at+1] != upon {
			t.Errorf("%s: tags %q, want %q", name, out.Record.Tags, upon)
		}
	}
	prepared := func(name, upon string) (status int, body string) {
		req := alice.finalize("g", name, []byte(name+upon))
		req.Upon = upon
		return alice.tool(wire.OpFinalizeUpload, req)
	}
	for _, upon := range []string{first, gone, wire.NoBase, ""} {
		status, body := prepared("prepared", upon)
		if status != http.StatusOK || strings.Contains(body, `"`+chain.TagUpon+`","`+upon+`"`) != (upon != "") {
			t.Errorf("prepared, upon %q: %d %s", upon, status, body)
		}
	}
	paid := alice.balance()
	for what, tc := range map[string]struct{ upon, code string }{
		"of another group": {elsewhere, wire.CodeFileNotFound}, "of no file": {"bafynothing", wire.CodeFileNotFound},
		"with NUL": {"a\x00", wire.CodeValidation},
	} {
		status, body := alice.puts(from("refused", tc.upon))
		refuses(t, what, status, body, tc.code)
		status, body = prepared("refused", tc.upon)
		refuses(t, what+", prepared", status, body, tc.code)
	}
	if alice.balance() != paid {
		t.Error("a refusal was charged")
	}
	if _, err := alice.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// batches sends frames in one request.
func (u *user) batches(frames ...[]byte) (status int, body string, answers []wire.SealedAnswer) {
	u.t.Helper()
	status, raw := u.post(wire.PathTools+wire.OpFinalizeUploads, u.header(), bytes.Join(frames, nil))
	var out struct{ Result wire.FinalizeUploadsResult }
	_ = json.Unmarshal(raw, &out)
	return status, string(raw), out.Result.Uploads
}

// Many uploads in one request are recorded in their order, next to one another. Each has its
// own answer, and one that is refused does not stop those after it.
func TestFinalizeUploads(t *testing.T) {
	t.Parallel()
	_, alice, bob := runWithMember(t)
	items := make([]*sealedItem, wire.MaxSealedBatch)
	frames := make([][]byte, len(items))
	for i := range items {
		items[i] = alice.seals("g", fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 1000*i)) // small ones, and larger ones
	}
	items[3] = alice.seals("nowhere", "3", nil)
	items[9].Epoch = 7
	alice.based(items[20], "another version")
	items[30].BlobHash = strings.Repeat("0", 64)
	items[40] = bob.seals("g", "40", []byte("of bob"))
	items[41] = items[39]
	items[50].GroupID = "a\x00b" // no database has such texts
	items[51].Format = json.RawMessage("{\"version\":1,\"filename\":\"x\",\"more\":\"\xff\"}")
	want := map[int]string{50: wire.CodeValidation, 51: wire.CodeValidation, 3: wire.CodeGroupNotFound,
		9: wire.CodeEpoch, 20: wire.CodeHead, 30: wire.CodeValidation, 40: wire.CodeValidation}
	for i := range items {
		frames[i] = items[i].frame()
	}
	status, body, first := alice.batches(frames...)
	if status != http.StatusOK || len(first) != len(items) {
		t.Fatalf("%d answers: %d %.300s", len(first), status, body)
	}
	paid, seq := alice.balance(), int64(0)
	for i, a := range first {
		switch {
		case a.ID != items[i].ID:
			t.Errorf("answer %d is of %s", i, a.ID)
		case want[i] != "":
			if a.Result != nil || a.Error == nil || a.Error.Code != want[i] || a.Status < 400 {
				t.Errorf("frame %d: %+v, want %s", i, a, want[i])
			}
		case a.Result == nil || a.Error != nil:
			t.Errorf("frame %d: %+v", i, a.Error)
		case i == 41:
			if a.Result.Seq != first[39].Result.Seq {
				t.Errorf("one upload twice in a request made the records %d and %d", first[39].Result.Seq, a.Result.Seq)
			}
		case seq > 0 && a.Result.Seq != seq+1:
			t.Errorf("frame %d has the sequence %d after %d", i, a.Result.Seq, seq)
		default:
			seq = a.Result.Seq
		}
	}
	for _, i := range []int{0, 1, 16, 17, 60} {
		if got, problem := alice.retrieve("g", first[i].Result.CID); len(got) != 1000*i {
			t.Errorf("frame %d: %d bytes, %s", i, len(got), problem)
		}
	}
	read := alice.balance()
	_, _, again := alice.batches(frames...)
	for i := range again {
		if want[i] == "" && (again[i].Result == nil || again[i].Result.Seq != first[i].Result.Seq) || want[i] != "" &&
			again[i].Error == nil {
			t.Errorf("the same request again: frame %d: %+v", i, again[i])
		}
	}
	if alice.balance() != read || paid == read {
		t.Errorf("a repetition cost: %s of %s", alice.balance(), read)
	}
	if n, err := alice.svc.Verify(t.Context(), true,
		func(ref string, err error) { t.Errorf("%s: %v", ref, err) }); err != nil || n != len(items)-len(want)-1 {
		t.Errorf("verify: %d, %v", n, err)
	}
}

// Threat 31: what a request with many uploads takes is bounded, and refused before a byte of
// it is recorded.
func TestThreat31ManyUploadsInOneRequest(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	before := alice.balance()
	one := alice.seals("g", "f", []byte("x")).frame()
	many := make([][]byte, wire.MaxSealedBatch+1)
	for i := range many {
		many[i] = alice.seals("g", "f", []byte("x")).frame()
	}
	large := alice.seals("g", "f", make([]byte, wire.SealedBatchBlob))
	for what, c := range map[string]struct {
		frames [][]byte
		code   string
	}{
		"one frame too many":   {many, wire.CodeTooLarge},
		"no frame":             {nil, wire.CodeValidation},
		"a cut frame":          {[][]byte{one, one[:len(one)-1]}, wire.CodeValidation},
		"a cut head":           {[][]byte{one, one[:10]}, wire.CodeValidation},
		"an oversized head":    {[][]byte{one, {255, 0, 0, 0}}, wire.CodeTooLarge},
		"an oversized request": {[][]byte{one, make([]byte, wire.MaxSealedBatchBytes)}, wire.CodeTooLarge},
	} {
		status, body, _ := alice.batches(c.frames...)
		refuses(t, what, status, body, c.code)
	}
	if _, _, answers := alice.batches(large.frame()); len(answers) != 1 || answers[0].Error == nil ||
		answers[0].Error.Code != wire.CodeTooLarge {
		t.Errorf("a large file among many: %+v", answers)
	}
	if alice.balance() != before || len(alice.rows("g")) != 0 {
		t.Errorf("%s of %s, %d files", alice.balance(), before, len(alice.rows("g")))
	}
}

// Threat 31: a head takes no memory before the request is known to be long enough for it.
func TestThreat31HeadsThatDoNotCome(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	for what, c := range map[string]struct {
		length int64
		begin  []byte
	}{
		"a head longer than the request": {1000, []byte{0, 0, 0x80, 0}},
		"an unknown length":              {-1, nil},
	} {
		body := &lengthOfReads{r: bytes.NewReader(c.begin)}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPut,
			wire.PathSealed+strings.Repeat("0", 2*wire.UploadIDBytes), body)
		req.ContentLength, req.Header = c.length, alice.header()
		w := httptest.NewRecorder()
		r.svc.Handler().ServeHTTP(w, req)
		refuses(t, what, w.Code, w.Body.String(), wire.CodeValidation)
		if body.longest > 4 {
			t.Errorf("%s: %d bytes of memory for it", what, body.longest)
		}
	}
}

// lengthOfReads notes the longest buffer that was read into.
type lengthOfReads struct {
	r       io.Reader
	longest int
}

func (l *lengthOfReads) Read(p []byte) (int, error) {
	l.longest = max(l.longest, len(p))
	return l.r.Read(p)
}

// Threat 82: in a group whose keys are given sealed alone, no program that gets keys in the clear reads or saves a
// file, nor one that was saved then, once keys are given as before; and it is charged nothing.
func TestThreat82GroupWithSealedKeys(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.owner()
	before := alice.upload("g", "before.txt", []byte("content")).CID
	prepared := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "keys": wire.KeysSealed})
	since := alice.mustPut(alice.seals("g", "since.txt", []byte("x"))).CID
	alice.mustPut(alice.seals("g", "larger.txt", noise(200<<10)))
	alice.uploadBlocks("blocks", noise(900<<10), 1)
	refused := func(what, op string, request object) {
		t.Helper()
		balance := alice.balance()
		status, body := alice.tool(op, request)
		if status != http.StatusForbidden || !strings.Contains(body, wire.CodeSealedOnly) {
			t.Errorf("%s: %d %s", what, status, body)
		}
		if now := alice.balance(); now != balance {
			t.Errorf("%s: the balance was %s and is %s", what, balance, now)
		}
	}
	refused("read", wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": before})
	refused("save", wire.OpPrepareUpload, object{"group_id": "g"})
	refused("save what was prepared", wire.OpFinalizeUpload, object{"upload_id": prepared.UploadID,
		"file_hash": hash([]byte("x")), "encrypted_data": seal(t, prepared.Key, []byte("x"))})
	got := must[wire.GroupSettings](alice, wire.OpGetGroupSettings, object{"group_id": "g"})
	if got.Keys != wire.KeysSealed {
		t.Errorf("%+v", got)
	}
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "keys": wire.KeysAny})
	must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": before})
	refused("read what was saved then", wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": since})
	if status, body := alice.tool(wire.OpSetGroupSettings, object{"group_id": "g", "keys": "some"}); status != 400 {
		t.Errorf("%d %s", status, body)
	}
	r.audits()
}
