package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// rpc asks the ledger.
type rpc struct{ c *Client }

// rpcRequest is a query to the ledger (wire protocol 4.1).
type rpcRequest struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type viewAccount struct {
	RequestType string `json:"request_type"`
	Finality    string `json:"finality"`
	AccountID   string `json:"account_id"`
}

type callFunction struct {
	viewAccount
	MethodName string `json:"method_name"`
	Args       []byte `json:"args_base64"`
}

// rpcError is an error of the ledger. It comes with status 200, from newer nodes with 4xx.
type rpcError struct {
	Cause struct {
		Name string `json:"name"`
	} `json:"cause"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// query sends a query to the ledger and decodes the result.
func (q rpc) query(ctx context.Context, params, result any) error {
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	request := rpcRequest{Version: "2.0", ID: 1, Method: "query", Params: params}
	err := q.c.calls.Do(ctx, call.Call{Kind: call.View, URL: q.c.cfg.RPCURL, Request: request,
		Answer: call.Document(&answer)})
	var refused *call.Refusal
	var fault rpcError
	isFault := errors.As(err, &refused) && json.Unmarshal(refused.Object, &fault) == nil
	if isFault && (fault.Cause.Name != "" || fault.Message != "") {
		return q.fault(&fault)
	}
	if err != nil {
		return err
	}
	if answer.Error != nil {
		return q.fault(answer.Error)
	}
	// Old views return an error inside the result.
	var inner struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer.Result, &inner) == nil && inner.Error != "" {
		return q.fault(&rpcError{Message: inner.Error})
	}
	if len(answer.Result) == 0 || string(answer.Result) == "null" {
		return call.Malformed(errors.New("the ledger's result is null"))
	}
	return call.Decode(answer.Result, result)
}

func (q rpc) fault(e *rpcError) error {
	var data string
	if json.Unmarshal(e.Data, &data) != nil || data == "" {
		data = e.Message
	}
	// "account x does not exist while viewing": so nodes say it
	text := panicText(strings.TrimSuffix(q.c.calls.Scrub(data), " while viewing"))
	kind, code, ok := kindByWords(strings.ToLower(text))
	if e.Cause.Name == "UNKNOWN_ACCOUNT" {
		kind, ok = ErrNotFound, true
	}
	if !ok {
		kind = ErrOther
	}
	return &Error{Op: "query ledger", Kind: kind, Code: code, Err: errors.New(text)}
}

// panicText returns what a contract said that panicked, or else the text as it is.
func panicText(text string) string {
	_, rest, _ := strings.Cut(text, "panic_msg: ")
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return text
	}
	said, _ := strconv.Unquote(quoted) // it is quoted
	return said
}

// view calls a view method of the ledger contract.
func (q rpc) view(ctx context.Context, method string, args, result any) error {
	encoded, err := json.Marshal(args)
	if err != nil {
		return err
	}
	// The result is a JSON array of bytes; a []byte would be read as base64.
	var answer struct {
		Result []uint16 `json:"result"`
	}
	params := callFunction{viewAccount{"call_function", "final", q.c.cfg.ContractID}, method, encoded}
	if err := q.query(ctx, params, &answer); err != nil {
		return err
	}
	if answer.Result == nil {
		return call.Malformed(errors.New("the view returned nothing"))
	}
	raw := make([]byte, len(answer.Result))
	for i, b := range answer.Result {
		if b > 0xff {
			return call.Malformed(errors.New("a byte above 255"))
		}
		raw[i] = byte(b)
	}
	if len(raw) == 0 {
		raw = []byte("null")
	}
	return call.Decode(raw, result)
}

type groupArgs struct {
	GroupID GroupID   `json:"group_id"`
	UserID  AccountID `json:"user_id,omitempty"`
}

// Balance returns the native token balance of an account; "" means the caller. Free, no
// authentication. Errors: [ErrNotFound] for an account that does not exist,
// [ErrUnavailable], [ErrTimeout], [ErrCorrupt]. Specification 4.2 (getBalance).
func (c *Client) Balance(ctx context.Context, account AccountID) (Amount, error) {
	if account == "" {
		account = c.account
	}
	var answer struct {
		Amount *Amount `json:"amount"`
	}
	err := c.rpc.query(ctx, viewAccount{"view_account", "optimistic", string(account)}, &answer)
	if err == nil && answer.Amount == nil {
		err = call.Malformed(errors.New("the account has no amount"))
	}
	if err != nil {
		return Amount{}, c.wrap("ask balance of "+quote(string(account)), "", "", err)
	}
	return *answer.Amount, nil
}

// EstimateFee asks the service for the price of an action: "upload" ([Group.Put]),
// "retrieve" ([Group.Open]) or an Event constant such as [EventRegistered]
// ([Group.Register]). The price of an action that the service does not know is 0. Free,
// no authentication. Errors: [ErrUnavailable], [ErrTimeout], [ErrCorrupt].
// Specification 4.2 (estimateFee).
func (c *Client) EstimateFee(ctx context.Context, action string) (Amount, error) {
	var digits json.Number
	args := struct {
		Action string `json:"action"`
	}{action}
	if err := c.rpc.view(ctx, "estimate_fee", args, &digits); err != nil {
		return Amount{}, c.wrap("estimate fee of "+quote(action), "", "", err)
	}
	fee, err := wire.ParseAmount(digits.String())
	if err != nil {
		err = call.Malformed(err)
	}
	return fee, c.wrap("estimate fee of "+quote(action), "", "", err)
}

// ReadPrice returns what the caller pays for one list of groups. Only the hosted test
// network charges for it. Free, no authentication. Errors: [ErrUnavailable], [ErrTimeout].
// Wire protocol 3.3, 4.6.
func (c *Client) ReadPrice(ctx context.Context) (Amount, error) { return c.caps.readPrice(ctx, "") }

// ReadPrice returns what the caller pays for one list of records or members of the group. A
// self-hosted service charges nothing. The hosted network charges for groups that accounts
// cannot join by themselves. Free, no authentication. Errors: [ErrUnavailable],
// [ErrTimeout]. Wire protocol 3.3, 4.6.
func (g Group) ReadPrice(ctx context.Context) (Amount, error) { return g.c.caps.readPrice(ctx, g.ID) }

func (k *capabilities) readPrice(ctx context.Context, g GroupID) (Amount, error) {
	speaks, err := k.dialect(ctx)
	if err != nil {
		return Amount{}, err
	}
	return speaks.readPrice(ctx, g)
}
