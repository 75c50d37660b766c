package service_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/web"
)

// serving is a service that answers on its own listener, as svcd runs it.
type serving struct {
	*running
	addr  string
	stop  context.CancelFunc
	ended chan error // of Serve
	end   func()     // stops and closes it
}

func serve(t *testing.T, change func(*service.Config)) *serving {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := service.Config{DataDir: filepath.Join(t.TempDir(), "data"), Database: newDatabase(t), MaxFileBytes: 64 << 20}
	if change != nil {
		change(&cfg)
	}
	cfg.PublicURL = cfg.Scheme() + "://" + l.Addr().String()
	svc, err := openService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &serving{running: &running{t: t, svc: svc, dir: cfg.DataDir, url: cfg.PublicURL, database: cfg.Database},
		addr: l.Addr().String(), stop: stop, ended: make(chan error, 1)}
	go func() {
		s.ended <- svc.Serve(ctx, l)
		close(s.ended)
	}()
	s.end = sync.OnceFunc(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.end)
	return s
}

func (s *serving) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// asked asks for /health over a connection of its own and fails when no answer comes.
func (s *serving) asked() (int, object) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), proctest.Hang)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+wire.PathHealth, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Errorf("health: %v", err)
		return 0, nil
	}
	defer resp.Body.Close()
	var out object
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		s.t.Error(err)
	}
	return resp.StatusCode, out
}

// reply reads an HTTP answer from a raw connection; the status is 0 when the
// service closed it without one.
func reply(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	ok(t, conn.SetReadDeadline(time.Now().Add(proctest.Hang)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Error("the connection stays open without an answer")
		}
		return 0, ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func TestThreat31(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.MaxConnections, c.ClientTimeout = 200, time.Second })
	alice := s.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	bearer := "Authorization: Bearer " + alice.token + "\r\n" + wire.HeaderAPIKey + ": " + alice.key + "\r\n"
	answers := func(t *testing.T) {
		t.Helper()
		if status, out := s.asked(); status != 200 || out["status"] != "ok" {
			t.Errorf("health: %d %v", status, out)
		}
	}
	t.Run("slow header", func(t *testing.T) {
		conn := s.dial()
		fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		answers(t)
		if status, _ := reply(t, conn); status != 0 && status != 408 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("slow body", func(t *testing.T) {
		conn := s.dial()
		fmt.Fprint(conn, "POST /tools/prepare_upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"+bearer+"\r\n{")
		answers(t)
		if status, body := reply(t, conn); status != 408 || !strings.Contains(body, "too slowly") {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("slow body that nobody reads", func(t *testing.T) {
		for _, start := range []string{"POST /tools/prepare_upload", "POST /no/such/path", "GET /health"} {
			conn := s.dial()
			fmt.Fprint(conn, start+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
			answers(t)
			reader := bufio.NewReader(conn)
			ok(t, conn.SetReadDeadline(time.Now().Add(proctest.Hang)))
			if _, err := io.Copy(io.Discard, reader); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: the connection stays open: %v", start, err)
			}
		}
	})
	t.Run("a drip below the pace", func(t *testing.T) {
		p := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, wire.PrepareUploadRequest{GroupID: "g"})
		conn := s.dial()
		fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n%s\r\n", p.UploadURL, bearer)
		var drip sync.WaitGroup
		drip.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
			}
		})
		if status, _ := reply(t, conn); status != 408 && status != 0 {
			t.Errorf("status %d", status)
		}
		_ = conn.Close()
		drip.Wait()
	})
	t.Run("2 GiB Content-Length", func(t *testing.T) {
		for _, path := range []string{"/tools/finalize_upload", "/tools/prepare_upload", "/api/auth/session-token",
			"/upload/x"} {
			method := "POST"
			if path == "/upload/x" {
				method, path = "PUT", wire.PathUploadBlob+"x"
			}
			conn := s.dial()
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n{", method, path, 2<<30, bearer)
			if status, body := reply(t, conn); status != 413 {
				t.Errorf("%s: %d %s", path, status, body)
			}
			answers(t)
		}
	})
	t.Run("gzip body", func(t *testing.T) {
		status, body := s.post("/tools/prepare_upload",
			http.Header{"Content-Encoding": {"gzip"}, "Authorization": {"Bearer " + alice.token}}, []byte("\x1f\x8b"))
		if status != 415 || !strings.Contains(string(body), "compressed requests") {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("1000 idle connections", func(t *testing.T) {
		for i := range 1000 {
			conn := s.dial()
			if i%2 == 0 { // has been used before
				fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			}
			if i%100 == 99 {
				answers(t)
			}
		}
		answers(t)
	})
}

// Threat 31: the requests of an account that are refused, and whose bodies do not come, take no connection from
// others.
func TestThreat31OneAccountHoldsNoConnections(t *testing.T) {
	t.Parallel()
	const all, networks, underWay = 320, 8, 256
	s := serve(t, func(c *service.Config) { c.MaxConnections, c.ClientTimeout = all, time.Hour })
	alice := s.user("alice", "10")
	for i := range all {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%networks))}}
		conn, err := from.Dial("tcp", s.addr)
		ok(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /tools/prepare_upload HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n"+
			"Authorization: Bearer %s\r\n\r\n{", alice.token)
	}
	proctest.Eventually(t, "the refusals", func() bool {
		return s.metric(`svcd_requests_total{operation="prepare_upload",status="429"}`) == all-underWay
	})
	for range 3 {
		s.asked() // fails the test when no answer comes
	}
	if n := s.metric(inFlight); n != underWay {
		t.Errorf("%d of %d stand", n, underWay)
	}
}

// A big upload that makes progress outlives every time-out.
func TestSlowBigUploadSucceeds(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.ClientTimeout = 4 * time.Second })
	alice := s.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	p := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, wire.PrepareUploadRequest{GroupID: "g"})
	blob := bytes.Repeat([]byte("b"), 40*(16<<10)) // twice as long as the time-out
	reader, writer := io.Pipe()
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for rest := blob; len(rest) > 0; rest = rest[16<<10:] {
			<-tick.C
			if _, err := writer.Write(rest[:16<<10]); err != nil {
				return
			}
		}
		_ = writer.Close()
	}()
	req, err := http.NewRequest(http.MethodPut, s.url+p.UploadURL, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header, req.ContentLength = alice.header(), int64(len(blob))
	if status, body := s.do(req); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
}

