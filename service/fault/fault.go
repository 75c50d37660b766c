// Package fault is the one error type that the service answers with: a code for
// programs, a text for people that holds the words existing clients look for.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Error is a refusal or failure as the caller of the service sees it. Its text
// holds no path, no SQL and no secret.
type Error struct {
	Code       string // one of the wire.Code… constants
	Text       string
	RetryAfter time.Duration // for 429 and 503; 0 = not stated
	Err        error         // cause, for the log only; may be nil
}

// Error returns the text without the cause.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes a refusal.
func New(code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Invalid makes a refusal of a value in the words of err; nil stays nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return New(wire.CodeValidation, "%s", err.Error())
}

// Of returns err as an *Error; any other error becomes an internal error whose text
// reveals nothing.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: wire.CodeInternal, Text: "internal error: the operation was not carried out; the operator " +
		"finds the cause in the log under this request id", Err: err}
}

// Status returns the HTTP status of the error's code.
func (e *Error) Status() int {
	switch e.Code {
	case wire.CodeAuthRequired, wire.CodeInvalidToken, wire.CodeAudience, wire.CodeInvalidKey, wire.CodeDisabled:
		return http.StatusUnauthorized
	case wire.CodeNotAuthorized, wire.CodeReadOnly, wire.CodeGroupDeleted, wire.CodeInvite, wire.CodeSealedOnly:
		return http.StatusForbidden
	case wire.CodeAccountUnknown, wire.CodeGroupNotFound, wire.CodeFileNotFound, wire.CodeFileDeleted,
		wire.CodeUploadUnknown, wire.CodeUnsupported:
		return http.StatusNotFound
	case wire.CodeGroupExists, wire.CodeNotOffered, wire.CodeConflict, wire.CodePending, wire.CodeBase,
		wire.CodeMissing, wire.CodeEpoch, wire.CodeHead, wire.CodeSpent, wire.CodeJournalEnded, wire.CodeOtherAccount:
		return http.StatusConflict
	case wire.CodePartExists:
		return http.StatusPreconditionFailed
	case wire.CodeInsufficient:
		return http.StatusPaymentRequired
	case wire.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case wire.CodeRateLimited:
		return http.StatusTooManyRequests
	case wire.CodeValidation, wire.CodeInvalidJSON:
		return http.StatusBadRequest
	case wire.CodeStorageFull:
		return http.StatusInsufficientStorage
	case wire.CodeUnavailable, wire.CodeUnproven, wire.CodeNamesUnread:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
