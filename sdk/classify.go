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

// Only this file reads the text of the service. The hosted service sends nothing else that
// tells errors apart (specification 7.1, wire protocol 3.7).

// answerError is an answer that is not 2xx.
type answerError struct {
	status     int
	code       string // "" from the hosted service, unless the text implies one
	text       string // of the service
	kind       Kind   // from the whole text, which scrubbing may shorten later
	retryAfter time.Duration
	ledger     *rpcError // the error object of a ledger node, else nil
}

func (e *answerError) Error() string { return fmt.Sprintf("%s (HTTP %d)", e.text, e.status) }

// newAnswerError takes the kind from the code, else from the words, else from the status.
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
	if text == "" { // such as a web page
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

// scrubAnswer scrubs the text of an answer's error.
func (c *Client) scrubAnswer(err error) error {
	if e, ok := err.(*answerError); ok {
		e.text = c.scrub(e.text)
	}
	return err
}

const maxAnswerText = 300

// scrub makes a text of the service safe for a message: it removes our credentials and
// replaces control and format characters by spaces. The result has at most maxAnswerText
// bytes.
func (c *Client) scrub(text string) string {
	var forms []string
	for _, secret := range c.tokens.used() {
		forms = append(forms, formsOf(secret)...)
	}
	text = redact(text, forms)
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

// redact replaces all that one of the forms covers by "redacted". A service chooses its tokens: one that is a part of
// the API key must not leave the rest of the key, and what replaces a form is not searched again.
func redact(text string, forms []string) string {
	covered := make([]bool, len(text))
	for _, form := range forms {
		marked := 0
		for at := 0; form != ""; at++ {
			next := strings.Index(text[at:], form)
			if next < 0 {
				break
			}
			at += next
			for marked = max(marked, at); marked < at+len(form); marked++ {
				covered[marked] = true
			}
		}
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			out.WriteByte(text[i])
		case i == 0 || !covered[i-1]:
			out.WriteString("redacted")
		}
	}
	return out.String()
}

// formsOf returns the forms in which a text could hold a credential.
func formsOf(secret Secret) []string {
	if secret.IsZero() {
		return nil
	}
	raw := secret.Reveal()
	digits := hex.EncodeToString([]byte(raw))
	forms := []string{raw, digits, strings.ToUpper(digits)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // the credential follows 0, 1 or 2 bytes that were encoded with it
			encoded := encoding.EncodeToString([]byte("\x00\x00"[:before] + raw))
			forms = append(forms, encoded[(8*before+5)/6:(before+len(raw))*4/3])
		}
	}
	if len(raw) > shownOfSecret { // a text may be cut off within the credential
		forms = append(forms, raw[:shownOfSecret])
	}
	return forms
}

// shownOfSecret is how many leading bytes of a long credential a message may hold.
// Credentials of one kind begin alike.
const shownOfSecret = 32

// cutSecrets replaces each word that follows marker by "redacted".
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
	case wire.CodeNotAuthorized, wire.CodeReadOnly, wire.CodeGroupDeleted, "FORBIDDEN":
		return ErrNotAuthorized, true
	case wire.CodeFileDeleted:
		return ErrDeleted, true
	case wire.CodeInsufficient:
		return ErrInsufficient, true
	case wire.CodeGroupExists, wire.CodeNotOffered, wire.CodeConflict, wire.CodeBase, wire.CodeMissing, wire.CodePartExists, wire.CodeEpoch, wire.CodeHead, wire.CodeSpent:
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

// wrap turns any error into an [*Error]. If err wraps an [*Error], the result keeps its
// kind and code.
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
	if errors.Is(err, errPage) {
		code = wire.CodeSignIn
	}
	if errors.Is(err, errUnproven) {
		code = wire.CodeCertificate
	}
	return &Error{Op: op, Group: g, Ref: ref, Kind: classify(err), Code: code, Err: c.scrubbed(withoutURL(err))}
}

// scrubbed keeps err in the chain and scrubs its text, any part of which may come from the
// service.
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

// isConnectionLost reports whether a connection could not be made, or broke, or does not lead to the
// service.
func isConnectionLost(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) || errors.Is(err, errPage) || errors.Is(err, errUnproven) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || isClosedIdle(err)
}

// isClosedIdle reports that the service closed a connection as the request began on it.
// net/http does not export this error.
func isClosedIdle(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if err.Error() == "http: server closed idle connection" {
			return true
		}
	}
	return false
}

// withoutURL removes the method and address that net/http puts in front. The address may
// hold a ticket.
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