// A client that reads a long answer slowly, and a service that works long before
// it answers, are not cut off.
func TestSlowBigAnswerSucceeds(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.ClientTimeout = time.Second })
	alice := s.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	content := bytes.Repeat([]byte("0123456789abcdef"), 11<<16)
	up := alice.uploadRaw("g", "big", content)
	raw := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": up.CID, "transfer": "raw"})
	for _, request := range []string{
		"GET " + raw.DataURL + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + alice.token + "\r\n\r\n",
		fmt.Sprintf("POST /tools/prepare_retrieve HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: "+
			"%d\r\n\r\n{\"group_id\":\"g\",\"ipfs_hash\":\"%s\"}",
			alice.token, len(`{"group_id":"g","ipfs_hash":""}`)+len(up.CID), up.CID),
	} {
		conn := s.dial()
		fmt.Fprint(conn, request)
		slow := &slowly{conn: conn}
		resp, err := http.ReadResponse(bufio.NewReaderSize(slow, 256<<10), nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || n != resp.ContentLength || n < int64(len(content)) {
			t.Errorf("%.30s: %d of %d bytes, %v", request, n, resp.ContentLength, err)
		}
		if slow.reads < 40 { // longer than the time-out
			t.Errorf("%.30s: too short to prove anything: %d reads", request, slow.reads)
		}
		_ = resp.Body.Close()
	}
}

