package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// attacked is a svcd that others attack, from addresses of their own.
type attacked struct {
	*process
	t       *testing.T
	addr    string
	metrics string
	id, key string // of an account
}

// standing is the --client-timeout with which attackers may stand as long as a test
// needs them; it is the longest in which nothing of what they do ends by itself.
const standing = "10m"

func attack(t *testing.T, flags ...string) *attacked {
	t.Helper()
	a := &attacked{t: t, metrics: "127.0.0.1:" + proctest.FreePort(t)}
	a.process = startServe(t, append([]string{"--metrics-listen", a.metrics, "--client-timeout", standing,
		"--log-level", "error"}, flags...)...)
	_, a.addr, _ = strings.Cut(a.url, "://")
	out, errs, code := execute(t, "account", "create", "alice", "--balance", "1000", "--data", a.data)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK {
		t.Fatal(out, errs)
	}
	a.id, a.key = made.ID, made.Key
	return a
}

// dial connects from a loopback address, with little room for answers.
func (a *attacked) dial(from string) net.Conn {
	a.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)},
		Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
			})
		}}
	conn, err := d.DialContext(a.t.Context(), "tcp", a.addr)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// works fails the test unless /health and an account that signs in are answered, on
// new connections from an address.
func (a *attacked) works(from string) {
	a.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // signed by itself
	ask := func(method, path string, body any, header http.Header) {
		a.t.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			a.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(a.t.Context(), proctest.Hang)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(raw))
		if err != nil {
			a.t.Fatal(err)
		}
		req.Header = header
		start := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			a.t.Errorf("%s: %v", path, err)
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			a.t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		a.t.Logf("figure: %s answered in %s", path, time.Since(start).Round(time.Millisecond))
	}
	ask(http.MethodGet, wire.PathHealth, nil, http.Header{})
	key := http.Header{wire.HeaderAPIKey: {a.key}, wire.HeaderAccountID: {a.id}}
	ask(http.MethodPost, wire.PathSessionToken, wire.SessionTokenRequest{AccountID: a.id}, key)
	ask(http.MethodPost, wire.PathTools+wire.OpGetOwnedGroups, struct{}{}, key)
}

// inFlight is how many requests are under way.
func (a *attacked) inFlight() int {
	a.t.Helper()
	resp, err := http.Get("http://" + a.metrics + "/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return number(a.t, text, `(?m)^svcd_requests_in_flight (\d+)$`)
}

func number(t *testing.T, text []byte, pattern string) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in %.300s", pattern, text)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stand waits until so many requests are under way.
func (a *attacked) stand(n int) {
	a.t.Helper()
	now := 0
	for deadline := time.Now().Add(proctest.Hang); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if now = a.inFlight(); now >= n {
			return
		}
	}
	a.t.Fatalf("%d requests are under way, want %d", now, n)
}

// settle waits until at most so many requests are under way.
func (a *attacked) settle(n int) {
	a.t.Helper()
	now := 0
	for deadline := time.Now().Add(proctest.Hang); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if now = a.inFlight(); now <= n {
			return
		}
	}
	a.t.Fatalf("%d requests are under way, want at most %d", now, n)
}

// peakBelow fails the test when the process ever had so many MiB of memory.
func (a *attacked) peakBelow(mib int, what string) {
	a.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	peak := number(a.t, status, `VmHWM:\s+(\d+) kB`) >> 10
	a.t.Logf("figure: %s: %d MiB at most", what, peak)
	if peak >= mib {
		a.t.Errorf("%s: %d MiB, want less than %d", what, peak, mib)
	}
}

// openBody is a request of which the last byte is missing.
func openBody(size int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", wire.PathRPC, size,
		strings.Repeat(" ", size-1))
}

// many is a number of attackers, of which make test has an eighth.
func many(all int) int {
	if testing.Short() {
		return all / 8
	}
	return all
}

// How far a stranger reaches (SECURITY.md has the figures this prints).
func TestThreat31Reach(t *testing.T) {
	t.Run("slow bodies", reachOfSlowBodies)
	t.Run("before sign-in", reachBeforeSignIn)
	t.Run("readers that do not read", reachOfReaders)
}

// 4,096 slow bodies, from one address and from 64.
func reachOfSlowBodies(t *testing.T) {
	all := many(4096)
	a := attack(t)
	var conns []net.Conn
	for range all {
		conn := a.dial("127.0.0.2")
		_, _ = io.WriteString(conn, openBody(16_000)[:200]) // it may be closed already
		conns = append(conns, conn)
	}
	a.works("127.0.0.3")
	a.settle(64) // others are being refused
	for _, conn := range conns {
		_ = conn.Close()
	}
	a.settle(0)
	for i := range all {
		conn := a.dial(fmt.Sprintf("127.0.1.%d", 1+i%64))
		if _, err := io.WriteString(conn, openBody(16_000)[:200]); err != nil {
			t.Fatal(err)
		}
	}
	a.stand(all - 50) // some gave way to the metrics and the account
	a.works("127.0.0.3")
	if n := a.inFlight(); n < all-50 {
		t.Errorf("%d stand", n)
	}
	t.Logf("figure: while %d requests stand open", a.inFlight())
}

