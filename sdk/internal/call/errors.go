package call

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// Refusal is an answer that is not 2xx, or that says that it is an error. [Config].ReadError makes it.
type Refusal struct {
	Status     int
	Code       string          // "" from the hosted service, unless the text implies one
	Text       string          // of the service
	Kind       error           // what the whole text means, which scrubbing may shorten later
	BadToken   bool            // it is about the session token: another one may do
	BadKey     bool            // it is about the API key
	Object     json.RawMessage // its error, where that is an object
	RetryAfter time.Duration   // that the service asked for
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (HTTP %d)", r.Text, r.Status) }

// isTokenRefused reports whether the service refused the session token.
func isTokenRefused(err error) bool {
	var refused *Refusal
	return errors.As(err, &refused) && refused.BadToken
}

// SignInError is why there is no session token. Its text is scrubbed.
type SignInError struct {
	Code    string // a code of package wire, or ""
	Refused bool   // there is no good API key
	Err     error
}

func (e *SignInError) Error() string { return "get session token: " + e.Err.Error() }
func (e *SignInError) Unwrap() error { return e.Err }

// isKeyRefused reports whether there is no session token for want of a good API key.
func isKeyRefused(err error) bool {
	var e *SignInError
	return errors.As(err, &e) && e.Refused
}

// MalformedError is the cause for an answer that does not follow the protocol.
type MalformedError struct{ err error }

// Malformed returns a [*MalformedError].
func Malformed(err error) error { return &MalformedError{err} }

func (e *MalformedError) Error() string {
	return "the service's answer makes no sense: " + e.err.Error()
}
func (e *MalformedError) Unwrap() error { return e.err }

// ErrPage means that something other than the service answered, such as a network that wants a sign-in
// first: as good as no connection.
var ErrPage = errors.New("a sign-in page of the network answers instead of the service")

// ErrUnproven means that something answered that does not prove to be the service, so that it got no request:
// as good as no connection.
var ErrUnproven = errors.New("what answers does not prove to be the service (a network that wants a sign-in does so)")

// isUnproven reports whether a connection was given up because the other end has no certificate of the service.
func isUnproven(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.Is(err, http.ErrSchemeMismatch)
}

// IsLost reports whether a connection could not be made, or broke, or does not lead to the
// service.
func IsLost(err error) bool {
	return errors.As(err, new(*net.OpError)) || errors.Is(err, ErrPage) || errors.Is(err, ErrUnproven) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
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

// IsUnsent reports an error of a request that never left: no connection to the service could be made.
func IsUnsent(err error) bool {
	var lost *net.OpError
	return errors.As(err, &lost) && lost.Op == "dial" || errors.As(err, new(*tls.CertificateVerificationError))
}

// WithoutURL removes the method and address that net/http puts in front. The address may
// hold a ticket.
func WithoutURL(err error) error {
	var network *url.Error
	if errors.As(err, &network) {
		return network.Err
	}
	return err
}
