package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// crashFileVar and the points are those of the build tag faultpoints.
const crashFileVar = "SVCD_CRASH_FILE"

// crashing is a service built with crash points, and one account's calls to it.
type crashing struct {
	*world
	t     *testing.T
	armed string // file that names the point to die at
	token string
	alice *person
}

// TestCrashPoints kills the service between every two durable steps of every
// operation. After a restart the ledger is whole, every file can be served, the
// books are right, and the same call can be repeated.
func TestCrashPoints(t *testing.T) {
	proctest.Long(t)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-tags", "faultpoints", "-o", bin, "../cmd/svcd", "../cmd/svcvault")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	engines := map[string]func(*testing.T) []string{
		"SQLite and directory": func(*testing.T) []string { return nil },
		"PostgreSQL and S3": func(t *testing.T) []string {
			s3 := s3test.Start(t)
			return []string{"--db", pgtest.Start(t).NewDatabase(t), "--blobs", s3.Location(s3.NewBucket(t))}
		},
	}
	for name, stores := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := stores(t)
			c := newCrashing(t, bin, flags)
			c.walk(len(flags) == 0)
			c.walkParts()
		})
	}
}

func newCrashing(t *testing.T, bin string, stores []string) *crashing {
	t.Helper()
	c := &crashing{t: t}
	c.world = &world{t: t, bin: bin, dir: t.TempDir(), log: &safeBuffer{}, addr: "127.0.0.1:0", stores: stores}
	c.data = filepath.Join(c.dir, "data")
	c.armed = filepath.Join(c.data, "armed") // where a confined service reads
	c.vars = []string{crashFileVar + "=" + c.armed}
	c.mkdir("home")
	c.start()
	t.Cleanup(c.stop)
	c.alice = c.account("alice", "1000")
	c.account("bob", "0")
	c.login()
	return c
}

func (c *crashing) login() {
	c.t.Helper()
	status, out := c.send(http.MethodPost, wire.PathSessionToken, http.Header{wire.HeaderAPIKey: {c.alice.key}},
		[]byte(`{"account_id":"`+c.alice.id+`"}`))
	var answer wire.SessionTokenResult
	if err := json.Unmarshal(out, &answer); err != nil || status != http.StatusOK {
		c.t.Fatalf("login: %d %s", status, out)
	}
	c.token = answer.Token
}

// send makes a request; status 0 means that no answer came.
func (c *crashing) send(method, path string, header http.Header, body []byte) (int, []byte) {
	c.t.Helper()
	req, err := http.NewRequest(method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header, req.Close = header, true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(resp.Body); err != nil {
		return 0, nil
	}
	return resp.StatusCode, out.Bytes()
}

func (c *crashing) tool(op string, args map[string]any) (int, map[string]any) {
	c.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		c.t.Fatal(err)
	}
	status, body := c.send(http.MethodPost, wire.PathTools+op, c.bearer(), raw)
	var out map[string]any
	if status != 0 && json.Unmarshal(body, &out) != nil {
		c.t.Fatalf("%s: %d %s", op, status, body)
	}
	return status, out
}

func (c *crashing) bearer() http.Header {
	return http.Header{"Authorization": {"Bearer " + c.token}}
}

// step is one operation: do returns the status of the call; settled lists the
// statuses a repetition may have, also when the first attempt was committed.
type step struct {
	name    string
	do      func() (int, map[string]any)
	settled []int
	points  []string
}

var (
	commitPoints    = []string{"write.before_commit", "write.committed"}
	blobPoints      = []string{"blob.stored"}
	directoryPoints = []string{"blob.written", "blob.named"}
	deletePoints    = []string{"delete.blob_removed"}
	sealedPoints    = []string{"sealed.recorded"}
)

// walk makes every step once for each of its points.
func (c *crashing) walk(directory bool) {
	for round, point := range append(append([]string{}, commitPoints...),
		append(blobPoints, append(directoryPoints, append(deletePoints, sealedPoints...)...)...)...) {
		for _, s := range c.steps(fmt.Sprintf("group%d", round)) {
			if !directory && (point == "blob.written" || point == "blob.named") {
				continue
			}
			crash := slices.Contains(s.points, point)
			c.t.Run(s.name+" "+point, func(t *testing.T) { c.during(t, func() { c.crash(s, point, crash) }) })
		}
	}
	c.check()
}

// during lets failures belong to a subtest.
func (c *crashing) during(t *testing.T, f func()) {
	whole := c.t
	c.t, c.world.t = t, t
	defer func() { c.t, c.world.t = whole, whole }()
	f()
}

// crash arms the point, makes the call, restarts the service if it died, and
// repeats the call until it is settled.
func (c *crashing) crash(s step, point string, expected bool) {
	t := c.t
	if expected {
		ok(t, os.WriteFile(c.armed, []byte(point), 0o600))
		status, out := s.do()
		ok(t, os.Remove(c.armed))
		if status != 0 {
			t.Errorf("the service answers %d %v instead of dying at %s", status, out, point)
		} else {
			_ = c.service.Wait()
			c.start()
			c.check()
		}
	}
	status, out := s.do()
	if slices.Contains(s.settled, status) {
		return
	}
	t.Errorf("the repeated call: %d %v, want one of %v", status, out, s.settled)
}

