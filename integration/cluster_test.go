package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// cluster is several processes of svcd over one PostgreSQL and one bucket,
// behind a reverse proxy that goes on to the next process when one is gone.
type cluster struct {
	*world
	t         *testing.T
	postgres  *pgtest.Server
	s3        *s3test.Server
	database  string
	blobs     string
	processes []*member
	next      atomic.Int64
	flags     []string // of svcd serve
}

// member is one process with a data directory of its own; they share only the
// master key.
type member struct {
	url  string
	data string
	cmd  *exec.Cmd
	log  *safeBuffer
}

func newCluster(t *testing.T, processes int) *cluster {
	t.Helper()
	postgres := pgtest.Start(t)
	return newClusterAt(t, processes, postgres, postgres.NewDatabase(t))
}

// newClusterAt is [newCluster] at an address of a database.
func newClusterAt(t *testing.T, processes int, postgres *pgtest.Server, database string) *cluster {
	t.Helper()
	bin := programs.Dir(t, "svcfs", "svcd")
	c := &cluster{t: t, postgres: postgres, s3: s3test.Start(t), database: database}
	c.world = &world{t: t, bin: bin, dir: t.TempDir(), log: &safeBuffer{}}
	c.mkdir("home")
	c.blobs = c.s3.Location(c.s3.NewBucket(t))
	proxy := &http.Server{Handler: http.HandlerFunc(c.forward), ReadHeaderTimeout: 10 * time.Second}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.url = "http://" + l.Addr().String()
	go func() { _ = proxy.Serve(l) }()
	t.Cleanup(func() { _ = proxy.Close() })
	for i := range processes {
		m := &member{url: "http://" + freeAddress(t), data: c.mkdir(fmt.Sprintf("data%d", i)), log: &safeBuffer{}}
		if i > 0 {
			key, err := os.ReadFile(filepath.Join(c.processes[0].data, "master.key"))
			if err != nil {
				t.Fatal(err)
			}
			ok(t, os.WriteFile(filepath.Join(m.data, "master.key"), key, 0o600))
		}
		c.processes = append(c.processes, m)
		c.start(m)
		t.Cleanup(func() { c.stop(m) })
	}
	c.data = c.processes[0].data
	return c
}

func (c *cluster) command(m *member, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, "svcd"),
		append(args, "--data", m.data, "--blobs", c.blobs)...)
	cmd.Env = append(c.env("SVCD_DB="+c.database), s3test.Env()...)
	return cmd
}

// start runs a process, on the same address after a stop.
func (c *cluster) start(m *member) {
	c.t.Helper()
	m.cmd = c.command(m, append([]string{"serve", "--destruction-delay", "0", "--listen",
		strings.TrimPrefix(m.url, "http://"), "--public-url", c.url, "--log-level", "info"}, c.flags...)...)
	m.cmd.Stderr = m.log
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	ok(c.t, m.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "listening on ") {
		c.t.Fatalf("svcd said %q, %v\n%s", line, err, m.log)
	}
}

// freeAddress is an address of 127.0.0.1 that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (c *cluster) stop(m *member) {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	if err := m.cmd.Wait(); err != nil {
		c.t.Errorf("svcd: %v\n%s", err, m.log)
	}
	m.cmd = nil
}

func (c *cluster) kill(m *member) {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.cmd = nil
}

// forward hands a request to the processes in turn, and to the next one when a
// connection is refused: nothing was sent then.
func (c *cluster) forward(w http.ResponseWriter, r *http.Request) {
	m := c.processes[int(c.next.Add(1))%len(c.processes)]
	target, err := url.Parse(m.url)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, syscall.ECONNREFUSED) {
			c.forward(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}
	proxy.ServeHTTP(w, r)
}

