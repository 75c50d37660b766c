package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/vault"
)

// rpcRequest is a JSON-RPC 2.0 request as the network's clients send it.
type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestType string `json:"request_type"`
		AccountID   string `json:"account_id"`
		MethodName  string `json:"method_name"`
		Args        []byte `json:"args_base64"`
	} `json:"params"`
}

// rpc answers the views of the ledger like the real network (wire protocol 4.1):
// HTTP 200 always, errors inside.
func (s *server) rpc(w http.ResponseWriter, r *http.Request) {
	if err := s.clients.mayLook(traceOf(r.Context()).client); err != nil {
		writeRPC(w, nil, nil, rpcFault("TOO_MANY_REQUESTS", "REQUEST_VALIDATION_ERROR", fault.Of(err).Text))
		return
	}
	raw, err := body(w, r, maxRequestBytes)
	var req rpcRequest
	if err != nil || json.Unmarshal(raw, &req) != nil {
		writeRPC(w, req.ID, nil, rpcFault("PARSE_ERROR", "REQUEST_VALIDATION_ERROR", "the request is not understood"))
		return
	}
	if req.Method == "status" {
		writeRPC(w, req.ID, map[string]any{"chain_id": s.ContractID, "version": map[string]string{"version": s.Version}}, nil)
		return
	}
	if req.Method != "query" {
		writeRPC(w, req.ID, nil, rpcFault("METHOD_NOT_FOUND", "REQUEST_VALIDATION_ERROR", "only query and status are answered here"))
		return
	}
	switch req.Params.RequestType {
	case "view_account":
		s.viewAccount(r.Context(), w, req)
	case "call_function":
		s.callFunction(r.Context(), w, req)
	default:
		writeRPC(w, req.ID, nil, rpcFault("PARSE_ERROR", "REQUEST_VALIDATION_ERROR", "request_type must be view_account or call_function"))
	}
}

const (
	noBlockHash = "11111111111111111111111111111111"
	noCodeHash  = noBlockHash
)

func (s *server) viewAccount(ctx context.Context, w http.ResponseWriter, req rpcRequest) {
	balance, err := s.Accounts.Balance(ctx, req.Params.AccountID)
	if err != nil {
		if fault.Of(err).Code != wire.CodeAccountUnknown {
			writeRPC(w, req.ID, nil, s.internal(ctx, err))
			return
		}
		writeRPC(w, req.ID, nil, rpcFault("UNKNOWN_ACCOUNT", "HANDLER_ERROR", "account "+req.Params.AccountID+" does not exist while viewing"))
		return
	}
	writeRPC(w, req.ID, map[string]any{"amount": balance.String(), "locked": "0", "code_hash": noCodeHash, "storage_usage": 0,
		"storage_paid_at": 0, "block_height": 1, "block_hash": noBlockHash}, nil)
}

func (s *server) callFunction(ctx context.Context, w http.ResponseWriter, req rpcRequest) {
	value, err := s.view(ctx, req.Params.MethodName, req.Params.Args)
	if err != nil {
		e := fault.Of(err)
		if e.Code == wire.CodeInternal {
			writeRPC(w, req.ID, nil, s.internal(ctx, err))
			return
		}
		writeRPC(w, req.ID, nil, rpcFault("CONTRACT_EXECUTION_ERROR", "HANDLER_ERROR",
			"wasm execution failed with error: HostError(GuestPanic { panic_msg: "+strconv.Quote(e.Text)+" })"))
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		writeRPC(w, req.ID, nil, s.internal(ctx, err))
		return
	}
	if len(raw) > maxView {
		writeRPC(w, req.ID, nil, rpcFault("CONTRACT_EXECUTION_ERROR", "HANDLER_ERROR", "the answer is too long for a view"))
		return
	}
	writeRPC(w, req.ID, map[string]any{"result": byteNumbers(raw), "logs": []string{}, "block_height": 1, "block_hash": noBlockHash}, nil)
}

// maxView bounds what a view returns, in bytes: anybody may ask for it, and on
// the wire it is four times as long.
const maxView = 8 << 20

// byteNumbers is encoded as the network does it: as an array of numbers.
type byteNumbers []byte

// MarshalJSON writes [1,2,…].
func (b byteNumbers) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 4*len(b)+2), '[')
	for i, n := range b {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(n), 10)
	}
	return append(out, ']'), nil
}

