package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// process is a running svcd.
type process struct {
	cmd  *exec.Cmd
	url  string
	log  bytes.Buffer // read after the end
	data string
}

func startServe(t testing.TB, flags ...string) *process {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	p := startServeWith(t, append([]string{"--data", data, "--listen", "127.0.0.1:0", "--log-level", "info"},
		flags...)...)
	p.data = data
	return p
}

// startServeWith starts svcd serve with these flags alone.
func startServeWith(t testing.TB, flags ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(filepath.Join(programs.Dir(t, "svcd"), "svcd"),
		append([]string{"serve"}, flags...)...)}
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("svcd said %q, %v", line, err)
	}
	p.url = url
	return p
}

// call calls an operation with an API key and decodes its result.
func call[T any](t *testing.T, p *process, account, key, op string, request any) T {
	t.Helper()
	raw, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+wire.PathTools+op, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(wire.HeaderAPIKey, key)
	req.Header.Set(wire.HeaderAccountID, account)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Result T `json:"result"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", op, resp.StatusCode, err)
	}
	return out.Result
}

// SIGTERM: the upload under way finishes, new connections are refused, exit 0.
func TestTerminationFinishesAnUpload(t *testing.T) {
	p := startServe(t)
	out, errs, code := execute(t, "account", "create", "alice", "--data", p.data)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK {
		t.Fatal(out, errs)
	}
	call[string](t, p, made.ID, made.Key, wire.OpRegisterGroup, map[string]string{"group_id": "g"})
	up := call[wire.PrepareUploadResult](t, p, made.ID, made.Key, wire.OpPrepareUpload,
		map[string]string{"group_id": "g"})
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	blob := bytes.Repeat([]byte("b"), 1<<20)
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\n%s: %s\r\nExpect: 100-continue\r\nContent-Length: "+
		"%d\r\n\r\n", up.UploadURL,
		wire.HeaderAPIKey, made.Key, wire.HeaderAccountID, made.ID, len(blob))
	answer := bufio.NewReader(conn)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatal(line, err)
	}
	if _, err := answer.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ok(t, p.cmd.Process.Signal(syscall.SIGTERM))
	proctest.Eventually(t, "no new connection is taken", func() bool {
		probe, err := net.Dial("tcp", conn.RemoteAddr().String())
		if err == nil {
			_ = probe.Close()
		}
		return err != nil
	})
	if _, err := conn.Write(blob); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answer, nil)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp, err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &p.log)
	}
	if strings.Contains(p.log.String(), made.Key) {
		t.Error("the log holds the key")
	}
}

// Threat 3: the master key and the keys it wraps are in memory that is not swapped.
func TestThreat3KeysAreLocked(t *testing.T) {
	p := startServe(t)
	supervisor := proctest.Child(t, p.cmd.Process.Pid)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", proctest.Child(t, supervisor)))
	if err != nil || !regexp.MustCompile(`(?m)^VmLck:\s+[1-9]\d* kB$`).Match(status) {
		t.Errorf("%v, nothing is locked:\n%s", err, status)
	}
}

// A service whose certificate is replaced goes on; SIGHUP does not end it.
func TestHangupReloads(t *testing.T) {
	p := startServe(t)
	ok(t, p.cmd.Process.Signal(syscall.SIGHUP))
	resp, err := http.Get(p.url + wire.PathHealth)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	ok(t, p.cmd.Process.Signal(os.Interrupt))
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// What an operator does is in the ledger under an id of its own.
func TestOperatorCommandsHaveARequestID(t *testing.T) {
	dir, _ := serving(t)
	if _, errs, code := execute(t, "account", "create", "alice", "--data", dir); code != exitOK {
		t.Fatal(errs)
	}
	out, errs, code := execute(t, "export", "-", "--data", dir)
	if code != exitOK || !strings.Contains(out, `"request":"operator-`) {
		t.Errorf("exit %d %s", code, errs)
	}
}

// ok ends the test unless a step of it went well.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
