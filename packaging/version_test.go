package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// initialize is the first message of the Model Context Protocol.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"test","version":"0"}}}` + "\n"

// checkVersions asks everything that tells a version, in packages that were made as 1.2.3: programs, bills, image, and
// each answer of a running service.
func checkVersions(t *testing.T, made string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"svcfs", "svcd"} {
		file := filepath.Join(made, name+"_1.2.3_linux_amd64.tar.gz")
		tar := exec.Command("tar", "xzf", file, "-C", dir, "--strip-components=1")
		if out, err := tar.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	home := []string{"HOME=" + dir, "SVC_ACCOUNT_ID=alice.svc.testnet", "SVC_API_KEY_FILE=" + filepath.Join(dir, "key"),
		"PATH=" + os.Getenv("PATH")}
	run := func(input string, words ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "usr/bin", words[0]), words[1:]...)
		cmd.Env, cmd.Stdin = home, strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", words, err, out)
		}
		return string(out)
	}
	told := map[string]string{"svcfs": run("", "svcfs", "version"), "svcfs -V": run("", "svcfs", "-V"),
		"svcd": run("", "svcd", "version"), "svcvault": run("", "svcvault", "--version"),
		"svcfs --json": run("", "svcfs", "version", "--json")}
	for _, name := range []string{"svcfs_1.2.3_amd64.cdx.json", "svcd_1.2.3_amd64.cdx.json",
		"svcvault_1.2.3_amd64.cdx.json"} {
		text, err := os.ReadFile(filepath.Join(made, name))
		if err != nil {
			t.Fatal(err)
		}
		told[name], _, _ = strings.Cut(string(text), `"components"`)
	}
	image, err := os.ReadFile(filepath.Join(made, "svcd_1.2.3_oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	told["image"] = string(regexp.MustCompile(`"org.opencontainers.image.version":"[^"]*"`).Find(image))

	data := filepath.Join(dir, "data")
	url := serve(t, filepath.Join(dir, "usr/bin/svcd"), data, filepath.Join(dir, "out"))
	run("", "svcd", "account", "create", "alice", "--data", data, "--api-key-file", filepath.Join(dir, "key"))
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	home = append(home, "SVC_URL="+url)
	told["svcfs mcp"] = run(initialize, "svcfs", "mcp")
	for path, body := range map[string]string{"/health": "", "/capabilities": "", "/rpc": `{"method":"status"}`,
		"/mcp": initialize} {
		told[path] = ask(t, url+path, body, strings.TrimSpace(string(key)))
	}
	whole := regexp.MustCompile(`(^|[ "])1\.2\.3(["\s]|$)`)
	for where, text := range told {
		if !whole.MatchString(text) {
			t.Errorf("%s tells another version: %s", where, text)
		}
	}
}

// serve runs svcd until the test ends, and returns its address.
func serve(t *testing.T, svcd, data, out string) string {
	t.Helper()
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(svcd, "serve", "--data", data, "--listen", "127.0.0.1:0")
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = f
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait(); _ = f.Close() })
	var text bytes.Buffer
	at := regexp.MustCompile(`listening on (\S+)\s`)
	for some := make([]byte, 1<<10); ; {
		n, err := pipe.Read(some)
		text.Write(some[:n])
		if m := at.FindSubmatch(text.Bytes()); m != nil {
			return string(m[1])
		}
		if err != nil {
			log, _ := os.ReadFile(out)
			t.Fatalf("svcd does not listen: %v: %s%s", err, text.Bytes(), log)
		}
	}
}

// ask sends a request as alice, a POST if it has a body.
func ask(t *testing.T, url, body, key string) string {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"X-Api-Key": {key}, "X-Account-Id": {"alice.svc.testnet"},
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, resp.Status, text)
	}
	return string(text)
}
