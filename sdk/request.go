package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// tools are the operations of the service, and its answers to them.
type tools struct{ c *Client }

// call returns the call of an operation that changes nothing. It decodes the answer into result, which may be nil.
func (t tools) call(op string, request, result any) call.Call {
	limit := t.limit(op)
	return call.Call{Path: wire.PathTools + op, Request: request, Long: limit > call.MaxAnswer,
		Answer: t.result(limit, result)}
}

// read calls an operation that changes nothing, or that may be repeated. It is [ErrUnsupported] at a service that does
// not have the operation.
func (c *Client) read(ctx context.Context, op string, request, result any) error {
	if err := c.caps.offers(ctx, op); err != nil {
		return err
	}
	return c.calls.Do(ctx, c.tools.call(op, request, result))
}

// change calls an operation that may wait for the ledger. It waits longer than read,
// because the outcome of an abandoned request is unknown, and the request may have been
// paid.
func (c *Client) change(ctx context.Context, op string, request, result any) error {
	if err := c.caps.offers(ctx, op); err != nil {
		return err
	}
	t := c.tools.call(op, request, result)
	t.Kind, t.Wait = call.Change, call.AnswerTimes*c.cfg.Timeout
	return c.calls.Do(ctx, t)
}

// result returns a reader of an answer of at most so many bytes, which it decodes into result.
func (t tools) result(limit int64, result any) func(*http.Response) error {
	return func(resp *http.Response) error {
		raw, err := call.ReadBounded(resp, limit)
		if err != nil {
			return err
		}
		return t.decode(raw, result)
	}
}

// maxListBytes bounds a list of records, in bytes: about 300,000 records.
const maxListBytes = 128 << 20

// limit returns the largest answer of an operation that is accepted, in bytes. A service
// without paging lists a whole group at once, which may take as much memory as a file.
func (t tools) limit(op string) int64 {
	switch op {
	case wire.OpGetGroupTransactions:
		return max(wire.MaxJSONBytes, min(maxListBytes, t.c.cfg.MaxFileBytes/2, t.c.cfg.ListMemory/wholeShare))
	case wire.OpGetOwnedGroups, wire.OpGetMemberGroups, wire.OpGetGroupMembers, wire.OpWatch, wire.OpGetNames:
		return wire.MaxJSONBytes
	default:
		return call.MaxAnswer
	}
}

// decode is the function decodeResult with scrubbed errors.
func (t tools) decode(raw json.RawMessage, result any) error {
	err := decodeResult(raw, result)
	if refused, ok := err.(*call.Refusal); ok {
		refused.Text = t.c.calls.Scrub(refused.Text)
	}
	return err
}

// envelope is an answer: the result, and the fields of ours beside it.
type envelope struct{ Result, Error, Code, Roles, Exists, More, Proof, Records, Receipt json.RawMessage }

// decodeResult decodes {"result": …}, or a bare body (generation A), into result. If result
// is nil, it accepts any JSON. It returns an error for an answer with status 2xx that holds
// an error.
func decodeResult(raw json.RawMessage, result any) error {
	isRead := false
	switch r := result.(type) {
	case *page:
		r.rows, r.proof, isRead = wire.ParseRows(raw, freeItems, leastRow)
	case *wire.LivingResult:
		*r, isRead = wire.ParseNames(raw, freeItems, leastRow)
	}
	if isRead {
		return nil
	}
	if err := call.CheckDepth(raw); err != nil {
		return err
	}
	var whole envelope
	if json.Unmarshal(raw, &whole) == nil {
		if whole.Result != nil {
			raw = whole.Result
		} else if text := textOf(whole.Error); text != "" {
			return newRefusal(http.StatusOK, textOf(whole.Code), text)
		}
	}
	if result == nil {
		var any json.RawMessage
		return call.Decode(raw, &any)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return call.Malformed(errors.New("the result is null"))
	}
	err := call.Decode(raw, result)
	if more, ok := result.(interface{ readBeside(envelope) error }); ok && err == nil {
		return more.readBeside(whole)
	}
	return err
}

// textOf returns the content of a JSON string, "" for any other value.
func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}
