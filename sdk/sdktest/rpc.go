package sdktest

import (
	"encoding/json"
	"slices"
	"strconv"
)

// rpcRequest is a ledger query (wire protocol 4.1).
type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Params struct {
		RequestType string `json:"request_type"`
		AccountID   string `json:"account_id"`
		MethodName  string `json:"method_name"`
		Args        []byte `json:"args_base64"`
	} `json:"params"`
}

type viewArgs struct {
	GroupID string `json:"group_id"`
	UserID  string `json:"user_id"`
	Action  string `json:"action"`
}

// rpc answers the ledger's views, errors with status 200 like the real one.
func (s *state) rpc(c call) (any, error) {
	var req rpcRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": req.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Params.RequestType == "view_account" {
		if a := s.accounts[req.Params.AccountID]; a != nil {
			answer["result"] = map[string]any{"amount": a.balance.String(), "locked": "0", "block_height": 1}
		} else {
			answer["error"] = ledgerFault("UNKNOWN_ACCOUNT", "account "+req.Params.AccountID+" does not exist while viewing")
		}
		return answer, nil
	}
	var args viewArgs
	_ = json.Unmarshal(req.Params.Args, &args) // missing arguments are empty
	value, panicked := s.view(req.Params.MethodName, args)
	if panicked != "" {
		answer["error"] = ledgerFault("CONTRACT_EXECUTION_ERROR", "Smart contract panicked: "+panicked)
		return answer, nil
	}
	numbers := make([]int, len(value))
	for i, b := range []byte(value) {
		numbers[i] = int(b)
	}
	answer["result"] = map[string]any{"result": numbers, "logs": []string{}, "block_height": 1}
	return answer, nil
}

func ledgerFault(cause, data string) map[string]any {
	return map[string]any{"code": -32000, "name": "HANDLER_ERROR", "cause": map[string]any{"name": cause}, "message": "Server error", "data": data}
}

// view returns the JSON value of a view method, or what it panics with.
func (s *state) view(method string, args viewArgs) (value, panicked string) {
	g := s.groups[args.GroupID]
	switch {
	case method == "estimate_fee":
		if fee := s.fees()[args.Action]; fee != "" {
			return fee, ""
		}
		return "0", ""
	case method == "get_group_checksum":
		return "null", ""
	case method == "is_group_joinable":
		return strconv.FormatBool(g != nil && g.joinable), ""
	case g == nil:
		return "", "Group not found"
	case method == "get_group_retention" && g.days == nil:
		return "null", ""
	case method == "get_group_retention":
		return strconv.FormatInt(*g.days, 10), ""
	case method == "get_group_owner":
		raw, err := json.Marshal(g.owner)
		if err != nil {
			panic(err)
		}
		return string(raw), ""
	case method == "is_authorized":
		if slices.Contains(g.members, args.UserID) {
			return "true", ""
		}
		return "false", ""
	default:
		return "", "MethodNotFound"
	}
}