// steps are the operations of one round, in a group of their own.
func (c *crashing) steps(group string) []step {
	content := bytes.Repeat([]byte("content of "+group), 2000) // too long to lie in the database
	small, large := c.sealed(group, "sealed small", content[:4096]),
		c.sealed(group, "sealed large", bytes.Repeat(content, 3))
	var upload, second map[string]any
	var ref string
	var seen float64 // sequence of the newest upload
	args := func(more ...any) map[string]any {
		m := map[string]any{"group_id": group}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	prepare := func(into *map[string]any, name string) func() (int, map[string]any) {
		return func() (int, map[string]any) {
			status, out := c.tool(wire.OpPrepareUpload, args("filename", name))
			*into, _ = out["result"].(map[string]any)
			return status, out
		}
	}
	finalize := func(up *map[string]any, blob []byte) (int, map[string]any) {
		request := map[string]any{"upload_id": (*up)["upload_id"], "file_hash": sdk.ComputeHash(content).String()}
		if blob != nil {
			request["encrypted_data"] = blob
		}
		status, out := c.tool(wire.OpFinalizeUpload, request)
		if result, ok := out["result"].(map[string]any); ok {
			ref, _ = result["location"].(string)
			seen, _ = result["seq"].(float64)
		}
		return status, out
	}
	return []step{
		{name: "register", points: commitPoints, settled: []int{200, 409},
			do: func() (int, map[string]any) { return c.tool(wire.OpRegisterGroup, args()) }},
		{name: "add", points: commitPoints, settled: []int{200, 409},
			do: func() (int, map[string]any) { return c.tool(wire.OpAddGroupMember, args("member_id", "bob")) }},
		{name: "prepare", points: commitPoints, settled: []int{200}, do: prepare(&upload, "dir/raw")},
		{name: "put", points: append(append([]string{}, commitPoints...), append(blobPoints, directoryPoints...)...),
			settled: []int{204},
			do: func() (int, map[string]any) {
				status, _ := c.send(http.MethodPut, upload["upload_url"].(string), c.bearer(), c.seal(upload, content))
				return status, nil
			}},
		{name: "finalize", points: commitPoints, settled: []int{200},
			do: func() (int, map[string]any) { return finalize(&upload, nil) }},
		{name: "prepare inline", settled: []int{200}, do: prepare(&second, "dir/inline")},
		{name: "finalize inline", points: append(append([]string{}, commitPoints...),
			append(blobPoints, directoryPoints...)...), settled: []int{200},
			do: func() (int, map[string]any) { return finalize(&second, c.seal(second, content)) }},
		{name: "retrieve", points: commitPoints, settled: []int{200},
			do: func() (int, map[string]any) {
				return c.tool(wire.OpPrepareRetrieve, args("ipfs_hash", ref, "claim_id", group))
			}},
		{name: "rename", points: commitPoints, settled: []int{200},
			do: func() (int, map[string]any) {
				return c.tool(wire.OpRenameFile, args("ipfs_hash", ref, "filename", "dir/other"))
			}},
		{name: "make folder", points: commitPoints, settled: []int{200},
			do: func() (int, map[string]any) { return c.tool(wire.OpMakeFolder, args("folder", "dir/empty")) }},
		// the audit finds a folder that was renamed in part
		{name: "rename folder", points: commitPoints, settled: []int{200},
			do: func() (int, map[string]any) {
				status, out := c.tool(wire.OpRenameFolder, args("folder", "dir", "new_folder", "moved", "seq", seen))
				if result, ok := out["result"].(map[string]any); ok && result["files"] != 3.0 {
					c.t.Errorf("renamed %v", result)
				}
				return status, out
			}},
		{name: "remove folder", points: commitPoints, settled: []int{200, 404},
			do: func() (int, map[string]any) { return c.tool(wire.OpRemoveFolder, args("folder", "moved/empty")) }},
		{name: "put sealed", points: append(append([]string{}, commitPoints...), sealedPoints...), settled: []int{200},
			do: small},
		{name: "put sealed large", points: append(append(append([]string{}, commitPoints...), sealedPoints...),
			append(blobPoints, directoryPoints...)...), settled: []int{200}, do: large},
		{name: "revoke", points: commitPoints, settled: []int{200, 409},
			do: func() (int, map[string]any) { return c.tool(wire.OpRevokeGroupMember, args("member_id", "bob")) }},
		{name: "delete", points: append(append([]string{}, commitPoints...), deletePoints...), settled: []int{200},
			do: func() (int, map[string]any) { return c.tool(wire.OpDeleteFile, args("ipfs_hash", ref)) }},
	}
}

// sealed returns what uploads a file in one request, the same one at every call. It fails
// when that made more than one record.
func (c *crashing) sealed(group, name string, content []byte) func() (int, map[string]any) {
	var id string
	var frame []byte
	return func() (int, map[string]any) {
		if frame == nil {
			id, frame = c.frame(group, name, content)
		}
		status, _ := c.send(http.MethodPut, wire.PathSealed+id, c.bearer(), frame)
		if status != http.StatusOK {
			return status, nil
		}
		_, out := c.tool(wire.OpGetGroupTransactions, map[string]any{"group_id": group})
		rows, _ := out["result"].([]any)
		found := 0
		for _, row := range rows {
			if row.(map[string]any)["filename"] == name {
				found++
			}
		}
		if found != 1 {
			c.t.Errorf("%d records of one upload", found)
		}
		return status, nil
	}
}

// frame seals a file for an upload in one request.
func (c *crashing) frame(group, name string, content []byte) (id string, frame []byte) {
	c.t.Helper()
	key, err := format.RandomKey()
	ok(c.t, err)
	blob, err := format.SealBlob(key, content)
	ok(c.t, err)
	id = randomID()
	return id, c.frameOf(id, group, key, format.NewMetadata(int64(len(content)), "", name), content, blob, "")
}

// randomID is an id of an upload or of a part.
func randomID() string {
	var id [wire.UploadIDBytes]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// frameOf is the frame of an upload of content, with its ciphertext, or the manifest of its blocks. from is the version
// of which it takes blocks over, or "".
func (c *crashing) frameOf(id, group string, key *format.Key, meta format.Metadata, content, body []byte,
	from string) []byte {
	c.t.Helper()
	var v wire.Capabilities
	_, raw := c.send(http.MethodGet, wire.PathCapabilities, http.Header{}, nil)
	ok(c.t, json.Unmarshal(raw, &v))
	public, err := base64.StdEncoding.DecodeString(v.Vault.PublicKey)
	ok(c.t, err)
	vault, err := format.NewVaultPublic(public)
	ok(c.t, err)
	facts, err := json.Marshal(meta)
	ok(c.t, err)
	said := wire.SealedHead{ID: id, Epoch: v.Vault.Epoch, GroupID: group, FileHash: sdk.ComputeHash(content).String(),
		Salt: sdk.ComputeHash([]byte(id)).String(), Format: facts,
		BlobSize: int64(len(body)), BlobHash: sdk.ComputeHash(body).String(), From: from}
	sealed, err := vault.SealKey(format.SealedFor{Service: v.ContractID, Account: c.alice.id, Upload: id,
		Epoch: v.Vault.Epoch}, said.Sum(), key)
	ok(c.t, err)
	said.SealedKey = base64.StdEncoding.EncodeToString(sealed)
	head, err := wire.AppendFrameHead(nil, &said)
	ok(c.t, err)
	return append(head, body...)
}

func (c *crashing) seal(upload map[string]any, content []byte) []byte {
	c.t.Helper()
	key, err := format.ParseKey(fmt.Sprint(upload["key"]))
	if err != nil {
		c.t.Fatal(err)
	}
	blob, err := format.SealBlob(key, content)
	if err != nil {
		c.t.Fatal(err)
	}
	return blob
}

// check is what must hold after every crash: the chain, the files, the money.
func (c *crashing) check() {
	c.t.Helper()
	if out, err := c.svcd("audit"); err != nil || !strings.Contains(out, "intact") {
		c.t.Errorf("audit: %v %s", err, out)
	}
	if out, err := c.svcd("verify", "--read-data"); err != nil {
		c.t.Errorf("verify: %v %s", err, out)
	}
	out, err := c.svcd("account", "list")
	if err != nil {
		c.t.Fatal(err, out)
	}
	balance, paid := wire.Amount{}, c.fees()
	for _, line := range strings.Split(out, "\n") {
		if columns := strings.Fields(line); len(columns) > 1 && columns[0] == c.alice.id {
			if balance, err = wire.ParseTokens(columns[1]); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	total, _ := balance.Add(paid)
	if total.Tokens() != "1000" {
		c.t.Errorf("balance %s and fees %s do not make 1000", balance.Tokens(), paid.Tokens())
	}
}

// fees adds up what the ledger says was charged.
func (c *crashing) fees() (sum wire.Amount) {
	c.t.Helper()
	status, out := c.tool(wire.OpGetOwnedGroups, nil)
	groups, ok := out["result"].([]any)
	if !ok {
		c.t.Fatal(status, out)
	}
	for _, group := range groups {
		var out map[string]any
		// The process that died had to give them.
		proctest.Eventually(c.t, "the newest records have their places", func() bool {
			status, answer := c.tool(wire.OpGetGroupTransactions,
				map[string]any{"group_id": group, "kinds": "all", "layouts": []string{chain.Layout}})
			out = answer
			return status != http.StatusServiceUnavailable
		})
		rows, ok := out["result"].([]any)
		if !ok {
			c.t.Fatalf("%v\n%s", out, c.log)
		}
		for _, row := range rows {
			fee, err := wire.ParseAmount(fmt.Sprint(row.(map[string]any)["fee"]))
			if err != nil {
				c.t.Fatal(err, row)
			}
			sum, _ = sum.Add(fee)
		}
	}
	return sum
}
