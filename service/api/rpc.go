package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
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
	client := traceOf(r.Context()).client
	leave, err := s.clients.enter(client)
	if err == nil {
		defer leave()
		err = s.holdMemory(r, bodyCopies*maxRPCBytes)
	}
	if err != nil {
		writeRPC(w, nil, nil, rpcFault("TOO_MANY_REQUESTS", "REQUEST_VALIDATION_ERROR", fault.Of(err).Text))
		return
	}
	raw, err := body(w, r, maxRPCBytes)
	var req rpcRequest
	if err != nil || json.Unmarshal(raw, &req) != nil {
		writeRPC(w, req.ID, nil, rpcFault("PARSE_ERROR", "REQUEST_VALIDATION_ERROR", "the request is not understood"))
		return
	}
	if req.Method == "status" {
		writeRPC(w, req.ID, map[string]any{"chain_id": s.ContractID,
			"version": map[string]string{"version": s.Version}}, nil)
		return
	}
	if req.Method != "query" {
		writeRPC(w, req.ID, nil, rpcFault("METHOD_NOT_FOUND", "REQUEST_VALIDATION_ERROR",
			"only query and status are answered here"))
		return
	}
	switch req.Params.RequestType {
	case "view_account":
		s.viewAccount(r.Context(), w, req)
	case "call_function":
		s.callFunction(r, w, req)
	default:
		writeRPC(w, req.ID, nil, rpcFault("PARSE_ERROR", "REQUEST_VALIDATION_ERROR",
			"request_type must be view_account or call_function"))
	}
}

const noBlockHash = "11111111111111111111111111111111"

func (s *server) viewAccount(ctx context.Context, w http.ResponseWriter, req rpcRequest) {
	balance, err := s.Accounts.Balance(ctx, req.Params.AccountID)
	if err != nil {
		if fault.Of(err).Code != wire.CodeAccountUnknown {
			writeRPC(w, req.ID, nil, s.internal(ctx, err))
			return
		}
		writeRPC(w, req.ID, nil, rpcFault("UNKNOWN_ACCOUNT", "HANDLER_ERROR",
			"account "+req.Params.AccountID+" does not exist while viewing"))
		return
	}
	writeRPC(w, req.ID, map[string]any{"amount": balance.String(), "locked": "0", "code_hash": noBlockHash,
		"storage_usage":   0,
		"storage_paid_at": 0, "block_height": 1, "block_hash": noBlockHash}, nil)
}

func (s *server) callFunction(r *http.Request, w http.ResponseWriter, req rpcRequest) {
	value, err := s.view(r.Context(), req.Params.MethodName, req.Params.Args)
	if err == nil {
		err = s.writeView(r, w, req.ID, value)
	}
	if err == nil {
		return
	}
	e := fault.Of(err)
	if e.Code == wire.CodeInternal {
		writeRPC(w, req.ID, nil, s.internal(r.Context(), err))
		return
	}
	writeRPC(w, req.ID, nil, rpcFault("CONTRACT_EXECUTION_ERROR", "HANDLER_ERROR",
		"wasm execution failed with error: HostError(GuestPanic { panic_msg: "+strconv.Quote(e.Text)+" })"))
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
		return meta != nil && meta.Deleted != nil && !meta.Deleted.Trash, err
	case "get_expired_transactions":
		return s.expired(ctx, args.GroupID)
	case "get_nonce_validity":
		return s.Files.ClaimUnused(ctx, args.GroupID, args.UserID, args.Nonce)
	}
	return s.viewGroup(ctx, method, args.GroupID, args.UserID)
}

// viewGroup answers the views of one group. Some of them also have an answer for a group
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
		c, err := s.Files.Checksum(ctx, g)
		return c.Sum(), err
	case "get_group_retention":
		if !g.RetentionDays.Valid {
			return nil, nil
		}
		return g.RetentionDays.Int64, nil
	case "get_join_window":
		return joinWindow(g, s.Ledger.Now()), nil
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
		if !g.Joinable {
			return nil, notPublic()
		}
		list, err := s.Groups.Members(ctx, "", wire.GroupRequest{GroupID: g.ID})
		return list.Names, err
	case "get_transactions_for_group", "get_transactions_for_group_public":
		if !g.Joinable {
			return nil, notPublic()
		}
		return filesOf(g.ID), nil
	default:
		return nil, fault.New(wire.CodeUnsupported, "MethodNotFound: %.60q", method)
	}
}

func notPublic() error {
	return fault.New(wire.CodeNotAuthorized, "Unauthorized: Group is not joinable (public view refused)")
}

// expired lists the records of an open group that retention removes next, at most one
// page. Another group is visible to its members only.
func (s *server) expired(ctx context.Context, group string) (any, error) {
	ids := []string{}
	g, _, err := s.Groups.View(ctx, group, "")
	if err != nil {
		if fault.Of(err).Code == wire.CodeGroupNotFound {
			err = nil
		}
		return ids, err
	}
	if !g.Joinable {
		return nil, notPublic()
	}
	list, err := s.Files.Expired(ctx, group, wire.MaxPageRows)
	for _, e := range list {
		ids = append(ids, e.TxID)
	}
	return ids, err
}

type rpcError struct {
	Code    int            `json:"code"`
	Name    string         `json:"name"`
	Cause   map[string]any `json:"cause"`
	Message string         `json:"message"`
	Data    string         `json:"data"`
}

func rpcFault(cause, name, data string) *rpcError {
	return &rpcError{Code: -32000, Name: name, Cause: map[string]any{"name": cause, "info": map[string]any{}},
		Message: "Server error", Data: data}
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

// joinWindow is the answer of get_join_window, nil when there is none.
func joinWindow(g groups.Group, now time.Time) any {
	if !g.JoinExpires.Valid {
		return nil
	}
	var most *int64
	if g.JoinMaxUses.Valid {
		most = &g.JoinMaxUses.Int64
	}
	open := g.JoinExpires.Int64 > now.UnixNano() && (most == nil || g.JoinUses < *most)
	return map[string]any{"expires_at": strconv.FormatInt(g.JoinExpires.Int64, 10), "max_uses": most,
		"uses": g.JoinUses, "open": open}
}