// A call that waits for news is not a client that stands still.
func TestWaitingLongerThanTheClientTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.ClientTimeout = time.Second })
	alice := s.user("alice", "10")
	now := must[wire.WatchResult](alice, wire.OpWatch, wire.WatchRequest{})
	for range 2 { // on one connection
		got := must[wire.WatchResult](alice, wire.OpWatch, wire.WatchRequest{AfterSeq: &now.Seq, TimeoutMS: 2000})
		if len(got.Events) != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// slowly reads at most 256 KiB in 40 ms.
type slowly struct {
	conn  net.Conn
	reads int
}

func (s *slowly) Read(p []byte) (int, error) {
	s.reads++
	time.Sleep(40 * time.Millisecond)
	return s.conn.Read(p[:min(len(p), 256<<10)])
}

// The drain: requests under way finish, no new one begins, and Serve returns nil.
func TestDrainFinishesAnUpload(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	alice := s.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	req := alice.finalize("g", "f", []byte("content"))
	raw, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	conn := s.dial()
	fmt.Fprintf(conn, "POST /tools/finalize_upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nExpect: "+
		"100-continue\r\nContent-Length: %d\r\n\r\n", alice.token, len(raw))
	answer := bufio.NewReader(conn)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err) // the service is now reading the body
	}
	if _, err := answer.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.stop()
	refused := func() bool {
		probe, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = probe.Close()
		}
		return err != nil
	}
	proctest.Eventually(t, "no new connection is taken", refused)
	if _, err := conn.Write(raw); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out wire.FinalizeUploadResult
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != 200 || out.Seq == 0 {
		t.Errorf("%d %+v %v", resp.StatusCode, out, err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// records reads a log of JSON lines.
func (b *lockedBuffer) records(t *testing.T) (list []object) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("a line of the log is not JSON: %s", line)
		}
		list = append(list, o)
	}
	return list
}