// view answers the free view methods of the contract (wire protocol 4.2).
func (s *server) view(ctx context.Context, method string, raw []byte) (any, error) {
	var args struct {
		GroupID string `json:"group_id"`
		UserID  string `json:"user_id"`
		Action  string `json:"action"`
		TransID string `json:"trans_id"`
		Nonce   string `json:"nonce"`
	}
	if len(raw) > 0 && json.Unmarshal(raw, &args) != nil {
		return nil, fault.New(wire.CodeInvalidJSON, "Failed to deserialize input from JSON.")
	}
	switch method {
	case "estimate_fee":
		return json.Number(s.Ledger.Fee(args.Action).String()), nil
	case "get_dynamic_fee":
		return 0, nil
	case "get_transaction_meta":
		return s.Files.Meta(ctx, args.TransID)
	case "is_tombstoned":
		meta, err := s.Files.Meta(ctx, args.TransID)
		return meta != nil && meta.Deleted != nil, err
	case "get_expired_transactions":
		return s.expired(ctx, args.GroupID)
	case "get_nonce_validity":
		return s.Files.ClaimUnused(ctx, args.GroupID, args.UserID, args.Nonce)
	}
	return s.viewGroup(ctx, method, args.GroupID, args.UserID)
}

// viewGroup answers the views of one group, some of which are also asked of one
// that does not exist.
func (s *server) viewGroup(ctx context.Context, method, group, user string) (any, error) {
	g, role, err := s.Groups.View(ctx, group, user)
	known := err == nil
	if err != nil && fault.Of(err).Code != wire.CodeGroupNotFound {
		return nil, err
	}
	switch method {
	case "group_contains_key":
		return known, nil
	case "is_group_joinable":
		return g.Joinable, nil
	case "get_group_checksum":
		if !known {
			return nil, nil
		}
		return vault.Checksum(g.ID, g.KeyVersion), nil
	case "get_group_retention":
		if !g.RetentionDays.Valid {
			return nil, nil
		}
		return g.RetentionDays.Int64, nil
	case "get_join_window":
		return joinWindow(g), nil
	}
	if !known {
		return nil, err
	}
	switch method {
	case "get_group_owner":
		return g.Owner, nil
	case "is_authorized":
		return role != "", nil
	case "get_group_members_public":
		return s.public(g.Joinable, func() (any, error) {
			list, err := s.Groups.Members(ctx, "", g.ID)
			return list.Names, err
		})
	case "get_transactions_for_group", "get_transactions_for_group_public":
		return s.public(g.Joinable, func() (any, error) { return s.publicFiles(ctx, g.ID) })
	default:
		return nil, fault.New(wire.CodeUnsupported, "MethodNotFound: %.60q", method)
	}
}

// publicFiles lists the files of an open group in upload order, unless they are
// too many to be told to anybody who asks.
func (s *server) publicFiles(ctx context.Context, group string) (any, error) {
	list, err := s.Files.Newest(ctx, "", group, 0, wire.MaxPageRows+1)
	if err == nil && len(list) > wire.MaxPageRows {
		return nil, fault.New(wire.CodeTooLarge, "the group has more than %d files: ask get_group_transactions with after_seq and limit", wire.MaxPageRows)
	}
	slices.Reverse(list)
	return list, err
}

// expired lists the records of a group that retention will remove next, as many
// as a page has.
func (s *server) expired(ctx context.Context, group string) (any, error) {
	ids := []string{}
	if group == "" {
		return ids, nil
	}
	list, err := s.Files.Expired(ctx, group, wire.MaxPageRows)
	for _, e := range list {
		ids = append(ids, e.TxID)
	}
	return ids, err
}

func (s *server) public(joinable bool, list func() (any, error)) (any, error) {
	if !joinable {
		return nil, fault.New(wire.CodeNotAuthorized, "Unauthorized: Group is not joinable (public view refused)")
	}
	return list()
}

type rpcError struct {
	Code    int            `json:"code"`
	Name    string         `json:"name"`
	Cause   map[string]any `json:"cause"`
	Message string         `json:"message"`
	Data    string         `json:"data"`
}

func rpcFault(cause, name, data string) *rpcError {
	return &rpcError{Code: -32000, Name: name, Cause: map[string]any{"name": cause, "info": map[string]any{}}, Message: "Server error", Data: data}
}

func (s *server) internal(ctx context.Context, err error) *rpcError {
	s.Logger.Error("failed", "request", ledger.RequestID(ctx), "cause", err.Error())
	return rpcFault("INTERNAL_ERROR", "INTERNAL_ERROR", "internal error")
}

func writeRPC(w http.ResponseWriter, id json.RawMessage, value any, failed *rpcError) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": id}
	if failed != nil {
		answer["error"] = failed
	} else {
		answer["result"] = value
	}
	writeJSON(w, http.StatusOK, answer)
}
