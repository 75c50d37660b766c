package sdk

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// This is the one file that looks at the text of the service: the hosted one
// sends nothing else to tell errors apart (specification 7.1, wire protocol 3.7).

// answerError is an answer that is not 2xx.
type answerError struct {
	status     int
	code       string // of our own service, else ""
	text       string // of the service
	kind       Kind   // by the whole text, before it is cut for a message
	retryAfter time.Duration
	ledger     *rpcError // the error object of a ledger's node, else nil
}

func (e *answerError) Error() string { return fmt.Sprintf("%s (HTTP %d)", e.text, e.status) }

// newAnswerError classifies by code, then by words, then by status.
func newAnswerError(status int, code, text string) *answerError {
	kind, ok := kindByCode(code)
	if !ok {
		var said string
		kind, said, ok = kindByWords(strings.ToLower(text))
		code = cmp.Or(code, said)
	}
	if !ok {
		kind = kindByStatus(status)
	}
	return &answerError{status: status, code: code, text: text, kind: kind}
}

// readError reads the error of an answer that is not 2xx.
func readError(resp *http.Response, body []byte) error {
	var code, text string
	var fields map[string]json.RawMessage
	if !wire.DeeperThan(body, maxDepth) && json.Unmarshal(body, &fields) == nil {
		code = textOf(fields["code"])
		for _, name := range []string{"error", "message", "detail"} {
			if text == "" {
				text = textOf(fields[name])
			}
		}
	}
	if text == "" { // a page for browsers says nothing to a user of this library
		text = http.StatusText(resp.StatusCode)
	}
	if resp.StatusCode/100 == 3 {
		text = "the service redirects, which this client does not follow"
	}
	e := newAnswerError(resp.StatusCode, code, text)
	e.retryAfter = retryAfter(resp.Header)
	var fault rpcError
	if json.Unmarshal(fields["error"], &fault) == nil && (fault.Cause.Name != "" || fault.Message != "") {
		e.ledger = &fault
	}
	return e
}

// scrubAnswer makes the text of an answer's error fit for a message.
func (c *Client) scrubAnswer(err error) error {
	if e, ok := err.(*answerError); ok {
		e.text = c.scrub(e.text)
	}
	return err
}

const maxAnswerText = 300

// scrub makes a text of the service fit for a message: without our credentials,
// without control and format characters, bounded.
func (c *Client) scrub(text string) string {
	for _, secret := range append(c.tokens.used(), c.cfg.APIKey) {
		for _, form := range formsOf(secret) {
			text = strings.ReplaceAll(text, form, "redacted")
		}
	}
	for _, marker := range []string{"Bearer ", "svc_sk_", "nova_sk_"} {
		text = cutSecrets(text, marker)
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, text)
	if len(text) > maxAnswerText {
		text = strings.ToValidUTF8(text[:maxAnswerText], "") + "…"
	}
	return text
}

// formsOf returns how a credential may appear in a text.
func formsOf(secret Secret) []string {
	if secret.IsZero() {
		return nil
	}
	raw := secret.Reveal()
	digits := hex.EncodeToString([]byte(raw))
	forms := []string{raw, digits, strings.ToUpper(digits)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes of something else, encoded together with it
			encoded := encoding.EncodeToString([]byte("\x00\x00"[:before] + raw))
			forms = append(forms, encoded[(8*before+5)/6:(before+len(raw))*4/3])
		}
	}
	if len(raw) > shownOfSecret { // cut off by the service, or by us
		forms = append(forms, raw[:shownOfSecret])
	}
	return forms
}

// shownOfSecret is how much of a longer credential may be told: what every one
// of its kind begins with.
const shownOfSecret = 32

// cutSecrets replaces what follows marker, up to the end of the word.
func cutSecrets(text, marker string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, marker)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(marker + "redacted")
		end := strings.IndexAny(after, " \t\n\"',;)}]")
		if end < 0 {
			return out.String()
		}
		text = after[end:]
	}
}

