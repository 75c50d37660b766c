package format

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/sha256"
	"fmt"
)

// A session begins with an opening: the client encapsulates a secret to the key of the vault, as for a sealed key
// (HPKE, RFC 9180, base mode), and seals its API key with it. Both sides export the secret of the session. From that
// come the key that keys of files are encrypted under on their way to the client, and the key that proves who sent a
// request, and another one that proves it to the vault alone. Nobody between the vault and the client sees the API
// key, or a key of a file.

const (
	// EncapsulatedBytes is the length of an encapsulated secret.
	EncapsulatedBytes = SealedKeyBytes - KeyBytes - TagBytes
	// MaxAPIKeyBytes bounds an API key in an opening.
	MaxAPIKeyBytes = 256
	// MaxOpeningBytes bounds an opening.
	MaxOpeningBytes = EncapsulatedBytes + MaxAPIKeyBytes + TagBytes
	// SessionKeyBytes is the length of the key of a file in a session: nonce, encrypted key and tag.
	SessionKeyBytes = NonceBytes + KeyBytes + TagBytes

	sessionDomain        = "svc-session-1"
	sessionKeyDomain     = "svc-session-key-1"
	sessionRequestDomain = "svc-session-request-1"
	sessionVouchDomain   = "svc-session-vouch-1"
)

// SessionFor is what a session is bound to.
type SessionFor struct {
	Service string // contract id of the service
	Account string
	Epoch   int64 // number of the vault's key
}

func (f SessionFor) info() []byte { return sealedInfo(sessionDomain, f.Epoch, f.Service, f.Account) }

// Session is the secrets of a session. It prints as "redacted", and is safe for concurrent use.
type Session struct {
	secret, request, vouch []byte
	keys                   cipher.AEAD
}

// Format prints "redacted" for every verb.
func (Session) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// NewSession begins a session with an API key of at most [MaxAPIKeyBytes]. The opening belongs to the caller.
func (p *VaultPublic) NewSession(to SessionFor, apiKey []byte) (opening []byte, s *Session, err error) {
	if len(apiKey) > MaxAPIKeyBytes {
		return nil, nil, fmt.Errorf("begin a session: the API key has %d bytes, at most %d are allowed", len(apiKey),
			MaxAPIKeyBytes)
	}
	kdf, aead := sealedKeySuite()
	opening, sender, err := hpke.NewSender(p.public, kdf, aead, to.info())
	if err != nil {
		return nil, nil, fmt.Errorf("begin a session: %w", err)
	}
	sealed, err := sender.Seal(nil, apiKey)
	if err == nil {
		s, err = exported(sender)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("begin a session: %w", err)
	}
	return append(opening, sealed...), s, nil
}

// OpenSession opens the opening of a session. The API key belongs to the caller, who clears it. Errors: [ErrCorrupt].
func (s *VaultSecret) OpenSession(from SessionFor, opening []byte) (apiKey []byte, session *Session, err error) {
	if len(opening) < EncapsulatedBytes+TagBytes || len(opening) > MaxOpeningBytes {
		return nil, nil, fmt.Errorf("open a session of %d bytes: want %d to %d: %w", len(opening),
			EncapsulatedBytes+TagBytes, MaxOpeningBytes, ErrCorrupt)
	}
	kdf, aead := sealedKeySuite()
	recipient, err := hpke.NewRecipient(opening[:EncapsulatedBytes], s.private, kdf, aead, from.info())
	if err == nil {
		apiKey, err = recipient.Open(nil, opening[EncapsulatedBytes:])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open a session: %w: %w", ErrCorrupt, err)
	}
	if session, err = exported(recipient); err != nil {
		clear(apiKey)
		return nil, nil, err
	}
	return apiKey, session, nil
}

func exported(context interface {
	Export(exporterContext string, length int) ([]byte, error)
}) (*Session, error) {
	secret, err := context.Export(sessionDomain, KeyBytes)
	if err != nil {
		return nil, err
	}
	return SessionOf(secret)
}

// SessionOf returns the session of a secret, which it keeps. Errors: [ErrCorrupt].
func SessionOf(secret []byte) (*Session, error) {
	if len(secret) != KeyBytes {
		return nil, fmt.Errorf("the secret of a session has %d bytes: want %d: %w", len(secret), KeyBytes, ErrCorrupt)
	}
	raw, err := hkdf.Expand(sha256.New, secret, sessionKeyDomain, KeyBytes)
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	request, err := hkdf.Expand(sha256.New, secret, sessionRequestDomain, KeyBytes)
	if err != nil {
		return nil, err
	}
	vouch, err := hkdf.Expand(sha256.New, secret, sessionVouchDomain, KeyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	keys, err := cipher.NewGCMWithRandomNonce(block)
	return &Session{secret, request, vouch, keys}, err
}

// Secret is what [SessionOf] takes: 32 bytes of the session.
func (s *Session) Secret() []byte { return s.secret }

// RequestKey is the key that proves to the service who sent a request: 32 bytes of the session.
func (s *Session) RequestKey() []byte { return s.request }

// VouchKey is the key that proves the same to the vault, which gives it to nobody: 32 bytes of the session.
func (s *Session) VouchKey() []byte { return s.vouch }

// JournalRef takes the place of the reference of a file for the key of a journal. No file has such a reference.
func JournalRef(journal string) string { return "journal " + journal }

func sessionBound(group, ref string) []byte { return sealedInfo(sessionKeyDomain, 0, group, ref) }

// Seal encrypts the key of a file for the client. The result has [SessionKeyBytes].
func (s *Session) Seal(group, ref string, key *Key) []byte {
	return s.keys.Seal(nil, nil, key.Bytes(), sessionBound(group, ref))
}

// Open decrypts the key of a file, which the caller wipes. Errors: [ErrAuthentication].
func (s *Session) Open(group, ref string, sealed []byte) (*Key, error) {
	raw, err := s.keys.Open(nil, nil, sealed, sessionBound(group, ref))
	if err != nil {
		return nil, fmt.Errorf("open a key that came sealed: %w", ErrAuthentication)
	}
	defer clear(raw)
	return NewKey(raw)
}