func (c *cluster) operator(args ...string) string {
	c.t.Helper()
	out, err := c.command(c.processes[0], args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("svcd %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (c *cluster) account(name, tokens string) *person {
	c.t.Helper()
	return c.person(name, c.operator("account", "create", name, "--balance", tokens))
}

// on is the client of an account at one process.
func (c *cluster) on(p *person, process int) *sdk.Client {
	c.t.Helper()
	client, err := sdk.New(sdk.AccountID(p.id),
		sdk.Config{APIKey: sdk.NewSecret(p.key), URL: c.processes[process].url, Network: sdk.Testnet,
			ContractID: "svc.testnet", Timeout: proctest.Hang})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// bearer calls an operation of one process with a session token.
type bearer struct {
	c          *cluster
	id, token_ string
}

func (c *cluster) login(p *person, process int) bearer {
	c.t.Helper()
	b := bearer{c: c, id: p.id}
	status, body := b.send(process, http.MethodPost, "/api/auth/session-token", http.Header{"X-Api-Key": {p.key}},
		[]byte(`{"account_id":"`+p.id+`"}`))
	var out struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(body, &out); err != nil || status != http.StatusOK {
		c.t.Fatalf("login: %d %s", status, body)
	}
	b.token_ = out.Token
	return b
}

func (b bearer) send(process int, method, path string, header http.Header, body []byte) (int, []byte) {
	req, err := http.NewRequest(method, b.c.processes[process].url+path, bytes.NewReader(body))
	if err != nil {
		b.c.t.Error(err)
		return 0, nil
	}
	if header == nil {
		header = http.Header{"Authorization": {"Bearer " + b.token_}, "X-Account-Id": {b.id}}
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return resp.StatusCode, out
}

func (b bearer) tool(process int, op string, args map[string]any) (int, map[string]any) {
	raw, err := json.Marshal(args)
	if err != nil {
		b.c.t.Error(err)
		return 0, nil
	}
	status, body := b.send(process, http.MethodPost, "/tools/"+op, nil, raw)
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		out = map[string]any{"error": string(body)}
	}
	return status, out
}

func TestThreeProcessesAreOneService(t *testing.T) {
	c := newCluster(t, 3)
	alice, bob := c.account("alice", "100"), c.account("bob", "100")
	first := c.on(alice, 0)
	if _, err := first.Group("team").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.on(alice, 1).Group("team").Add(t.Context(), sdk.AccountID(bob.id)); err != nil {
		t.Fatal(err)
	}
	t.Run("an upload begun on one, sent to the second, finished on the third",
		func(t *testing.T) { testUploadAcross(t, c, alice, bob) })
	t.Run("through the proxy with the command line", func(t *testing.T) { testThroughProxy(t, c, alice, bob) })
	t.Run("revocation holds everywhere when it returned", func(t *testing.T) { testRevokeAcross(t, c, alice) })
	t.Run("a rotated API key is dead everywhere", func(t *testing.T) { testRotateAcross(t, c) })
	t.Run("money for ten uploads pays ten", func(t *testing.T) { testMoneyAcross(t, c) })
	t.Run("one is killed under load", func(t *testing.T) { testKillUnderLoad(t, c, alice, bob) })
	t.Run("threat 39: database and bucket gone", func(t *testing.T) { testStoresGone(t, c, alice) })
	if out := c.operator("audit"); !strings.Contains(out, "intact") {
		t.Error(out)
	}
	if out := c.operator("verify", "--read-data"); !strings.Contains(out, " 0 bad") {
		t.Error(out)
	}
}

func testUploadAcross(t *testing.T, c *cluster, alice, bob *person) {
	a := c.login(alice, 1)
	content := bytes.Repeat([]byte("across "), 20_000)
	status, out := a.tool(0, "prepare_upload", map[string]any{"group_id": "team", "filename": "across.bin"})
	prepared, _ := out["result"].(map[string]any)
	if status != http.StatusOK {
		t.Fatal(out)
	}
	key, err := format.ParseKey(prepared["key"].(string))
	if err != nil {
		t.Fatal(err)
	}
	blob, err := format.SealBlob(key, content)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := a.send(1, http.MethodPut, prepared["upload_url"].(string), nil,
		blob); status != http.StatusNoContent {
		t.Fatalf("put: %d %s", status, body)
	}
	request := map[string]any{"upload_id": prepared["upload_id"], "file_hash": sdk.ComputeHash(content).String()}
	status, out = a.tool(2, "finalize_upload", request)
	if status != http.StatusOK {
		t.Fatal(out)
	}
	ref := out["result"].(map[string]any)["location"]
	if _, again := a.tool(0, "finalize_upload", request); fmt.Sprint(again["result"]) != fmt.Sprint(out["result"]) {
		t.Errorf("the repeated finalize on another process: %v, want %v", again, out)
	}
	for i := range c.processes {
		got, _, err := sdktest.Read(t.Context(), c.on(bob, i).Group("team"), "across.bin")
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("process %d: %d bytes, %v", i, len(got), err)
		}
		// A ticket of one process is good at the others.
		status, out := a.tool(i, "prepare_retrieve",
			map[string]any{"group_id": "team", "ipfs_hash": ref, "transfer": "raw"})
		result, _ := out["result"].(map[string]any)
		if address, ok := result["data_url"].(string); ok {
			if status, body := a.send((i+1)%len(c.processes), http.MethodGet, address, nil,
				nil); status != http.StatusOK || !bytes.Equal(body, blob) {
				t.Errorf("ticket of process %d: %d, %d bytes", i, status, len(body))
			}
		} else if inline, err := base64.StdEncoding.DecodeString(
			fmt.Sprint(result["encrypted_b64"])); status != http.StatusOK || err != nil || !bytes.Equal(inline, blob) {
			t.Errorf("process %d: %d %v", i, status, err)
		}
	}
}

func testThroughProxy(t *testing.T, c *cluster, alice, bob *person) {
	file := filepath.Join(c.dir, "proxied")
	content := bytes.Repeat([]byte{1, 2, 3}, 1<<20)
	write(t, file, content)
	alice.must("put", "team", file)
	bob.must("get", "team", "proxied", "-o", file+".back")
	if got := read(t, file+".back"); !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back", len(got))
	}
}

// testRevokeAcross races calls at all processes against a revocation at one.
func testRevokeAcross(t *testing.T, c *cluster, alice *person) {
	carol := c.account("carol", "100")
	owner := c.on(alice, 0)
	if _, err := owner.Group("team").Add(t.Context(), sdk.AccountID(carol.id)); err != nil {
		t.Fatal(err)
	}
	b := c.login(carol, 0)
	_, out := b.tool(1, "prepare_upload", map[string]any{"group_id": "team", "filename": "late"})
	late, _ := out["result"].(map[string]any)
	entries, err := owner.Group("team").Entries(t.Context())
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	var revoked atomic.Bool
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range 9 {
		wg.Go(func() {
			for ctx.Err() == nil {
				after := revoked.Load()
				status, out := b.tool(i%3, "prepare_retrieve",
					map[string]any{"group_id": "team", "ipfs_hash": string(entries[0].Ref)})
				if after && status == http.StatusOK {
					t.Error("a key was handed out after the revocation returned")
				}
				if !after && status != http.StatusOK && status != http.StatusForbidden {
					t.Errorf("%d %v", status, out)
				}
			}
		})
	}
	if _, err := c.on(alice, 2).Group("team").Revoke(t.Context(), sdk.AccountID(carol.id)); err != nil {
		t.Error(err)
	}
	revoked.Store(true)
	for i := range c.processes {
		for range 5 {
			if status, out := b.tool(i, "prepare_retrieve",
				map[string]any{"group_id": "team",
					"ipfs_hash": string(entries[0].Ref)}); status != http.StatusForbidden {
				t.Errorf("process %d after the revocation: %d %v", i, status, out)
			}
		}
	}
	stop()
	wg.Wait()
	data := base64.StdEncoding.EncodeToString(make([]byte, 28))
	if status, out := b.tool(2, "finalize_upload", map[string]any{"upload_id": late["upload_id"],
		"file_hash": strings.Repeat("0", 64), "encrypted_data": data}); status != http.StatusForbidden {
		t.Errorf("the prepared upload of a revoked member: %d %v", status, out)
	}
}

func testRotateAcross(t *testing.T, c *cluster) {
	dave := c.account("dave", "1")
	tokens := []bearer{c.login(dave, 0), c.login(dave, 1), c.login(dave, 2)}
	c.operator("account", "rotate-key", "dave")
	for i, b := range tokens {
		for process := range c.processes {
			if status, _ := b.tool(process, "auth_status",
				map[string]any{"group_id": "default"}); status != http.StatusUnauthorized {
				t.Errorf("token of process %d still works at %d: %d", i, process, status)
			}
			if status, _ := b.send(process, http.MethodPost, "/api/auth/session-token",
				http.Header{"X-Api-Key": {dave.key}},
				[]byte(`{"account_id":"`+dave.id+`"}`)); status != http.StatusUnauthorized {
				t.Errorf("the old key still works at %d: %d", process, status)
			}
		}
	}
}

func testMoneyAcross(t *testing.T, c *cluster) {
	erin := c.account("erin", "1.03") // a group for 0.64, ten uploads for 0.039
	if _, err := c.on(erin, 0).Group("erins").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	clients := []*sdk.Client{c.on(erin, 0), c.on(erin, 1), c.on(erin, 2)}
	var done, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_, err := clients[i%3].Group("erins").Put(t.Context(), fmt.Sprintf("f%d", i),
				bytes.NewReader([]byte{byte(i)}))
			switch {
			case err == nil:
				done.Add(1)
			case sdk.KindOf(err) == sdk.ErrInsufficient:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if done.Load() != 10 || refused.Load() != 40 {
		t.Errorf("%d uploads were paid, %d refused", done.Load(), refused.Load())
	}
	if balance, err := clients[1].Balance(t.Context(), sdk.AccountID(erin.id)); err != nil || !balance.IsZero() {
		t.Errorf("balance %s, %v", balance.Tokens(), err)
	}
}

// testKillUnderLoad loses one process of three; whatever was acknowledged stays.
func testKillUnderLoad(t *testing.T, c *cluster, alice, bob *person) {
	var mu sync.Mutex
	acknowledged := map[string][]byte{}
	clients := []*sdk.Client{c.on(alice, 0), c.on(bob, 1), c.on(alice, 2)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i, client := range clients {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("load-%d-%d", i, n)
				content := bytes.Repeat([]byte(name+" "), 1+n%300)
				if _, err := client.Group("team").Put(ctx, name, bytes.NewReader(content)); err != nil {
					continue // the killed one's clients fail; nothing is promised to them
				}
				mu.Lock()
				acknowledged[name] = content
				mu.Unlock()
			}
		})
	}
	have := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	proctest.Eventually(t, "there is load", func() bool { return have() >= 30 })
	c.kill(c.processes[1])
	before := have()
	proctest.Eventually(t, "the other processes go on", func() bool { return have() >= before+20 })
	c.start(c.processes[1])
	stop()
	wg.Wait()
	reader := c.on(bob, 1)
	for name, content := range acknowledged {
		got, _, err := sdktest.Read(t.Context(), reader.Group("team"), name)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s was acknowledged: %d of %d bytes, %v", name, len(got), len(content), err)
		}
	}
}

