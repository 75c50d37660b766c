package sdk

import (
	"errors"
	"strings"
)

// Kind is the class of an [Error]. It is an error itself, so that errors.Is takes it as a
// target; [KindOf] returns it for a switch. Later versions append kinds: have a default
// case.
type Kind uint8

// The kinds. The first four after ErrOther are the classes of the specification,
// section 7.1.
const (
	ErrOther           Kind = iota // none of the others: report the message
	ErrAudience                    // the session token was made for another service address
	ErrNotFound                    // no such account, group, file or upload
	ErrNotAuthorized               // not a member, not the owner, or a reader
	ErrInsufficient                // the balance of the account is too low
	ErrUnauthenticated             // no credentials, or the service refused them
	ErrDeleted                     // the key of the file was destroyed
	ErrConflict                    // it exists already, or it changed meanwhile
	ErrTooLarge                    // over a limit of the service or of this client
	ErrRateLimited                 // too many requests; retry later
	ErrUnavailable                 // the service is unreachable or down
	ErrCorrupt                     // the bytes fail the tag, the hash or the protocol
	ErrUnsupported                 // the service does not offer the operation
	ErrInvalid                     // a bad argument or configuration; usually nothing was sent
	ErrTimeout                     // no answer within the deadline
	ErrCanceled                    // the caller's context was canceled
	ErrStorageFull                 // the service has no room for the file
	ErrPending                     // recorded, and carried out later unless the owner of the group cancels it

	// ErrWrongContent is in the chain of an ErrCorrupt if the content opened with its key but is not what the ledger
	// recorded. Its uploader or the service made it so. The retrieval was charged, and another one returns the same
	// content.
	ErrWrongContent
)

// Error returns the kind in words, such as "not authorized".
func (k Kind) Error() string {
	names := [...]string{
		ErrOther: "other", ErrAudience: "audience", ErrNotFound: "not found", ErrNotAuthorized: "not authorized",
		ErrInsufficient: "insufficient", ErrUnauthenticated: "unauthenticated", ErrDeleted: "deleted",
		ErrConflict: "conflict",
		ErrTooLarge: "too large", ErrRateLimited: "rate limited", ErrUnavailable: "unavailable", ErrCorrupt: "corrupt",
		ErrUnsupported: "unsupported", ErrInvalid: "invalid", ErrTimeout: "timeout", ErrCanceled: "canceled",
		ErrStorageFull: "storage full", ErrPending: "pending",
		ErrWrongContent: "the content is not what the ledger recorded",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return names[ErrOther]
}

// Error is the one error type of this package. Test for a kind with
// errors.Is(err, sdk.ErrNotFound) or [KindOf]. Never match its text, which
// contains words of the service.
type Error struct {
	Op    string  // operation in words, such as "retrieve"
	Group GroupID // "" when the operation concerns no group
	Ref   Ref     // "" when the operation concerns no single file
	Kind  Kind
	Code  string // says more than Kind: a Code… constant of package wire, or ""
	// Unsure: the change may be recorded all the same. [Group.Put], [Group.Resume], [Group.Upload],
	// [BlockUpload.Finish] and [Client.SendSealed] tell it; false says nothing of other changes. It is about this call:
	// what an earlier one, or an earlier process, left open stays open.
	Unsure bool
	Err    error // the cause; may be nil
}

// Error returns the operation, the group, the reference and the cause in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Group != "" {
		b.WriteString(" in group ")
		b.WriteString(quote(string(e.Group)))
	}
	if e.Ref != "" {
		b.WriteString(" of ")
		b.WriteString(quoteRef(e.Ref))
	}
	b.WriteString(": ")
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	} else {
		b.WriteString(e.Kind.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the kind of e.
func (e *Error) Is(target error) bool { return target == e.Kind }

// unsure is an error of a change that may be recorded all the same.
type unsure struct{ error }

func (e unsure) Unwrap() error { return e.error }

func isUnsure(err error) bool {
	var own *Error
	return errors.As(err, new(unsure)) || errors.As(err, &own) && own.Unsure
}

// KindOf returns the kind of the outermost [*Error] in the chain of err. Without one it
// returns a [Kind] that is in the chain itself, else [ErrOther].
func KindOf(err error) Kind {
	var e *Error
	var k Kind
	if errors.As(err, &e) {
		return e.Kind
	}
	_ = errors.As(err, &k) // k stays ErrOther
	return k
}