// Every state change has account, time and request id in the ledger; the line of
// the log with the same id says the same.
func TestThreat38(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	s := serve(t, func(c *service.Config) { c.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.adds(bob)
	up := bob.upload("g", "f", []byte("content"))
	alice.retrieve("g", up.CID)
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	if status, _ := bob.tool(wire.OpPrepareUpload, object{"group_id": "g"}); status != 403 {
		t.Errorf("status %d", status)
	}
	byID := make(map[string]object)
	proctest.Eventually(t, "every request is in the log", func() bool { // the line comes after the answer
		for _, o := range log.records(t) {
			if o["msg"] == "request" {
				byID[o["request"].(string)] = o
			}
		}
		return len(byID) >= 9
	})
	kinds := map[string]string{"register_group": wire.OpRegisterGroup, "add_group_member": wire.OpAddGroupMember,
		"record_transaction": wire.OpFinalizeUpload,
		"claim_token":        wire.OpPrepareRetrieve, "revoke_group_member": wire.OpRevokeGroupMember}
	joined := 0
	for _, row := range s.ledgerRows() {
		operation, ok := kinds[row.kind]
		if !ok {
			continue
		}
		o := byID[row.request]
		if row.request == "" || o == nil || o["account"] != row.account || o["operation"] != operation ||
			o["status"] != 200.0 || o["bytes_in"].(float64) <= 0 {
			t.Errorf("ledger row %+v, log %v", row, o)
			continue
		}
		joined++
	}
	if joined != 5 {
		t.Errorf("%d rows joined, want 5", joined)
	}
	for _, o := range log.records(t) {
		if text := fmt.Sprint(o); strings.Contains(text, alice.key) || strings.Contains(text, alice.token) {
			t.Errorf("a line of the log holds a secret: %v", o["msg"])
		}
	}
}

type ledgerRow struct{ kind, account, request string }

func (r *running) ledgerRows() (list []ledgerRow) {
	t := r.t
	t.Helper()
	db := r.openDatabase()
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT kind, account, request FROM ledger ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r ledgerRow
		ok(t, rows.Scan(&r.kind, &r.account, &r.request))
		list = append(list, r)
	}
	return list
}

func TestHealthNamesThePart(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	status, out := s.asked()
	if status != 200 || out["status"] != "ok" || out["version"] != wire.Version() || out["auth"] != "enabled" ||
		out["rpc_reachable"] != true || out["space"] == nil {
		t.Errorf("%d %v", status, out)
	}
	if parts := fmt.Sprint(out["parts"]); parts != "map[blobs:ok checkpoints:ok clock:ok database:ok vault:ok]" {
		t.Errorf("parts %s", parts)
	}
	ok(t, os.Rename(filepath.Join(s.dir, "blobs", "tmp"), filepath.Join(s.dir, "gone")))
	proctest.Eventually(t, "health tells", func() bool { status, out = s.asked(); return status == 503 })
	if out["status"] != "degraded" || fmt.Sprint(out["parts"]) != "map[blobs:down checkpoints:ok clock:ok "+
		"database:ok vault:ok]" || strings.Contains(fmt.Sprint(out), s.dir) {
		t.Errorf("%v", out)
	}
	metrics := httptest.NewRecorder()
	s.svc.MetricsHandler().ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`svcd_part_up{part="blobs"} 0`, `svcd_part_up{part="database"} 1`} {
		if !strings.Contains(metrics.Body.String(), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	ok(t, os.Rename(filepath.Join(s.dir, "gone"), filepath.Join(s.dir, "blobs", "tmp")))
	proctest.Eventually(t, "health recovers", func() bool { status, _ = s.asked(); return status == 200 })
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.svc.ServeMetrics(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	alice := s.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	up := alice.upload("g", "f", make([]byte, 20<<10))
	alice.retrieve("g", up.CID)
	alice.finalize("g", "open", []byte("x"))
	if status, _ := alice.tool("no_such_operation_"+alice.token, object{}); status != 404 {
		t.Errorf("status %d", status)
	}
	s.svc.CountFiles(t.Context())
	var text string
	wants := []string{
		`svcd_requests_total{operation="finalize_upload",status="200"} 1`,
		`svcd_requests_total{operation="unknown",status="404"} 1`,
		`svcd_request_duration_seconds_count{operation="prepare_retrieve"} 1`,
		`svcd_uploads_total 1`, `svcd_retrieves_total 1`, `svcd_ledger_seq 4`, `svcd_open_uploads 1`, `svcd_accounts 1`,
		`svcd_files 1`,
		`svcd_vault_keys 0`, `svcd_vault_keys_in_clear 0`, `svcd_vault_keys_unrecorded 0`,
		`svcd_part_duration_seconds_count{call="put",part="blobs"} 1`,
		`svcd_part_duration_seconds_count{call="write",part="database"}`,
		`svcd_build_info{go="`, `svcd_part_up{part="checkpoints"} 1`, `svcd_part_up{part="clock"} 1`,
		`svcd_part_up{part="database"} 1`, `svcd_part_up{part="space"} 1`,
		`svcd_part_failures_total{call="put",part="blobs"} 0`, `svcd_sweeps_total{result="ok"} 1`,
		`svcd_data_free_bytes`, `svcd_request_bytes_total{operation="finalize_upload"}`,
	}
	missing := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s is missing in\n%s", missing, text)
		}
	}()
	proctest.Eventually(t, "all is measured", func() bool {
		resp, err := http.Get("http://" + l.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(raw)
		for _, missing = range wants {
			if !strings.Contains(text, missing) {
				return false
			}
		}
		return true
	})
	t.Run("the guide speaks of what is there", func(t *testing.T) {
		guide, err := os.ReadFile("operating/monitoring.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range regexp.MustCompile(`svcd_part_up\{part="(\w+)"\}`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(string(guide), "\n| `"+part[1]+"` | ") {
				t.Errorf("monitoring.md does not say what to do about %s", part[1])
			}
		}
		for _, name := range regexp.MustCompile(`svcd_[a-z_]+`).FindAllString(string(guide), -1) {
			if name != "svcd_ledger" && !strings.Contains(text, name) { // that is a database role
				t.Errorf("monitoring.md speaks of %s, which is not there", name)
			}
		}
	})
	t.Run("they name nobody, and the public address has none", func(t *testing.T) {
		if strings.Contains(text, alice.token) || strings.Contains(text, alice.id) {
			t.Error("the metrics name an account or a token")
		}
		if status, _ := s.post("/metrics", nil, object{}); status != 404 {
			t.Errorf("the public address answers /metrics with %d", status)
		}
	})
}

// Figures that alerts look at are there while the database does not say what it has, and so are the last counts.
func TestMetricsWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	alice.upload("g", "f", []byte("x"))
	r.svc.CountFiles(t.Context())
	alice.upload("g", "f", []byte("x"))
	r.exec("ALTER TABLE accounts RENAME TO gone")
	r.exec("ALTER TABLE files RENAME TO gone_too")
	r.svc.CountFiles(t.Context())
	metrics := httptest.NewRecorder()
	r.svc.MetricsHandler().ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := metrics.Body.String()
	for _, want := range []string{"svcd_data_free_bytes ", "svcd_vault_keys_unrecorded 0\n", "svcd_files 1\n",
		"svcd_ledger_seq "} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("there is no %q", want)
		}
	}
	if strings.Contains(text, "\nsvcd_accounts ") {
		t.Error("there are accounts")
	}
}