func kindByCode(code string) (Kind, bool) {
	switch code {
	case wire.CodeAudience:
		return ErrAudience, true
	case wire.CodeAuthRequired, wire.CodeInvalidToken, wire.CodeInvalidKey, wire.CodeDisabled:
		return ErrUnauthenticated, true
	case wire.CodeAccountUnknown, wire.CodeGroupNotFound, wire.CodeFileNotFound, wire.CodeUploadUnknown:
		return ErrNotFound, true
	case wire.CodeNotAuthorized, wire.CodeReadOnly, "FORBIDDEN":
		return ErrNotAuthorized, true
	case wire.CodeFileDeleted:
		return ErrDeleted, true
	case wire.CodeInsufficient:
		return ErrInsufficient, true
	case wire.CodeGroupExists, wire.CodeConflict:
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
	case wire.CodeUnavailable:
		return ErrUnavailable, true
	case wire.CodeUnsupported:
		return ErrUnsupported, true
	case wire.CodeValidation, wire.CodeInvalidJSON:
		return ErrInvalid, true
	default:
		return ErrOther, false
	}
}

// kindByWords knows the words of the specification and the substrings clients
// of the hosted service rely on. The order matters: "File deleted" arrives in
// texts that also hold "not found".
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
		{"not authorized", ErrNotAuthorized}, {"unauthorized", ErrNotAuthorized}, {"only group owner", ErrNotAuthorized},
		{"not open for join", ErrNotAuthorized}, {"join window", ErrNotAuthorized}, {"not joinable", ErrNotAuthorized},
		{"not a member", ErrNotAuthorized}, {"does not own", ErrNotAuthorized},
		{"invalid or expired upload_id", ErrNotFound}, {"not found", ErrNotFound}, {"does not exist", ErrNotFound},
		{"file_key_not_found", ErrNotFound}, {"no key for this file", ErrNotFound},
		{"auth required", ErrUnauthenticated}, {"auth failed", ErrUnauthenticated}, {"invalid api key", ErrUnauthenticated},
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

// wrap turns any failure into an *Error of this package. One that is such an
// error already keeps its kind and code and gets the outer operation.
func (c *Client) wrap(op string, g GroupID, ref Ref, err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return &Error{Op: op, Group: g, Ref: ref, Kind: own.Kind, Code: own.Code, Err: err}
	}
	code := ""
	var answered *answerError
	if errors.As(err, &answered) {
		code = answered.code
	}
	return &Error{Op: op, Group: g, Ref: ref, Kind: classify(err), Code: code, Err: c.scrubbed(withoutURL(err))}
}

// scrubbed keeps err's chain and makes its text fit for a message: anything in
// it may come from the service.
func (c *Client) scrubbed(err error) error {
	text := err.Error()
	if fit := c.scrub(text); fit != text {
		return &scrubbedError{fit, err}
	}
	return err
}

type scrubbedError struct {
	text string
	err  error
}

func (e *scrubbedError) Error() string { return e.text }
func (e *scrubbedError) Unwrap() error { return e.err }

func classify(err error) Kind {
	var answered *answerError
	var senseless *malformedError
	switch {
	case errors.As(err, &answered):
		return answered.kind
	case errors.As(err, &senseless), errors.Is(err, ErrWrongContent), errors.Is(err, format.ErrAuthentication), errors.Is(err, format.ErrCorrupt):
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
	if isConnectionLost(err) {
		return ErrUnavailable
	}
	var network *url.Error
	if errors.As(err, &network) {
		return ErrUnavailable
	}
	return ErrOther
}

// isConnectionLost reports a connection that could not be made or broke.
func isConnectionLost(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// withoutURL drops the method and address net/http puts in front: the address
// may hold a ticket.
func withoutURL(err error) error {
	var network *url.Error
	if errors.As(err, &network) {
		return network.Err
	}
	return err
}

// withCode sets the code of err if err is of the given kind.
func withCode(kind Kind, code string, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Kind == kind {
		own.Code = code
	}
	return err
}
