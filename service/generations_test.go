package service_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
)

// sdk12 sends requests shaped exactly as the JavaScript SDK 1.2.x does (wire
// protocol 2.3, 3.2, 3.3, 4.1) and reads the answers as it does.
type sdk12 struct {
	*user
	nextID int
}

// call is a tool call: both account headers, the result taken out of its
// envelope when the body is an object with that key.
func (s *sdk12) call(tool string, args object) (any, string) {
	s.t.Helper()
	header := http.Header{"Authorization": {"Bearer " + s.token}, "X-Account-Id": {s.id}, "X-Wallet-Id": {s.id},
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/plain, */*"}}
	status, raw := s.post("/tools/"+tool, header, args)
	var body any
	if err := json.Unmarshal(raw, &body); err != nil {
		s.t.Fatalf("%s answers no JSON: %s", tool, raw)
	}
	fields, isObject := body.(object)
	if status < 200 || status > 299 {
		text, isText := fields["error"].(string)
		if !isText {
			s.t.Fatalf("%s: error is no string: %s", tool, raw)
		}
		return nil, text
	}
	if value, ok := fields["result"]; isObject && ok {
		return value, ""
	}
	return body, ""
}

// message is the sentence that the SDK returns for an operation: its fallback, unless
// the result has a message; a null result throws there.
func (s *sdk12) message(tool string, args object) string {
	s.t.Helper()
	result, problem := s.call(tool, args)
	if problem != "" {
		return "MCP tool '" + tool + "' failed: " + problem
	}
	if result == nil {
		s.t.Fatalf("%s: the result is null, on which the SDK throws", tool)
	}
	if fields, ok := result.(object); ok && fields["message"] != nil {
		return fields["message"].(string)
	}
	return fmt.Sprint(result)
}

// view is a read of the ledger as the SDK's JSON-RPC provider sends it.
func (s *sdk12) view(method string, args object) (any, string) {
	s.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.rpc(object{"request_type": "call_function", "finality": "final", "account_id": "svc.testnet",
		"method_name": method,
		"args_base64": base64.StdEncoding.EncodeToString(raw)})
}

func (s *sdk12) rpc(params object) (any, string) {
	s.t.Helper()
	s.nextID++
	id := 122 + s.nextID
	status, raw := s.post("/rpc", http.Header{"Content-Type": {"application/json"}},
		object{"jsonrpc": "2.0", "id": id, "method": "query", "params": params})
	var answer struct {
		Version string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Error   *struct {
			Code    int    `json:"code"`
			Name    string `json:"name"`
			Message string `json:"message"`
			Data    string `json:"data"`
			Cause   struct {
				Name string `json:"name"`
			} `json:"cause"`
		} `json:"error"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || status != http.StatusOK || answer.ID != id ||
		answer.Version != "2.0" {
		s.t.Fatalf("rpc: %d %s", status, raw)
	}
	if e := answer.Error; e != nil {
		if e.Code != -32000 || e.Name != "HANDLER_ERROR" || e.Message != "Server error" || e.Cause.Name == "" {
			s.t.Errorf("rpc error is shaped unlike the network's: %s", raw)
		}
		return nil, fmt.Sprintf("[%d] %s: %s", e.Code, e.Message, e.Data)
	}
	if params["request_type"] == "view_account" {
		var account object
		ok(s.t, json.Unmarshal(answer.Result, &account))
		return account, ""
	}
	var call struct {
		Bytes []int    `json:"result"`
		Logs  []string `json:"logs"`
	}
	if err := json.Unmarshal(answer.Result, &call); err != nil || call.Logs == nil {
		s.t.Fatalf("call_function: %v %s", err, answer.Result)
	}
	text := make([]byte, len(call.Bytes))
	for i, b := range call.Bytes {
		text[i] = byte(b)
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		s.t.Fatalf("%s: %q is no JSON: %v", params["method_name"], text, err)
	}
	return value, ""
}

// TestRequestsOf12 walks through every method of the JavaScript SDK 1.2.x.
func TestRequestsOf12(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := &sdk12{user: r.user("alice", "10")}, &sdk12{user: r.user("bob", "10")}

	expect := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	t.Run("groups and their refusals", func(t *testing.T) {
		expect("registerGroup", alice.message("register_group", object{"group_id": "team"}),
			"Group 'team' registered successfully")
		expect("addGroupMember", alice.message("add_group_member", object{"group_id": "team", "member_id": bob.id}),
			"Added bob.svc.testnet to group 'team'")
		expect("setGroupRetention", alice.message("set_group_retention",
			object{"group_id": "team", "retention_days": 30}), "Set retention for group 'team' to 30 days")
		expect("setGroupRetention clear", alice.message("set_group_retention",
			object{"group_id": "team", "retention_days": nil}), "Cleared retention window for group 'team'")
		expect("open", alice.message("create_hackathon_group",
			object{"group_id": "open", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano()),
				"max_uses": nil}),
			"Opened join window for group 'open'")
		expect("joinGroup", bob.message("join_group", object{"group_id": "open"}), "Joined group 'open'")
		expect("close", alice.message("close_hackathon_join", object{"group_id": "open"}),
			"Closed join window for group 'open'")
		for name, wants := range map[string]string{
			"register twice": alice.message("register_group", object{"group_id": "team"}) + "|Group exists",
			"add twice": alice.message("add_group_member", object{"group_id": "team", "member_id": bob.id}) +
				"|already a member",
			"not the owner": bob.message("add_group_member", object{"group_id": "team", "member_id": "x"}) +
				"|Only group owner",
			"closed": (&sdk12{user: r.user("carol", "1")}).message("join_group", object{"group_id": "team"}) +
				"|not open for join",
		} {
			if text, word, _ := strings.Cut(wants, "|"); !strings.Contains(text, word) {
				t.Errorf("%s: %q holds no %q", name, text, word)
			}
		}
	})

	// upload: prepare, encrypt, finalize with format
	content := []byte("from 1.2.x")
	prepared, problem := alice.call("prepare_upload", object{"group_id": "team", "filename": "a.txt"})
	if problem != "" {
		t.Fatal(problem)
	}
	p := prepared.(object)
	finalized, problem := alice.call("finalize_upload",
		object{"upload_id": p["upload_id"], "encrypted_data": seal(t, p["key"].(string), content),
			"file_hash": strings.ToUpper(hash(content)),
			"format": object{"version": 1, "backend": "fastfs", "encryption": "AES-256-GCM",
				"wrapping": "AES-GCM-keywrap", "original_size": len(content),
				"content_type": "application/octet-stream"}})
	if problem != "" {
		t.Fatal(problem)
	}
	f := finalized.(object)
	ref, _ := f["location"].(string)
	if ref == "" || f["cid"] != ref || f["file_hash"] != hash(content) || len(f["trans_id"].(string)) != 64 {
		t.Errorf("upload: %v", f)
	}
	t.Run("retrieve gives the ciphertext once and the format as it was sent", func(t *testing.T) {
		got, problem := bob.call("prepare_retrieve", object{"group_id": "team", "ipfs_hash": ref})
		if problem != "" {
			t.Fatal(problem)
		}
		g := got.(object)
		meta, _ := g["format"].(object)
		if g["ipfs_hash"] != ref || g["group_id"] != "team" || meta["version"] != 1.0 ||
			meta["original_size"] != float64(len(content)) {
			t.Errorf("retrieve: %v", g)
		}
		key, err := format.ParseKey(g["key"].(string))
		if err != nil {
			t.Fatal(err)
		}
		blob, err := base64.StdEncoding.DecodeString(g["encrypted_b64"].(string))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := format.OpenBlob(key, blob); err != nil || !bytes.Equal(plain, content) {
			t.Errorf("retrieve: %q %v", plain, err)
		}
	})
	t.Run("lists and status", func(t *testing.T) {
		expect("getOwnedGroups", fmt.Sprint(first(alice.call("get_owned_groups", object{}))), "[open team]")
		expect("getMemberGroups", fmt.Sprint(first(bob.call("get_member_groups", object{}))), "[open team]")
		expect("getGroupMembers", fmt.Sprint(first(bob.call("get_group_members", object{"group_id": "team"}))),
			"[alice.svc.testnet bob.svc.testnet]")
		rows := first(bob.call("get_group_transactions", object{"group_id": "team"})).([]any)
		row := rows[0].(object)
		if len(rows) != 1 || row["ipfs_hash"] != ref || row["backend"] != "FastFS" || row["user_id"] != alice.id ||
			row["deleted"] != nil {
			t.Errorf("getTransactionsForGroup: %v", rows)
		}
		status := first(bob.call("auth_status", object{"group_id": "team"})).(object)
		if status["authenticated"] != true || status["near_account_id"] != bob.id ||
			status["authorized_for_group"] != true {
			t.Errorf("authStatus: %v", status)
		}
		if _, has := first(bob.call("auth_status",
			object{"group_id": "default"})).(object)["authorized_for_group"]; has {
			t.Error("authStatus of default speaks of a group")
		}
	})
	alice.views(t, bob)
	t.Run("revocation", func(t *testing.T) {
		expect("revokeGroupMember", alice.message("revoke_group_member",
			object{"group_id": "team", "member_id": bob.id}), "Revoked bob.svc.testnet from group 'team' (key rotated)")
		if _, problem := bob.call("prepare_retrieve",
			object{"group_id": "team", "ipfs_hash": ref}); !strings.Contains(problem, "not authorized") ||
			!strings.Contains(problem, "Unauthorized") {
			t.Errorf("revoked: %q", problem)
		}
	})
}

// views reads the ledger by JSON-RPC.
func (s *sdk12) views(t *testing.T, member *sdk12) {
	account := first(s.rpc(object{"request_type": "view_account", "finality": "optimistic", "account_id": member.id})).(object)
	if account["amount"] != wireAmount(member.balance()) || account["locked"] != "0" {
		t.Errorf("getBalance: %v", account)
	}
	if _, problem := s.rpc(object{"request_type": "view_account", "finality": "optimistic",
		"account_id": "nobody.svc.testnet"}); problem !=
		"[-32000] Server error: account nobody.svc.testnet does not exist while viewing" {
		t.Errorf("unknown account: %q", problem)
	}
	for _, tc := range []struct {
		method string
		args   object
		want   string
	}{
		{"is_authorized", object{"group_id": "team", "user_id": member.id}, "true"},
		{"is_authorized", object{"group_id": "team", "user_id": "x.svc.testnet"}, "false"},
		{"get_group_owner", object{"group_id": "team"}, s.id},
		{"estimate_fee", object{"action": "record_transaction"}, "26000000000000000000000"},
		{"estimate_fee", object{"action": "register_group"}, "640000000000000000000000"},
		{"estimate_fee", object{"action": "nonsense"}, "0"},
		{"get_group_checksum", object{"group_id": "absent"}, "<nil>"},
		{"group_contains_key", object{"group_id": "absent"}, "false"},
		{"is_group_joinable", object{"group_id": "open"}, "true"},
		{"get_group_retention", object{"group_id": "team"}, "<nil>"},
		{"get_dynamic_fee", object{"_action": "x"}, "0"},
		{"get_group_members_public", object{"group_id": "open"}, "[" + s.id + " " + member.id + "]"},
		{"get_transactions_for_group", object{"group_id": "open", "user_id": s.id}, "[]"},
	} {
		got, problem := s.view(tc.method, tc.args)
		if fmt.Sprint(got) != tc.want || problem != "" {
			t.Errorf("%s(%v): %v %s, want %s", tc.method, tc.args, got, problem, tc.want)
		}
	}
	for method, word := range map[string]string{"is_authorized": "Group not found",
		"get_group_owner": "Group not found"} {
		if _, problem := s.view(method, object{"group_id": "absent", "user_id": "x"}); !strings.Contains(problem,
			word) {
			t.Errorf("%s of an absent group: %q", method, problem)
		}
	}
	if _, problem := s.view("get_transactions_for_group",
		object{"group_id": "team", "user_id": s.id}); !strings.Contains(problem, "Unauthorized") {
		t.Errorf("the closed group's rows are public: %q", problem)
	}
	if sum := first(s.view("get_group_checksum", object{"group_id": "team"})).(string); len(sum) != 64 {
		t.Errorf("checksum %q", sum)
	}
}

func first(value any, problem string) any {
	if problem != "" {
		return problem
	}
	return value
}

// wireAmount turns tokens into decimal yocto, as the wire has it.
func wireAmount(tokens string) string {
	amount, err := wire.ParseTokens(tokens)
	if err != nil {
		return err.Error()
	}
	return amount.String()
}

// TestPricedChanges: an operator may price changes that are free by default, and a
// revocation is followed by a record of the group's new key.
func TestPricedChanges(t *testing.T) {
	t.Parallel()
	fees := ledger.DefaultFees()
	price, err := wire.ParseTokens("0.5")
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{chain.KindRename, chain.KindTombstone, chain.KindRetention, chain.KindOpenJoin,
		chain.KindCloseJoin} {
		fees[action] = price
	}
	r := runWith(t, service.Config{Database: newDatabase(t), Fees: fees})
	alice := r.user("alice", "10")
	until := fmt.Sprint(time.Now().Add(time.Hour).UnixNano())
	must[string](alice, wire.OpCreateHackathonGroup, object{"group_id": "g", "expires_at": until}) // 0.64 + 0.5
	must[string](alice, wire.OpCloseHackathonJoin, object{"group_id": "g"})
	must[string](alice, wire.OpSetGroupRetention, object{"group_id": "g", "retention_days": 30})
	ref := alice.upload("g", "a", []byte("x")).Location // 0.039
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": "b"})
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	if got := alice.balance(); got != "6.821" {
		t.Errorf("balance %s, want 10 - 0.64 - 0.039 - 5 * 0.5", got)
	}
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "bob"})
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": "bob"})
	rows := must[[]object](alice, wire.OpGetGroupTransactions,
		object{"group_id": "g", "kinds": "all", "layouts": layouts()})
	last := rows[len(rows)-1]
	if last["kind"] != chain.KindRotateGroup || last["detail"] != "2" {
		t.Errorf("the last record: %v", last)
	}
}

// Threat 27: a transfer changes two balances and their sum not at all.
func TestThreat27Transfer(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "1")
	tokens := func(text string) wire.Amount {
		amount, err := wire.ParseTokens(text)
		if err != nil {
			t.Fatal(err)
		}
		return amount
	}
	for _, tc := range []struct{ from, to, amount, want, left string }{
		{"alice", "bob", "2.5", "", "7.5"},
		{"alice", "bob", "7.6", "Insufficient", "7.5"},
		{"alice", "nobody", "1", "not found", "7.5"},
		{"alice", "alice", "1", "two accounts", "7.5"},
		{"alice", "bob", "0", "above zero", "7.5"},
		{"alice", "bob", "7.5", "", "0"},
	} {
		_, err := r.svc.Transfer(t.Context(), tc.from, tc.to, tokens(tc.amount))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v", tc, err)
		}
		if got := alice.balance(); got != tc.left {
			t.Errorf("%+v: alice has %s", tc, got)
		}
	}
	if got := bob.balance(); got != "11" {
		t.Errorf("bob has %s, want 11", got)
	}
	if n, err := r.svc.Audit(t.Context()); err != nil || n != 4 { // two accounts, two transfers
		t.Errorf("audit: %d records, %v", n, err)
	}
}

// A client that does not name the format, as nova-sdk-js 1.0.3, is refused compressed
// content before the fee; every other client gets it.
func TestCompressedContentOf10(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	request := alice.finalize("g", "f", []byte("zlib"))
	request.Format = json.RawMessage(`{"version":1,"compression":"deflate","original_size":100}`)
	ref := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, request).CID
	before := alice.balance()
	status, body := alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
	if status != http.StatusNotFound || !strings.Contains(body, "this file is compressed") ||
		alice.balance() != before {
		t.Errorf("1.0.3: %d %s, balance %s of %s", status, body, alice.balance(), before)
	}
	if _, problem := (&sdk12{user: alice}).call(wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": ref}); problem != "" {
		t.Errorf("1.2: %s", problem)
	}
	if status, body := alice.tool(wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": ref, "transfer": "raw"}); status != http.StatusOK {
		t.Errorf("raw: %d %s", status, body)
	}
}
