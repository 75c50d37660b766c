package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// withoutReading takes away what a service of the first generation does not
// have, and answers the ledger's view get_transactions_for_group in its place.
// It returns how often that was asked, and how often with a secret.
func withoutReading(t *testing.T, s *testkit.Server, rows map[string][]map[string]string) (asked,
	leaked *atomic.Int32) {
	t.Helper()
	for _, op := range []string{wire.OpGetGroupTransactions, wire.OpGetMemberGroups, wire.OpGetOwnedGroups,
		wire.OpGetGroupMembers} {
		s.Answer(wire.PathTools+op, http.NotFound)
	}
	asked, leaked = new(atomic.Int32), new(atomic.Int32)
	s.Answer(wire.PathRPC, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization")+r.Header.Get(wire.HeaderAPIKey)+r.Header.Get(wire.HeaderAccountID) != "" {
			leaked.Add(1)
		}
		var q struct {
			Params struct {
				Account string `json:"account_id"`
				Method  string `json:"method_name"`
				Args    []byte `json:"args_base64"`
			} `json:"params"`
		}
		var args wire.GroupRequest
		if json.NewDecoder(r.Body).Decode(&q) != nil || json.Unmarshal(q.Params.Args, &args) != nil ||
			q.Params.Method != "get_transactions_for_group" || q.Params.Account != testkit.ContractID {
			_, _ = w.Write(
				[]byte(
					`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Server error","data":"MethodNotFound"}}`))
			return
		}
		found, known := rows[args.GroupID]
		if !known {
			_, _ = w.Write(
				[]byte(
					`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Server error","data":"Smart contract panicked: Unauthorized"}}`))
			return
		}
		text, err := json.Marshal(found)
		if err != nil {
			panic(err)
		}
		numbers := make([]int, len(text))
		for i, b := range text {
			numbers[i] = int(b)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1,
			"result": map[string]any{"result": numbers, "logs": []string{}}})
	})
	return asked, leaked
}

// Where the service lists no records, the scripts read them from the ledger.
func TestAgentScriptsReadTheLedger(t *testing.T) {
	s, alice, c := memoryWorld(t, testkit.Hosted, "tëam")
	receipt, err := c.Group("tëam").Put(t.Context(), "f", bytes.NewReader([]byte("content")))
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]string{"group_id": "tëam", "user_id": string(alice.ID), "file_hash": receipt.Hash.String(),
		"ipfs_hash": string(receipt.Ref)}
	lie := map[string]string{"group_id": "tëam", "user_id": string(alice.ID), "file_hash": strings.Repeat("0", 64),
		"ipfs_hash": string(receipt.Ref)}
	asked, leaked := withoutReading(t, s, map[string][]map[string]string{"tëam": {row}, "liar": {lie}, "empty": {}})
	a := newAgent(t, s.URL, alice.ID, alice.Key.Reveal())

	if got := a.want(agentDone, "retrieve_and_decrypt.sh", "tëam", string(receipt.Ref)); string(got.out) != "content" {
		t.Errorf("%q", got.out)
	}
	var listed []map[string]string
	if err := json.Unmarshal(a.want(agentDone, "list_group_transactions.sh", "tëam").out, &listed); err != nil ||
		len(listed) != 1 || listed[0]["group_id"] != "tëam" {
		t.Errorf("%v, %v", listed, err)
	}
	for group, want := range map[string]string{"tëam": `{"authorized":true,"groups":["t\u00ebam"],"member_count":0}`,
		"other": `{"authorized":false,"groups":[],"member_count":0}`} {
		if got := strings.Join(strings.Fields(string(a.want(agentDone, "check_auth.sh", group).out)), ""); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	a.want(agentMissing, "retrieve_and_decrypt.sh", "empty", string(receipt.Ref))
	a.want(agentAuth, "retrieve_and_decrypt.sh", "foreign", string(receipt.Ref))
	a.want(agentAuth, "list_group_transactions.sh", "foreign")
	if _, err := c.Group("liar").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.want(agentMissing, "retrieve_and_decrypt.sh", "liar", string(receipt.Ref))
	if asked.Load() < 6 || leaked.Load() != 0 {
		t.Errorf("the ledger was asked %d times, %d times with a secret", asked.Load(), leaked.Load())
	}
	another := newAgent(t, s.URL, alice.ID, alice.Key.Reveal())
	another.env = append(another.env, "SVC_CONTRACT_ID=another.testnet")
	another.want(agentMissing, "retrieve_and_decrypt.sh", "tëam", string(receipt.Ref))
	another.env = append(another.env, "SVC_RPC_URL=http://example.org/rpc")
	another.want(agentMissing, "retrieve_and_decrypt.sh", "tëam", string(receipt.Ref))
}

// Threat 40: while the scripts run, no process of the machine has a secret in
// its arguments, and none but the scripts themselves in its environment.
func TestThreat40AgentProcessList(t *testing.T) {
	s, alice, c := memoryWorld(t, testkit.Hosted, "team")
	content := strings.Repeat("canary-of-the-content ", 200_000)
	receipt, err := c.Group("team").Put(t.Context(), "f", bytes.NewReader([]byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	seen := secretsOf(s)
	a := newAgent(t, s.URL, alice.ID, alice.Key.Reveal())
	write(t, filepath.Join(a.dir, "f"), []byte(content))
	for _, call := range [][]string{{"retrieve_and_decrypt.sh", "team", string(receipt.Ref)}, {"check_auth.sh", "team"},
		{"list_group_transactions.sh", "team"}, {"upload_to_svc.sh", "team", "f"}} {
		ended := make(chan agentRun)
		go func() { ended <- a.run(call[0], call[1:]...) }()
		lines, children := map[string]bool{}, map[string]bool{}
		var r agentRun
		for running := true; running; {
			select {
			case r = <-ended:
				running = false
			case <-time.After(5 * time.Millisecond): // a look takes as long
				collectProcesses(t, lines, children)
			}
		}
		if r.code != agentDone {
			t.Fatalf("%v: exit %d\n%s", call, r.code, r.err)
		}
		secrets := seen()
		for line := range lines {
			reveals(t, fmt.Sprintf("%s: %.80q", call[0], line), line, alice.Key.Reveal(), secrets, content[:20])
		}
		for environment := range children {
			reveals(t, call[0]+": the environment of curl, jq or python3", environment, alice.Key.Reveal(), secrets)
		}
		if len(lines) < 3 {
			t.Errorf("%s: only %d command lines were seen", call[0], len(lines))
		}
	}
}

// collectProcesses adds the command lines of all processes, and the environment
// of those the scripts start.
func collectProcesses(t *testing.T, lines, children map[string]bool) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		line, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "no such process") {
			t.Fatal(err)
		}
		lines[string(line)] = true
		for _, program := range []string{"curl\x00", "jq\x00", "python3\x00"} {
			if strings.HasPrefix(string(line), program) {
				if environment, err := os.ReadFile(filepath.Join(p, "environ")); err == nil {
					children[string(environment)] = true
				}
			}
		}
	}
}