// writePair makes a self-signed certificate.
func writePair(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: raw}} {
		ok(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writePair(t, dir, "first")
	s := serve(t, func(c *service.Config) { c.TLSCert, c.TLSKey = cert, key })
	if !strings.HasPrefix(s.url, "https://") {
		t.Errorf("address %s", s.url)
	}
	handshake := func(c *tls.Config) (tls.ConnectionState, error) {
		c.InsecureSkipVerify = true // self-signed; the name tells which it is
		conn, err := tls.Dial("tcp", s.addr, c)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer conn.Close()
		return conn.ConnectionState(), nil
	}
	t.Run("from 1.2, HTTP/2 first", func(t *testing.T) {
		state, err := handshake(&tls.Config{NextProtos: []string{"h2", "http/1.1"}})
		if err != nil || state.NegotiatedProtocol != "h2" || state.Version != tls.VersionTLS13 {
			t.Fatalf("%v, protocol %q, version %x", err, state.NegotiatedProtocol, state.Version)
		}
		if _, err := handshake(&tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
			t.Error("TLS 1.1 is spoken")
		}
		if _, err := handshake(&tls.Config{MaxVersion: tls.VersionTLS12}); err != nil {
			t.Error(err)
		}
	})
	name := func() string {
		state, err := handshake(&tls.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].Subject.CommonName
	}
	t.Run("a new certificate replaces the old, a broken one does not", func(t *testing.T) {
		ok(t, os.WriteFile(cert, []byte("half written"), 0o600))
		s.svc.Reload()
		if got := name(); got != "first" {
			t.Errorf("a broken file replaced the certificate: %q", got)
		}
		writePair(t, dir, "second")
		s.svc.Reload()
		if got := name(); got != "second" {
			t.Errorf("after a reload the certificate is %q", got)
		}
		writePair(t, dir, "third")
		proctest.Eventually(t, "the third certificate", func() bool { return name() == "third" })
	})
	t.Run("a key that others may read is refused", func(t *testing.T) {
		ok(t, os.Chmod(key, 0o644))
		if _, err := openService(t.Context(), service.Config{DataDir: filepath.Join(dir, "data"), TLSCert: cert,
			TLSKey: key}); !errors.Is(err, ownfile.ErrReadable) {
			t.Errorf("a key that others may read: %v", err)
		}
	})
}

// Requests without an account are bounded by address, generously: verifying the ledger
// is possible, and an endless flood is told to wait.
func TestLooksWithoutAccountAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	r := run(t)
	// no time goes by, however slow the machine is
	synctest.Test(t, func(t *testing.T) { looksAreBounded(t, r.svc.Handler(), strings.TrimPrefix(r.url, "http://")) })
}

func looksAreBounded(t *testing.T, service http.Handler, host string) {
	type request struct {
		method, path string
		header       http.Header
	}
	ask := func(q request, client string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(q.method, q.path, strings.NewReader("{}"))
		r.Host, r.RemoteAddr, r.Header = host, net.JoinHostPort(client, "1234"), q.header
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		return w
	}
	refuses := func(w *httptest.ResponseRecorder) bool {
		told := strings.Contains(w.Body.String(), "TOO_MANY_REQUESTS")
		if told && w.Code == http.StatusOK { // the ledger's errors are inside (wire protocol 4.1)
			return strings.Contains(w.Body.String(), `"jsonrpc":"2.0"`)
		}
		return told && w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "1"
	}
	_, port, _ := net.SplitHostPort(host)
	look := request{http.MethodPost, wire.PathRPC, nil}
	wrong := []request{
		{http.MethodPost, wire.PathTools + wire.OpAuthStatus, bearer("x")},
		{http.MethodPost, wire.PathTools + wire.OpAuthStatus, http.Header{wire.HeaderAPIKey: {"x"},
			wire.HeaderAccountID: {"x"}}},
		{http.MethodGet, web.Path + "api/session", http.Header{"Cookie": {"svc_session_" + port + "=x"}}},
		{http.MethodPost, web.Path + "api/sign-out", nil},
	}
	for _, route := range []struct {
		request
		client, neighbour, stranger string
	}{
		{look, "203.0.113.1", "203.0.113.1", "203.0.113.2"},
		{request{http.MethodGet, wire.PathTlog + "key", nil}, "2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:2::1"},
		{look, "127.0.0.9", "127.0.0.9", "127.0.0.8"}, // this machine may be a proxy
	} {
		passed := 0
		for passed < 100_000 && !refuses(ask(route.request, route.client)) {
			passed++
		}
		if passed < 5000 || passed == 100_000 {
			t.Errorf("%s: %d requests passed", route.path, passed)
		}
		for i, again := range append(wrong, route.request, request{http.MethodGet, wire.PathCapabilities, nil}) {
			if !refuses(ask(again, route.neighbour)) {
				t.Errorf("%s: the same network passes (%d)", again.path, i)
			}
		}
		for _, other := range []string{route.stranger, "127.0.0.1", "::1"} {
			for i, again := range wrong {
				if refuses(ask(again, other)) {
					t.Errorf("%s: another network does not pass (%d)", again.path, i)
				}
			}
			if w := ask(route.request, other); w.Code != http.StatusOK || refuses(w) {
				t.Errorf("%s: from %s %d", route.path, other, w.Code)
			}
		}
	}
}

