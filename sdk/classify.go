package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Only this file reads the text of the service. The hosted service sends nothing else that
// tells errors apart (specification 7.1, wire protocol 3.7).

// newRefusal takes the kind from the code, else from the words, else from the status.
func newRefusal(status int, code, text string) *call.Refusal {
	kind, ok := kindByCode(code)
	if !ok {
		var said string
		kind, said, ok = kindByWords(strings.ToLower(text))
		code = cmp.Or(code, said)
	}
	if !ok {
		kind = kindByStatus(status)
	}
	return &call.Refusal{Status: status, Code: code, Text: text, Kind: kind,
		BadToken: status == http.StatusUnauthorized || kind == ErrAudience, BadKey: kind == ErrUnauthenticated}
}

// readError reads the error of an answer that is not 2xx.
func readError(resp *http.Response, body []byte) *call.Refusal {
	var code, text string
	var fields map[string]json.RawMessage
	if !wire.DeeperThan(body, call.MaxDepth) && json.Unmarshal(body, &fields) == nil {
		code = textOf(fields["code"])
		for _, name := range []string{"error", "message", "detail"} {
			if text == "" {
				text = textOf(fields[name])
			}
		}
	}
	if text == "" { // such as a web page
		text = http.StatusText(resp.StatusCode)
	}
	if resp.StatusCode/100 == 3 {
		text = "the service redirects, which this client does not follow"
	}
	r := newRefusal(resp.StatusCode, code, text)
	r.Object = fields["error"]
	return r
}

func kindByCode(code string) (Kind, bool) {
	switch code {
	case wire.CodeAudience:
		return ErrAudience, true
	case wire.CodeAuthRequired, wire.CodeInvalidToken, wire.CodeInvalidKey, wire.CodeDisabled:
		return ErrUnauthenticated, true
	case wire.CodeAccountUnknown, wire.CodeGroupNotFound, wire.CodeFileNotFound, wire.CodeUploadUnknown:
		return ErrNotFound, true
	case wire.CodeNotAuthorized, wire.CodeReadOnly, wire.CodeGroupDeleted, wire.CodeInvite, wire.CodeSealedOnly,
		"FORBIDDEN":
		return ErrNotAuthorized, true
	case wire.CodeFileDeleted:
		return ErrDeleted, true
	case wire.CodeInsufficient:
		return ErrInsufficient, true
	case wire.CodeGroupExists, wire.CodeNotOffered, wire.CodeConflict, wire.CodeBase, wire.CodeMissing,
		wire.CodePartExists, wire.CodeEpoch, wire.CodeHead, wire.CodeSpent,
		wire.CodeJournalEnded:
		return ErrConflict, true
	case wire.CodeTooLarge:
		return ErrTooLarge, true
	case wire.CodeRateLimited:
		return ErrRateLimited, true
	case wire.CodePending:
		return ErrPending, true
	case wire.CodeStorageFull:
		return ErrStorageFull, true
	case wire.CodeBlobCorrupt:
		return ErrCorrupt, true
	case wire.CodeUnavailable, wire.CodeNamesUnread:
		return ErrUnavailable, true
	case wire.CodeUnsupported:
		return ErrUnsupported, true
	case wire.CodeValidation, wire.CodeInvalidJSON:
		return ErrInvalid, true
	default:
		return ErrOther, false
	}
}