// testStoresGone takes the database away, then the bucket: 503 with a time to
// come back, and everything works again by itself.
func testStoresGone(t *testing.T, c *cluster, alice *person) {
	b, client := c.login(alice, 0), c.on(alice, 0)
	works := func() bool {
		_, err := client.Group("team").Put(t.Context(), "after", bytes.NewReader(make([]byte, 20<<10)))
		return err == nil
	}
	unavailable := func(what string) {
		t.Helper()
		status, out := b.tool(0, "prepare_upload", map[string]any{"group_id": "team", "filename": "x"})
		if what == "bucket" {
			data := base64.StdEncoding.EncodeToString(make([]byte, 20<<10)) // less lies in the database
			prepared, _ := out["result"].(map[string]any)
			status, out = b.tool(0, "finalize_upload", map[string]any{"upload_id": prepared["upload_id"],
				"file_hash": strings.Repeat("0", 64), "encrypted_data": data})
		}
		if status != http.StatusServiceUnavailable {
			t.Errorf("without the %s: %d %v", what, status, out)
		}
		status, health := b.send(0, http.MethodGet, "/health", nil, nil)
		if status != http.StatusServiceUnavailable {
			t.Errorf("health without the %s: %d %s", what, status, health)
		}
	}
	c.postgres.Kill()
	unavailable("database")
	c.postgres.Restart(t)
	proctest.Eventually(t, "uploads work again", works)
	c.s3.Kill()
	unavailable("bucket")
	c.s3.Restart(t)
	proctest.Eventually(t, "uploads work again", works)
}
