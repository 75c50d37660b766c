package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// javaScript installs the npm package once per test and returns how to run it.
func javaScript(t *testing.T, w *world) func(p *person, group, command string, args ...string) (json.RawMessage, string) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: apt-get install nodejs npm", tool)
		}
	}
	dir := w.mkdir("js")
	shell(t, dir, "npm install --silent --no-audit --no-fund --no-save nova-sdk-js@1.0.3 >npm.log 2>&1 || { cat npm.log; exit 1; }")
	script, err := filepath.Abs("testdata/sdk.mjs")
	if err != nil {
		t.Fatal(err)
	}
	return func(p *person, group, command string, args ...string) (json.RawMessage, string) {
		t.Helper()
		cmd := exec.Command("node", append([]string{script, w.url, p.id, group, command}, args...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(p.key)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		var answer struct {
			OK    json.RawMessage `json:"ok"`
			Error string          `json:"error"`
		}
		if err != nil || json.Unmarshal(out, &answer) != nil {
			t.Fatalf("node %s: %v\n%s%s", command, err, out, stderr.String())
		}
		return answer.OK, answer.Error
	}
}

// The unmodified JavaScript SDK 1.0.3 works with svcd, and exchanges files with
// the mount in both directions.
func TestJavaScriptSDK(t *testing.T) {
	w, alice, bob := team(t)
	js := javaScript(t, w)
	must := func(p *person, group, command string, args ...string) string {
		t.Helper()
		out, problem := js(p, group, command, args...)
		if problem != "" {
			t.Fatalf("%s: %s", command, problem)
		}
		return string(out)
	}
	content := bytes.Repeat([]byte("from JavaScript \x00\xff"), 10_000)
	file := filepath.Join(w.dir, "upload.bin")
	write(t, file, content)
	var uploaded struct {
		CID  string `json:"cid"`
		Tx   string `json:"trans_id"`
		Hash string `json:"file_hash"`
	}
	if err := json.Unmarshal([]byte(must(alice, "team", "upload", file, "from-js.bin")), &uploaded); err != nil {
		t.Fatal(err)
	}
	if len(uploaded.Hash) != 64 || len(uploaded.Tx) != 64 || !strings.HasPrefix(uploaded.CID, "bafy") {
		t.Errorf("upload returned %+v", uploaded)
	}
	b := bob.mount("b")
	if got := read(t, b.path("team/from-js.bin")); !bytes.Equal(got, content) {
		t.Error("the mount reads something else than JavaScript uploaded")
	}
	for name, content := range map[string][]byte{"small.txt": []byte("from the mount"), "empty": {}, "large.bin": bytes.Repeat(content, 20)} {
		write(t, b.path("team", name), content)
		eventually(t, func() string { // an empty file may take 2 s (W5)
			ref := make([]byte, 300)
			n, err := unix.Getxattr(b.path("team", name), "user.svcfs.ref", ref)
			if err != nil {
				return fmt.Sprintf("%s has no reference yet: %v", name, err)
			}
			back := filepath.Join(w.dir, "back")
			must(alice, "team", "retrieve", string(ref[:n]), back)
			if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s: JavaScript reads %d bytes, want %d", name, len(got), len(content))
			}
			return ""
		})
	}

	must(alice, "js-group", "register")
	must(alice, "js-group", "add", bob.id)
	if got := must(alice, "js-group", "authorized", bob.id); got != "true" {
		t.Errorf("isAuthorized: %s", got)
	}
	must(alice, "js-group", "revoke", bob.id)
	for command, want := range map[string]string{"owner": `"alice.svc.testnet"`, "status": `"authorized_for_group":true`} {
		if got := must(alice, "js-group", command); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	if got := must(alice, "js-group", "fee", "register_group"); got != `"640000000000000000000000"` {
		t.Errorf("estimateFee: %s", got)
	}
	if got := must(alice, "js-group", "checksum"); len(got) != 66 {
		t.Errorf("checksum: %s", got)
	}
	if got := must(alice, "js-group", "balance"); !strings.HasSuffix(got, `000"`) {
		t.Errorf("balance: %s", got)
	}
	if got := must(alice, "team", "composite", file, "twice.bin"); got != "true" {
		t.Errorf("compositeUpload and compositeRetrieve: %s", got)
	}
	if got := must(alice, "team", "hash", file); strings.Count(got, uploaded.Hash) != 2 {
		t.Errorf("computeHash: %s, want %s", got, uploaded.Hash)
	}
	if got := must(alice, "team", "network"); !strings.Contains(got, `"networkId":"testnet"`) {
		t.Errorf("getNetworkInfo: %s", got)
	}
	if got := must(alice, "team", "token"); got != "" && got != "null" {
		t.Errorf("refreshToken: %s", got)
	}
	if _, problem := js(alice, "team", "transactions"); !strings.Contains(problem, "Unauthorized") {
		t.Errorf("getTransactionsForGroup of a closed group by the free view: %q", problem)
	}
	for _, tc := range []struct{ name, group, command, arg, word string }{
		{"not a member", "js-group", "retrieve", uploaded.CID, "not authorized"},
		{"wrong group", "team", "add", alice.id, "Only group owner"},
		{"absent", "team", "retrieve", "bafyNothing", "not found"},
	} {
		if _, problem := js(bob, tc.group, tc.command, tc.arg, filepath.Join(w.dir, "x")); !strings.Contains(problem, tc.word) {
			t.Errorf("%s: %q holds no %q", tc.name, problem, tc.word)
		}
	}
	stranger := &person{w: w, id: "stranger.svc.testnet", key: alice.key}
	if _, problem := js(stranger, "team", "status"); !strings.Contains(problem, "not found") {
		t.Errorf("unknown account: %q", problem)
	}
}
