package sdk

import (
	"errors"
	"strings"
)

// Kind classifies an [Error]. Kinds are append-only: programs switch on them.
type Kind uint8

// The kinds. The first four after KindOther are the classes of the
// specification, section 7.1.
const (
	KindOther           Kind = iota // report the message
	KindAudience                    // token made for another service address
	KindNotFound                    // no such account, group, file or upload
	KindNotAuthorized               // not a member, or not the owner
	KindInsufficient                // account balance too low
	KindUnauthenticated             // no, wrong or dead credentials
	KindDeleted                     // the file's key was destroyed
	KindConflict                    // exists already, or changed meanwhile
	KindTooLarge                    // over a limit of the service or of this client
	KindRateLimited                 // asked too often; retry later
	KindUnavailable                 // unreachable or down
	KindCorrupt                     // bytes that fail the tag, the hash or the protocol
	KindUnsupported                 // the service does not offer the operation
	KindInvalid                     // refused before anything was sent: bad argument or configuration
	KindTimeout                     // no answer within the deadline
	KindCanceled                    // the caller gave up
	KindStorageFull                 // the service has no room for the file
	KindPending                     // noted, and carried out later unless the owner of the group takes it back
)

// String returns the kind in words, such as "not authorized".
func (k Kind) String() string {
	names := [...]string{
		KindOther: "other", KindAudience: "audience", KindNotFound: "not found", KindNotAuthorized: "not authorized",
		KindInsufficient: "insufficient", KindUnauthenticated: "unauthenticated", KindDeleted: "deleted", KindConflict: "conflict",
		KindTooLarge: "too large", KindRateLimited: "rate limited", KindUnavailable: "unavailable", KindCorrupt: "corrupt",
		KindUnsupported: "unsupported", KindInvalid: "invalid", KindTimeout: "timeout", KindCanceled: "canceled",
		KindStorageFull: "storage full", KindPending: "pending",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return names[KindOther]
}

// Error is the one error type of this package. Test for a class with
// errors.Is(err, sdk.ErrNotFound) or [KindOf]; never match its text, which
// contains words of the service.
type Error struct {
	Op    string  // operation in words, such as "retrieve"
	Group GroupID // "" when none is concerned
	Ref   Ref     // "" when none is concerned
	Kind  Kind
	Code  string // says more than Kind: a Code… constant of package wire; may be empty
	Err   error  // the cause
}

// Sentinels for errors.Is; each matches every [*Error] of its kind.
var (
	ErrAudience        error = &Error{Kind: KindAudience}
	ErrNotFound        error = &Error{Kind: KindNotFound}
	ErrNotAuthorized   error = &Error{Kind: KindNotAuthorized}
	ErrInsufficient    error = &Error{Kind: KindInsufficient}
	ErrUnauthenticated error = &Error{Kind: KindUnauthenticated}
	ErrDeleted         error = &Error{Kind: KindDeleted}
	ErrConflict        error = &Error{Kind: KindConflict}
	ErrTooLarge        error = &Error{Kind: KindTooLarge}
	ErrRateLimited     error = &Error{Kind: KindRateLimited}
	ErrUnavailable     error = &Error{Kind: KindUnavailable}
	ErrCorrupt         error = &Error{Kind: KindCorrupt}
	ErrUnsupported     error = &Error{Kind: KindUnsupported}
	ErrInvalid         error = &Error{Kind: KindInvalid}
	ErrTimeout         error = &Error{Kind: KindTimeout}
	ErrCanceled        error = &Error{Kind: KindCanceled}
	ErrStorageFull     error = &Error{Kind: KindStorageFull}
	ErrPending         error = &Error{Kind: KindPending}
)

// ErrSignIn matches every [*Error] of exchanging the API key for a session
// token, whatever its kind: one that is also [ErrNotFound] means that the
// account does not exist.
var ErrSignIn error = &Error{Op: opSignIn}

// ErrWrongContent is in the chain of an [ErrCorrupt] when content opened with its key
// and yet is not what the ledger recorded: whoever uploaded it, or the service, made it
// so. It was charged, and asking again brings the same.
var ErrWrongContent = errors.New("the content is not what the ledger recorded")

const opSignIn = "get session token"

// Error returns operation, group, reference and cause.
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
		b.WriteString(e.Kind.String())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is a sentinel of the same kind.
func (e *Error) Is(target error) bool {
	if target == ErrSignIn {
		return e.Op == opSignIn
	}
	t, ok := target.(*Error)
	return ok && t.Op == "" && t.Err == nil && t.Kind == e.Kind
}

// KindOf returns the kind of the outermost [*Error] in err's chain, and
// KindOther when there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindOther
}
