package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
)

// hosted makes the hosted network of the real service. It takes from questions and answers what the
// hosted network does not have, and says what is left in its words. The numbers are the sections of its
// wire protocol, as in the comments of package sdk.
type hosted struct {
	s    *Server
	next http.Handler

	mu       sync.Mutex
	treasury string            // account that the fees of reads go to; "" = not made yet
	aliases  map[string]string // of groups whose names svcd does not take, to the names
}

// operation is what the hosted network knows of an operation (3.3). Other fields of a request are
// ignored (3.1), and other fields of an answer are not there.
type operation struct {
	ask, answer string // fields
	read        string // fee of a look (4.6); "" = none
	// where is the part that speaks of a refusal (3.7): the contract, or the key server with this call.
	where string
}

const contract = "" // where

// hostedOperations are all that there are: no other has an answer (3.3).
var hostedOperations = map[string]operation{ //nolint:gochecknoglobals // a table
	wire.OpAuthStatus: {ask: "group_id",
		answer: "authenticated near_account_id group_id authorized_for_group auth_error"},
	wire.OpRegisterGroup:        {ask: "group_id"},
	wire.OpAddGroupMember:       {ask: "group_id member_id"},
	wire.OpRevokeGroupMember:    {ask: "group_id member_id"},
	wire.OpJoinGroup:            {ask: "group_id"},
	wire.OpCreateHackathonGroup: {ask: "group_id expires_at max_uses"},
	wire.OpCloseHackathonJoin:   {ask: "group_id"},
	wire.OpSetGroupRetention:    {ask: "group_id retention_days"},
	wire.OpPrepareUpload: {ask: "group_id filename", answer: "upload_id key group_id filename",
		where: "prepare_upload"},
	wire.OpFinalizeUpload: {ask: "upload_id encrypted_data file_hash format",
		answer: "location cid trans_id file_hash"},
	wire.OpPrepareRetrieve: {ask: "group_id ipfs_hash",
		answer: "key encrypted_b64 ipfs_hash location group_id format", where: "retrieve"},
	wire.OpGetOwnedGroups:  {read: wire.OpGetOwnedGroups},
	wire.OpGetMemberGroups: {read: wire.OpGetMemberGroups},
	wire.OpGetGroupMembers: {ask: "group_id", read: wire.OpGetGroupMembers},
	wire.OpGetGroupTransactions: {ask: "group_id", read: readRecords,
		answer: "trans_id group_id user_id file_hash ipfs_hash backend timestamp deleted"}, // 4.4
}

// readRecords is what the ledger calls reading the records of a group (4.6).
const readRecords = "get_transactions_for_group"

// hostedFees are the prices of 4.6, as the specification's table of costs has them. An upload pays its record alone,
// and a retrieval nothing.
func hostedFees() ledger.Fees {
	fees := ledger.Fees{}
	for action, tokens := range map[string]string{chain.KindRegister: "0.64", chain.KindAdd: "0.013",
		chain.KindRevoke: "0.001",
		chain.KindJoin:   "0.001", chain.KindRecord: "0.026", ledger.ActionUpload: "0.026", chain.KindClaim: "0.013",
		wire.OpGetOwnedGroups: "0.0013", wire.OpGetMemberGroups: "0.0013", wire.OpGetGroupMembers: "0.0013",
		readRecords: "0.0013"} {
		fee, err := wire.ParseTokens(tokens)
		if err != nil {
			panic(err) // a constant of this file
		}
		fees[action] = fee
	}
	return fees
}

func (s *Server) newHosted(next http.Handler) http.Handler {
	return &hosted{s: s, next: next, aliases: map[string]string{}}
}

// ServeHTTP answers as the hosted network does.
func (h *hosted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op, isTool := strings.CutPrefix(r.URL.Path, wire.PathTools)
	known, ok := hostedOperations[op]
	switch {
	case isTool && ok && r.Method == http.MethodPost: // 3.1
		h.operate(w, r, op, known)
	case r.URL.Path == wire.PathSessionToken && r.Method == http.MethodPost:
		h.signIn(w, r)
	case r.URL.Path == wire.PathRPC: // the node of the ledger, section 4
		raw, again := body(r)
		if asksOurPrice(raw) {
			raw = bytes.Replace(raw, []byte(`"estimate_fee"`), []byte(`"get_dynamic_fee"`), 1) // always 0 (4.2)
			again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		}
		h.next.ServeHTTP(w, again)
	case r.URL.Path == wire.PathHealth: // 3.1
		writeJSON(w, http.StatusOK, map[string]any{"status": "MCP ready", "version": "0.4.4", "auth": "enabled",
			"rpc_reachable": true})
	default: // neither what is ours nor /api/finalize-upload, 3.3 and 3.4
		http.Error(w, "Not Found", http.StatusNotFound)
	}
}

