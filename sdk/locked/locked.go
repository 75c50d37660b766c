// Package locked keeps long-lived keys in memory that the kernel does not swap
// out. Copies that a call makes, such as the header of a request, are in ordinary
// memory and last as long as the call.
package locked

import (
	"fmt"
	"io"
	"log/slog"
)

// Bytes is a secret in pages of its own. The pages are locked as far as the limit of locked
// memory (RLIMIT_MEMLOCK) allows; beyond the limit they stay unlocked. The pages are
// cleared and unlocked when the secret is garbage. It prints as "redacted". The zero value
// is empty.
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

// Copy returns a copy of secret in locked memory. The caller clears secret, which stays the
// caller's.
func Copy(secret []byte) Bytes {
	b := New(len(secret))
	copy(b.memory, secret)
	return b
}

// New returns n zero bytes in locked memory, for the caller to fill.
func New(n int) Bytes {
	if n == 0 {
		return Bytes{}
	}
	return Bytes{memory: allocate(n)}
}

// Slice returns the secret itself, not a copy. The caller must not keep it.
func (b Bytes) Slice() []byte { return b.memory }

// Secret is a credential, such as an API key. Two secrets are equal only if one is a copy of the other.
// The zero value is none.
type Secret struct {
	redacted
	memory *Bytes
}

// NewSecret returns a secret with a copy of value. "" gives the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	memory := Copy([]byte(value))
	return Secret{memory: &memory}
}

// Reveal returns a copy of the credential itself. Never print or store the result.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return string(s.memory.Slice())
}

// IsZero reports whether there is no credential.
func (s Secret) IsZero() bool { return s.memory == nil }

// String returns "redacted".
func (s Secret) String() string { return "redacted" }
