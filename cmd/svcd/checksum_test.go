package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// mustRun runs a command line and returns what it prints.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out, failed bytes.Buffer
	if code := run(t.Context(), args, &out, &failed); code != exitOK {
		t.Fatalf("svcd %v: exit code %d: %s", args, code, failed.String())
	}
	return out.String()
}

// firstWord runs a command line with sh.
func firstWord(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh",
		append([]string{"-euc", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("sh: %v\n%s", err, out)
	}
	sum, _, _ := strings.Cut(string(out), " ")
	return sum
}

// owner is an account of a service in this process.
type owner struct {
	t       *testing.T
	handler http.Handler
	header  http.Header
}

func (o *owner) post(path string, request any) (answer struct{ Token, Result string }) {
	o.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		o.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(o.t.Context(), http.MethodPost, path, bytes.NewReader(body))
	r.Header = o.header
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		o.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return answer
}

// The command that svcd prints and the shell function of service/LEDGER.md both
// give the checksum that clients are told, also for names that a shell would
// take apart, and another one after a rotation.
func TestChecksumCanBeComputedWithoutSvcd(t *testing.T) {
	text, err := os.ReadFile("../../service/LEDGER.md")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(text)
	if function == nil {
		t.Fatal("service/LEDGER.md has no shell function")
	}
	example := regexp.MustCompile(`(?m)^    \$ checksum team 1 0000 AAAA\n    ([0-9a-f]{64})  -$`).FindSubmatch(text)
	got := firstWord(t, string(function[1])+"checksum team 1 0000 AAAA")
	if example == nil || got != string(example[1]) {
		t.Errorf("the example of service/LEDGER.md gives %s", got)
	}

	dir := t.TempDir()
	var made struct {
		AccountID string `json:"account_id"`
		APIKey    string `json:"api_key"`
	}
	ok(t, json.Unmarshal([]byte(mustRun(t, "account", "create", "alice", "--data", dir)), &made))
	mustRun(t, "account", "create", "bob", "--data", dir)
	svc, err := service.Open(t.Context(), service.Config{DataDir: dir, PublicURL: "http://127.0.0.1:1",
		Vault: (&settings{stderr: io.Discard}).vault})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	alice := &owner{t, svc.Handler(), http.Header{wire.HeaderAPIKey: {made.APIKey},
		wire.HeaderAccountID: {made.AccountID}}}
	token := alice.post(wire.PathSessionToken, wire.SessionTokenRequest{AccountID: made.AccountID}).Token
	alice.header = http.Header{"Authorization": {"Bearer " + token}}

	keeper, err := os.ReadFile(filepath.Join(programs.Dir(t, "svcd"), vaultProgram))
	ok(t, err)
	w := httptest.NewRecorder()
	svc.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, wire.PathCapabilities, nil))
	var said wire.Capabilities
	ok(t, json.Unmarshal(w.Body.Bytes(), &said))
	if said.Vault == nil || said.Vault.Measurement != fmt.Sprintf("%x", sha256.Sum256(keeper)) ||
		!slices.Contains(said.Vault.Evidence, wire.Evidence{Kind: wire.EvidenceOperator}) {
		t.Fatalf("the service says of its vault %+v", said.Vault)
	}

	for _, group := range []string{"team", "it's %d \\ \"$(x)\" `y`", "Grüße 1", strings.Repeat("x", 128)} {
		alice.post(wire.PathTools+wire.OpRegisterGroup, wire.GroupRequest{GroupID: group})
		told := map[string]bool{}
		for version := 1; version <= 3; version++ {
			sum := alice.checksum(group)
			printed := mustRun(t, "checksum", group, "--data", dir)
			command := regexp.MustCompile(`(?m)^command +(.*)$`).FindStringSubmatch(printed)
			if command == nil || !strings.Contains(printed, sum) ||
				!strings.Contains(printed, fmt.Sprintf("key version  %d\n", version)) {
				t.Fatalf("svcd checksum prints\n%swant %s, version %d", printed, sum, version)
			}
			if got := firstWord(t, command[1]); got != sum {
				t.Errorf("%q version %d: the printed command gives %s, the service %s", group, version, got, sum)
			}
			if got := firstWord(t, string(function[1])+`checksum "$@"`, group, fmt.Sprint(version),
				said.Vault.Measurement, said.Vault.PublicKey); got != sum {
				t.Errorf("%q version %d: the documented function gives %s, the service %s", group, version, got, sum)
			}
			if told[sum] {
				t.Errorf("%q version %d: the checksum did not change with the rotation", group, version)
			}
			told[sum] = true
			member := wire.MemberRequest{GroupID: group, MemberID: "bob"}
			alice.post(wire.PathTools+wire.OpAddGroupMember, member)
			alice.post(wire.PathTools+wire.OpRevokeGroupMember, member)
		}
	}
	var out, failed bytes.Buffer
	if code := run(t.Context(), []string{"checksum", "nobody", "--data", dir}, &out, &failed); code != exitNotFound {
		t.Errorf("unknown group: exit code %d: %s", code, failed.String())
	}
}

// checksum asks as every client does, through the ledger's view.
func (o *owner) checksum(group string) string {
	o.t.Helper()
	args, err := json.Marshal(wire.GroupRequest{GroupID: group})
	if err != nil {
		o.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "query", "params": map[string]any{
		"request_type": "call_function", "method_name": "get_group_checksum", "args_base64": args}})
	if err != nil {
		o.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, httptest.NewRequestWithContext(o.t.Context(), http.MethodPost, wire.PathRPC,
		bytes.NewReader(body)))
	var answer struct {
		Result struct{ Result []uint16 }
	}
	ok(o.t, json.Unmarshal(w.Body.Bytes(), &answer))
	raw := make([]byte, len(answer.Result.Result))
	for i, b := range answer.Result.Result {
		raw[i] = byte(b)
	}
	var sum string
	if err := json.Unmarshal(raw, &sum); err != nil || len(sum) != 64 {
		o.t.Fatalf("checksum of %q: %s", group, w.Body)
	}
	return sum
}