// 8 connections with 240 streams each, and 1,500 bodies, too large ones and others.
func reachBeforeSignIn(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, time.Now().Add(time.Hour))
	a, bodies := attack(t, "--tls-cert", cert, "--tls-key", key), many(1500)
	handshake := func(from string, protocols ...string) net.Conn {
		// signed by itself
		conn := tls.Client(a.dial(from), &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
		ok(t, conn.HandshakeContext(t.Context()))
		return conn
	}
	for i := range 8 {
		openStreams(t, handshake(fmt.Sprintf("127.0.0.%d", 10+i), http2.NextProtoTLS), 240)
	}
	a.stand(8 * 32)
	for i := range bodies { // larger than what is taken from strangers
		// it may be closed already
		_, _ = io.WriteString(handshake(fmt.Sprintf("127.0.1.%d", 1+i%50)), openBody(1 << 20)[:64<<10])
	}
	a.settle(8 * 32)
	for i := range bodies {
		if _, err := io.WriteString(handshake(fmt.Sprintf("127.0.1.%d", 1+i%50)), openBody(16<<10)); err != nil {
			t.Fatal(err)
		}
	}
	a.stand(bodies + 8*32)
	a.works("127.0.0.3")
	a.peakBelow(256, fmt.Sprintf("8 connections with 240 streams and %d bodies before sign-in", bodies))
	if n := a.inFlight(); n > bodies+8*32 {
		t.Errorf("%d requests are under way, want at most 32 on each connection", n)
	}
}

// openStreams begins so many requests on one HTTP/2 connection, whatever the other
// end allows.
func openStreams(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	framer := http2.NewFramer(conn, conn)
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = framer.WriteSettings()
	}
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for i := 0; i < n && err == nil; i++ {
		header.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "x"},
			{":path", wire.PathRPC}, {"content-length", "16000"}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		id := uint32(2*i + 1)
		if err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header.Bytes(),
			EndHeaders: true}); err == nil {
			err = framer.WriteData(id, false, make([]byte, 200))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// 200 readers of the longest view, and 200 of a file inside JSON, who take nothing.
func reachOfReaders(t *testing.T) {
	const files = 150
	readers := many(200)
	a := attack(t, "--memory", fmt.Sprint(4<<30))
	call[string](t, a.process, a.id, a.key, wire.OpCreateHackathonGroup,
		map[string]any{"group_id": "open", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())})
	upload := func(name string, size int) wire.FinalizeUploadResult {
		up := call[wire.PrepareUploadResult](t, a.process, a.id, a.key, wire.OpPrepareUpload,
			map[string]string{"group_id": "open", "filename": name})
		return call[wire.FinalizeUploadResult](t, a.process, a.id, a.key, wire.OpFinalizeUpload,
			wire.FinalizeUploadRequest{UploadID: up.UploadID,
				EncryptedData: base64.StdEncoding.EncodeToString(make([]byte, size)),
				FileHash:      strings.Repeat("0", 64)})
	}
	for range files {
		upload(strings.Repeat("<", 4096), 100)
	}
	large := upload("large", 16<<20)
	view := fmt.Sprintf(
		`{"id":1,"method":"query","params":{"request_type":"call_function","method_name":"get_transactions_for_group_public","args_base64":%q}}`,
		base64.StdEncoding.EncodeToString([]byte(`{"group_id":"open"}`)))
	file := fmt.Sprintf(`{"group_id":"open","ipfs_hash":%q}`, large.CID)
	for i := range readers {
		from := fmt.Sprintf("127.0.2.%d", 1+i)
		fmt.Fprintf(a.dial(from), "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", wire.PathRPC,
			len(view), view)
		fmt.Fprintf(a.dial(from), "POST %s%s HTTP/1.1\r\nHost: x\r\n%s: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
			wire.PathTools, wire.OpPrepareRetrieve,
			wire.HeaderAPIKey, a.key, wire.HeaderAccountID, a.id, len(file), file)
	}
	a.stand(2 * readers)
	a.works("127.0.0.3")
	if n := a.inFlight(); n != 2*readers {
		t.Errorf("%d requests are under way, want %d", n, 2*readers)
	}
	a.peakBelow(512, fmt.Sprintf("%d readers of a view and as many of a file inside JSON that do not read", readers))
}