// kindByWords looks for words of the specification and for the substrings that clients of
// the hosted service rely on. The order matters: a text with "File deleted" also holds "not
// found".
func kindByWords(text string) (kind Kind, code string, ok bool) {
	if strings.Contains(text, "group not found") {
		code = wire.CodeGroupNotFound
	}
	for _, known := range []struct {
		word string
		kind Kind
	}{
		{"audience", ErrAudience},
		{"file deleted", ErrDeleted}, {"file_deleted", ErrDeleted},
		{"insufficient", ErrInsufficient}, {"attach at least", ErrInsufficient}, {"notenoughbalance", ErrInsufficient},
		{"already a member", ErrConflict}, {"group exists", ErrConflict}, {"user not a member", ErrConflict},
		{"not authorized", ErrNotAuthorized}, {"unauthorized", ErrNotAuthorized},
		{"only group owner", ErrNotAuthorized},
		{"not open for join", ErrNotAuthorized}, {"join window", ErrNotAuthorized}, {"not joinable", ErrNotAuthorized},
		{"not a member", ErrNotAuthorized}, {"does not own", ErrNotAuthorized},
		{"invalid or expired upload_id", ErrNotFound}, {"not found", ErrNotFound}, {"does not exist", ErrNotFound},
		{"file_key_not_found", ErrNotFound}, {"no key for this file", ErrNotFound},
		{"auth required", ErrUnauthenticated}, {"auth failed", ErrUnauthenticated},
		{"invalid api key", ErrUnauthenticated},
		{"api key required", ErrUnauthenticated}, {"no api key configured", ErrUnauthenticated},
		{"too many requests", ErrRateLimited}, {"too large", ErrTooLarge},
	} {
		if strings.Contains(text, known.word) {
			return known.kind, code, true
		}
	}
	return ErrOther, "", false
}

func kindByStatus(status int) Kind {
	switch status {
	case http.StatusUnauthorized:
		return ErrUnauthenticated
	case http.StatusPaymentRequired:
		return ErrInsufficient
	case http.StatusForbidden:
		return ErrNotAuthorized
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusConflict:
		return ErrConflict
	case http.StatusRequestEntityTooLarge:
		return ErrTooLarge
	case http.StatusTooManyRequests:
		return ErrRateLimited
	case http.StatusInsufficientStorage:
		return ErrStorageFull
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ErrUnavailable
	case http.StatusBadRequest:
		return ErrInvalid
	default:
		return ErrOther
	}
}

// wrap turns any error into an [*Error]. If err wraps an [*Error], the result keeps its
// kind and code, and whether the change may be recorded.
func (c *Client) wrap(op string, g GroupID, ref Ref, err error) error {
	if err == nil {
		return nil
	}
	var own, other *Error
	var signIn *call.SignInError
	isSignIn := errors.As(err, &signIn)
	fromNewKey := isSignIn && errors.As(signIn, &other) // it says why no other key was taken
	if errors.As(err, &own) && !(fromNewKey && own == other) {
		return &Error{Op: op, Group: g, Ref: ref, Kind: own.Kind, Code: own.Code, Unsure: isUnsure(err), Err: err}
	}
	code, kind, open := "", classify(err), isUnsure(err)
	var refused *call.Refusal
	switch {
	case isSignIn && kind == ErrNotFound:
		code = wire.CodeAccountUnknown
	case isSignIn && signIn.Code != "":
		code = signIn.Code
	case errors.As(err, &refused):
		code = refused.Code
	case errors.Is(err, call.ErrPage):
		code = wire.CodeSignIn
	case errors.Is(err, call.ErrUnproven):
		code = wire.CodeCertificate
	}
	if !isSignIn { // else it is scrubbed
		err = c.calls.Scrubbed(call.WithoutURL(err))
	}
	return &Error{Op: op, Group: g, Ref: ref, Kind: kind, Code: code, Unsure: open, Err: err}
}

func classify(err error) Kind {
	var signIn *call.SignInError
	var refused *call.Refusal
	switch {
	case errors.As(err, &signIn) && signIn.Refused:
		return ErrUnauthenticated
	case errors.As(err, &refused):
		kind, _ := refused.Kind.(Kind)
		return kind
	case errors.As(err, new(*call.MalformedError)), errors.Is(err, ErrWrongContent),
		errors.Is(err, format.ErrAuthentication), errors.Is(err, format.ErrCorrupt):
		return ErrCorrupt
	case errors.Is(err, format.ErrTooLarge):
		return ErrTooLarge
	case errors.Is(err, format.ErrUnsupported):
		return ErrUnsupported
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return ErrTimeout
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return ErrTimeout
	}
	if call.IsLost(err) {
		return ErrUnavailable
	}
	var network *url.Error
	if errors.As(err, &network) {
		return ErrUnavailable
	}
	return ErrOther
}

// withCode sets the code of err if err is of the given kind.
func withCode(kind Kind, code string, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Kind == kind {
		own.Code = code
	}
	return err
}