// untilRefused makes failing requests until one is refused for their number.
// An address has 100 at once, and 100 a minute after that, so that a slow machine makes more.
func untilRefused(t *testing.T, answer int, try func(i int) int) {
	t.Helper()
	begun := time.Now()
	for i := range 10_000 {
		switch status := try(i); status {
		case answer:
			continue
		case http.StatusTooManyRequests:
			if most := 101 + int(time.Since(begun)/(time.Minute/100)); i < 100 || i > most {
				t.Errorf("%d failed before they were refused: want 100 to %d", i, most)
			}
		default:
			t.Errorf("try %d is answered with %d", i, status)
		}
		return
	}
	t.Error("10,000 failed, and were not refused")
}

// X-Forwarded-For counts only from a trusted proxy, and only its last untrusted
// entry.
func TestForwardedAddressLimitsTheClient(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	s := serve(t, func(c *service.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
		c.Logger = slog.New(slog.NewJSONHandler(log, nil))
	})
	try := func(forwarded string) int {
		status, _ := s.post("/tools/auth_status", http.Header{"X-Forwarded-For": {forwarded}}, object{})
		return status
	}
	untilRefused(t, 401, func(i int) int {
		return try(fmt.Sprintf("198.51.100.%d, 203.0.113.7, 10.1.2.3", i%256)) // the first is the client's claim
	})
	if got := try("203.0.113.8"); got != 401 {
		t.Errorf("another client: %d", got)
	}
	proctest.Eventually(t, "the line of the log", func() bool {
		list := log.records(t)
		return list[len(list)-1]["client"] == "203.0.113.8"
	})
	untilRefused(t, 404, func(i int) int { // asking for accounts that do not exist is guessing too
		header := http.Header{"X-Forwarded-For": {"203.0.113.9"}, wire.HeaderAPIKey: {fmt.Sprintf("svc_sk_%043d", i)}}
		status, _ := s.post(wire.PathSessionToken, header, wire.SessionTokenRequest{AccountID: fmt.Sprint("nobody", i)})
		return status
	})
	// a subscriber has 2^64 addresses
	untilRefused(t, 401, func(i int) int { return try(fmt.Sprintf("2001:db8:0:1::%x", i+1)) })
	if got := try("2001:db8:0:2::1"); got != 401 {
		t.Errorf("another subscriber: %d", got)
	}
}

// A proxy that is not trusted is one client, on the same machine too, and the log says
// so once. Failed sign-ins from the same address lock nobody else out.
func TestThreat31UntrustedProxyIsOneClient(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	s := serve(t, func(c *service.Config) { c.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	alice := s.user("alice", "10")
	untilRefused(t, 401, func(i int) int {
		status, _ := s.post("/tools/auth_status", http.Header{"X-Forwarded-For": {fmt.Sprintf("203.0.113.%d", i%256)}},
			object{})
		return status
	})
	must[[]string](alice, wire.OpGetOwnedGroups, object{})
	alice.login()
	if n := strings.Count(log.String(), "--trusted-proxy 127.0.0.1/32"); n != 1 {
		t.Errorf("the log names the setting %d times", n)
	}
}
