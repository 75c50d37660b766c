// Package locked keeps long-lived keys in memory that the kernel does not write to a
// swap device. Copies that a call makes, such as the header of a request, are not in
// it: they last as long as the call.
package locked

import (
	"fmt"
	"io"
	"log/slog"
)

// Bytes are a secret in pages of its own, which are locked as far as the limit of
// locked memory (RLIMIT_MEMLOCK) lets them; what does not fit is kept unlocked. The
// pages are cleared and unlocked when nobody can reach them any more. It prints as
// "redacted". The zero value is empty.
type Bytes struct {
	redacted
	memory []byte
}

// Redacted makes every type that embeds it print as "redacted", in every format
// verb, in JSON and in logs.
type Redacted struct{}

type redacted = Redacted

// Format prints "redacted" for every verb, also %#v and %x.
func (Redacted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redacted") }

// MarshalText gives "redacted" to JSON and other encoders.
func (Redacted) MarshalText() ([]byte, error) { return []byte("redacted"), nil }

// LogValue gives "redacted" to slog.
func (Redacted) LogValue() slog.Value { return slog.StringValue("redacted") }

// Copy returns a copy of secret in locked memory. The caller clears the original.
func Copy(secret []byte) Bytes {
	b := New(len(secret))
	copy(b.memory, secret)
	return b
}

// New returns n bytes of zeros in locked memory, to be filled.
func New(n int) Bytes {
	if n == 0 {
		return Bytes{}
	}
	return Bytes{memory: allocate(n)}
}

// Slice returns the secret itself, which must not leave the call.
func (b Bytes) Slice() []byte { return b.memory }