// asksOurPrice reports whether a request asks for the fee of an action by our name, which the contract does
// not know: it says 0 (4.6).
func asksOurPrice(raw []byte) bool {
	var req struct {
		Params struct {
			Method string `json:"method_name"`
			Args   []byte `json:"args_base64"`
		} `json:"params"`
	}
	var args struct {
		Action string `json:"action"`
	}
	return json.Unmarshal(raw, &req) == nil && req.Params.Method == "estimate_fee" &&
		json.Unmarshal(req.Params.Args, &args) == nil &&
		(args.Action == ledger.ActionUpload || args.Action == ledger.ActionRetrieve)
}

// signIn answers as 2.1: an account that does not exist has no key.
func (h *hosted) signIn(w http.ResponseWriter, r *http.Request) {
	answer := record(h.next, r)
	var refused wire.Error
	switch {
	case answer.Code == http.StatusOK, json.Unmarshal(answer.Body.Bytes(), &refused) != nil:
		forward(w, answer)
	case refused.Code == wire.CodeAccountUnknown:
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "No API key configured"})
	default:
		writeJSON(w, answer.Code, map[string]string{"error": refused.Error})
	}
}

func (h *hosted) operate(w http.ResponseWriter, r *http.Request, op string, known operation) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	var asked map[string]json.RawMessage
	if json.Unmarshal(raw, &asked) != nil {
		asked = nil // counts as {} (3.1)
	}
	keep(asked, known.ask)
	var group string
	if json.Unmarshal(asked["group_id"], &group) == nil { // else ask for a list of groups
		group = h.alias(group)
		asked["group_id"], _ = json.Marshal(group)
	}
	if raw, err = json.Marshal(asked); err != nil || asked == nil {
		raw = []byte("{}")
	}
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	answer := record(h.next, again)
	answer.Body = bytes.NewBuffer(h.named(answer.Body.Bytes()))
	if answer.Code != http.StatusOK {
		h.refuse(w, answer, known)
		return
	}
	if err := h.charge(r, known, group); err != nil {
		e := fault.Of(err)
		writeJSON(w, http.StatusInternalServerError, map[string]string{"error": e.Text})
		return
	}
	result, err := known.said(op, answer.Body.Bytes())
	if err != nil {
		h.s.tb.Errorf("%s: %v", op, err)
	}
	writeJSON(w, http.StatusOK, map[string]any{"result": result}) // 3.2
}

// alias is the name under which svcd has a group. The contract takes every name (4.3).
func (h *hosted) alias(group string) string {
	if strings.TrimSpace(group) == group &&
		!strings.ContainsFunc(group, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return group
	}
	alias := fmt.Sprintf("alias-%x", group)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aliases[alias] = group
	return alias
}

// named puts the names of groups in the place of aliases.
func (h *hosted) named(answer []byte) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	for alias, group := range h.aliases {
		quoted, err := json.Marshal(group)
		if err != nil {
			panic(err)
		}
		answer = bytes.ReplaceAll(answer, []byte(alias), quoted[1:len(quoted)-1])
	}
	return answer
}

