package vaultwire

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// MaxTokenLifetime is the life of a session token (specification 2.5).
const MaxTokenLifetime = 24 * time.Hour

// TokenLeeway is how much the clocks of two processes may differ in a token.
const TokenLeeway = 30 * time.Second

// APIKeyPrefix begins each API key; 32 random bytes in base64url follow.
const APIKeyPrefix = "svc_sk_"

// CredentialBytes is the size of a credential: flags, time, hash of the API key and HMAC.
const CredentialBytes = 1 + 8 + 32 + 32

// Credential is what the database has of the API key of an account, of [CredentialBytes]. Only the vault makes one, and
// it takes no other. That of an account without a key has a hash of zeros.
type Credential []byte

// sealedOnly is the flag of a credential whose API key is taken sealed alone.
const sealedOnly = 1

// NewCredential returns a credential, which lacks its HMAC yet.
func NewCredential(made time.Time, hash []byte, isSealedOnly bool) Credential {
	flags := byte(0)
	if isSealedOnly {
		flags = sealedOnly
	}
	return append(binary.BigEndian.AppendUint64([]byte{flags}, uint64(made.UnixNano())), hash...)
}

// SealedOnly reports whether the API key is taken sealed alone, and no session begins without it.
func (c Credential) SealedOnly() bool { return len(c) == CredentialBytes && c[0]&sealedOnly != 0 }

// Made is when the key was made.
func (c Credential) Made() time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(c[1:]))) }

// Hash is SHA-256 of the key.
func (c Credential) Hash() []byte { return c[9:41] }

// MAC is the HMAC of the vault over Text.
func (c Credential) MAC() []byte { return c[41:] }

// Text is what the HMAC of a credential is over.
func (c Credential) Text(account string) []byte {
	return fmt.Appendf(nil, "svc-credential-1\n%s\n%x\n", account, []byte(c[:41]))
}

type (
	// MakeKey asks for an API key of an account.
	MakeKey struct {
		Account string
		Before  Credential // that it replaces; nil = there is none
		NoKey   bool       // the credential of an account without a key
	}
	// MadeKey is an API key on its way to the database: [Vault.TakeKey] gives it.
	MadeKey struct {
		Credential Credential
		Held       []byte // nil = there is none
	}
	// TakeKey asks for the API key that was made, for the record of it, which is committed.
	TakeKey struct {
		Held   []byte
		Record chain.Record
	}
	// SealOnly asks to have an API key taken sealed alone from now on.
	SealOnly struct {
		Account    string
		Credential Credential
	}
)

// Claims are those of a session token (specification 2.5).
type Claims struct {
	Account    string
	Generation int64  // of the API key that the token was made with
	Address    string // of the service: issuer and audience
	Issued     time.Time
	Expires    time.Time
	Undated    bool   // it may not be remembered: it has a time before which it is not good
	Page       string // id of the session of the account page; "" = it is none
	// Request proves who sends a request, see format.Session.RequestKey; nil = the session is not sealed.
	Request Secret
}

// IssueToken asks for a token. One of Key, Opening and SignIn says why the account may have it.
type IssueToken struct {
	Claims
	// Credential is that of the account.
	Credential Credential
	Key        Secret // its API key, in the clear
	Opening    *Opening
	// SignIn is the record of a sign-in at the account page, which is committed. It makes one token.
	SignIn *chain.Record
}

// Opening begins a session, see [format.Session].
type Opening struct {
	For    format.SessionFor
	Sealed []byte
}

// OpenToken asks for the claims of a token.
type OpenToken struct {
	Token   Secret
	Address string
}

// TokenError says why a token is refused.
type TokenError struct {
	Audience bool // it was made for another service
	Text     string
}

func (e *TokenError) Error() string { return e.Text }

// CheckRecord checks that a record is that of an API key, or a sign-in, of an account. Errors: [ErrNoClaim].
func CheckRecord(r *chain.Record, account string, kinds ...string) error {
	for _, kind := range kinds {
		if r.Kind == kind && r.Account == account && r.Chain == chain.OfAccount(account) && account != "" {
			return nil
		}
	}
	return fmt.Errorf("a record of kind %.40q in the chain %.80q: %w", r.Kind, r.Chain, ErrNoClaim)
}