// refuse says an error as 3.7 has it: status 500 for all but those of the sign-in (3.1), and a text
// without a code.
func (h *hosted) refuse(w http.ResponseWriter, answer *httptest.ResponseRecorder, known operation) {
	var e wire.Error
	if json.Unmarshal(answer.Body.Bytes(), &e) != nil {
		forward(w, answer)
		return
	}
	if answer.Code == http.StatusUnauthorized {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": e.Error})
		return
	}
	// What the key server says, and with which status it says it to the service.
	shade, isShade := map[string]struct {
		status     int
		text, code string
	}{
		wire.CodeNotAuthorized: {http.StatusForbidden, "Unauthorized", "UNAUTHORIZED"},
		wire.CodeGroupNotFound: {http.StatusNotFound, "Group not found", "GROUP_NOT_FOUND"},
		wire.CodeFileNotFound:  {http.StatusNotFound, "No key for this file", "FILE_KEY_NOT_FOUND"},
		wire.CodeFileDeleted:   {http.StatusNotFound, "File deleted", "FILE_DELETED"},
	}[e.Code]
	text := e.Error
	switch {
	case known.where != contract && isShade:
		text = fmt.Sprintf("Shade %s failed: %d - {\"error\":%q,\"code\":%q}", known.where, shade.status, shade.text,
			shade.code)
	case known.read != "" && e.Code == wire.CodeNotAuthorized:
		text = panicked("Unauthorized")
	case e.Code == wire.CodeUploadUnknown, e.Code == wire.CodeValidation && known.answer != "": // 3.5
	case answer.Code < http.StatusInternalServerError:
		text = panicked(text)
	}
	writeJSON(w, http.StatusInternalServerError, map[string]string{"error": text})
}

// panicked is how a contract's panic reaches a client (3.7).
func panicked(text string) string {
	return "{'ActionError': {'index': 0, 'kind': {'FunctionCallError': {'ExecutionError': 'Smart contract panicked: " +
		text + "'}}}}"
}

// said takes the result out of an answer and leaves what the hosted network says.
func (known operation) said(op string, raw []byte) (any, error) {
	var envelope struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(raw, &envelope) != nil || len(envelope.Result) == 0 {
		return nil, errNoAnswer
	}
	if known.answer == "" { // a sentence or a list of ids
		return envelope.Result, nil
	}
	if envelope.Result[0] == '[' {
		var rows []map[string]json.RawMessage
		if json.Unmarshal(envelope.Result, &rows) != nil {
			return nil, errNoAnswer
		}
		for _, row := range rows {
			keep(row, known.answer)
		}
		return rows, nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(envelope.Result, &fields) != nil {
		return nil, errNoAnswer
	}
	keep(fields, known.answer)
	if id, isText := fields["trans_id"]; isText && op == wire.OpFinalizeUpload {
		fields["trans_id"] = json.RawMessage(strconv.Quote(string(id))) // with its quotes as a part of it (4.5)
	}
	return fields, nil
}

// keep removes every other field.
func keep(fields map[string]json.RawMessage, names string) {
	wanted := strings.Fields(names)
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return !slices.Contains(wanted, name) })
}

// charge takes the fee of a look, which is free in groups that can be joined (3.3).
func (h *hosted) charge(r *http.Request, known operation, group string) error {
	if known.read == "" || group != "" && h.isJoinable(group) {
		return nil
	}
	treasury, err := h.account()
	if err == nil {
		_, err = h.s.Service.Transfer(r.Context(), r.Header.Get(wire.HeaderAccountID), treasury,
			hostedFees()[known.read])
	}
	return err
}

// account returns the account of the network, and makes it.
func (h *hosted) account() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.treasury != "" {
		return h.treasury, nil
	}
	made, err := h.s.Service.CreateAccount(context.Background(), "network", wire.Amount{})
	if err == nil {
		h.treasury = made.AccountID
	}
	return h.treasury, err
}

// isJoinable asks the ledger.
func (h *hosted) isJoinable(group string) bool {
	args, err := json.Marshal(map[string]string{"group_id": group})
	if err != nil {
		return false
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "query",
		"params": map[string]any{"request_type": "call_function", "finality": "final", "account_id": ContractID,
			"method_name": "is_group_joinable", "args_base64": args}})
	if err != nil {
		return false
	}
	answer := record(h.next, httptest.NewRequest(http.MethodPost, wire.PathRPC, bytes.NewReader(body)))
	var out struct {
		Result struct {
			Result []int `json:"result"`
		} `json:"result"`
	}
	_ = json.Unmarshal(answer.Body.Bytes(), &out)
	return len(out.Result.Result) == len("true")
}

// record lets a handler answer, and keeps the answer.
func record(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// forward sends an answer that was kept.
func forward(w http.ResponseWriter, from *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), from.Header())
	w.WriteHeader(from.Code)
	_, _ = w.Write(from.Body.Bytes())
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own shapes
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the caller may be gone
}
