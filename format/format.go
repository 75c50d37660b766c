// Package format is the file format of the service: how plaintext becomes the
// ciphertext that is stored, and back. SPEC.md beside this file describes it for
// other implementations.
//
// A blob is IV (12 bytes), ciphertext, tag (16 bytes) of AES-256-GCM without
// additional data. It says nothing about which file it is: whoever opens a blob
// must compare the SHA-256 of the plaintext with the hash the ledger recorded.
package format

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
)

// Sizes in bytes (NIST SP 800-38D).
const (
	KeyBytes   = 32
	NonceBytes = 12
	TagBytes   = 16
	Overhead   = NonceBytes + TagBytes // of a blob over its plaintext
)

// Errors of opening a blob. Test with errors.Is.
var (
	// ErrAuthentication: wrong key, or changed bytes.
	ErrAuthentication = errors.New("authentication tag does not fit: wrong key or changed bytes")
	// ErrCorrupt: the bytes are not what the format prescribes.
	ErrCorrupt = errors.New("malformed file")
	// ErrUnsupported: a version or compression this package does not know.
	ErrUnsupported = errors.New("unsupported file format")
	// ErrTooLarge: content over the caller's limit.
	ErrTooLarge = errors.New("content is larger than allowed")
)

// Key is the key of one file. It prints as "redacted" in every form.
type Key struct {
	raw [KeyBytes]byte
}

// ParseKey reads 32 bytes in standard base64 with padding, strictly. Other
// lengths are refused: 16 bytes would silently select a weaker cipher. So is
// the key of only zeros. Errors are [ErrCorrupt] and never show the text.
func ParseKey(text string) (*Key, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("parse key: not standard base64: %w", ErrCorrupt)
	}
	defer clear(raw)
	return NewKey(raw)
}

// NewKey copies raw, which must be 32 bytes and not all zero, else [ErrCorrupt].
func NewKey(raw []byte) (*Key, error) {
	if len(raw) != KeyBytes {
		return nil, fmt.Errorf("key of %d bytes: want %d: %w", len(raw), KeyBytes, ErrCorrupt)
	}
	k := &Key{raw: [KeyBytes]byte(raw)}
	if k.isZero() {
		return nil, errZeroKey
	}
	return k, nil
}

// RandomKey makes a key.
func RandomKey() (*Key, error) {
	var k Key
	if _, err := rand.Read(k.raw[:]); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return &k, nil
}

// Bytes returns the key itself, which must not leave the call.
func (k *Key) Bytes() []byte { return k.raw[:] }

// Base64 returns the key as [ParseKey] reads it.
func (k *Key) Base64() string { return base64.StdEncoding.EncodeToString(k.raw[:]) }

// Fingerprint returns the SHA-256 of the key, to recognise one that is handed
// out twice.
func (k *Key) Fingerprint() [sha256.Size]byte { return sha256.Sum256(k.raw[:]) }

// Wipe overwrites the key. Using it afterwards is an error.
func (k *Key) Wipe() { clear(k.raw[:]) }

const redacted = "redacted"

// Format prints "redacted" for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText gives "redacted" to encoders.
func (k Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue gives "redacted" to slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(redacted) }

var errZeroKey = fmt.Errorf("key is all zero: %w", ErrCorrupt)

// isZero reports a key that never was one, or was wiped.
func (k *Key) isZero() bool { return k.raw == [KeyBytes]byte{} }

func (k *Key) aead() (cipher.AEAD, error) {
	if k.isZero() { // everybody could open what it seals
		return nil, errZeroKey
	}
	block, err := aes.NewCipher(k.raw[:])
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// Seal encrypts plain in place under a fresh random nonce. plain needs a
// capacity of 16 bytes more than its length; sealed (ciphertext, then tag)
// shares its memory. On error plain is as it was.
func Seal(k *Key, plain []byte) (nonce [NonceBytes]byte, sealed []byte, err error) {
	if cap(plain)-len(plain) < TagBytes {
		return nonce, nil, fmt.Errorf("seal %d bytes: no room for the tag behind them", len(plain))
	}
	aead, err := k.aead()
	if err != nil {
		return nonce, nil, err
	}
	if _, err := rand.Read(nonce[:]); err != nil {
		return nonce, nil, fmt.Errorf("make nonce: %w", err)
	}
	return nonce, aead.Seal(plain[:0], nonce[:], plain, nil), nil
}

// Reseal encrypts plain in place again, as [Seal] did before with this key and
// nonce. It fails, and leaves plain as it is, unless tag is what Seal made of it:
// so it only ever repeats a message, and never makes two under one nonce.
func Reseal(k *Key, nonce, tag, plain []byte) (sealed []byte, err error) {
	if len(nonce) != NonceBytes || cap(plain)-len(plain) < TagBytes {
		return nil, fmt.Errorf("seal %d bytes again: no nonce, or no room for the tag behind them", len(plain))
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	sealed = aead.Seal(plain[:0], nonce, plain, nil)
	if subtle.ConstantTimeCompare(sealed[len(plain):], tag) == 1 {
		return sealed, nil
	}
	if _, err := aead.Open(sealed[:0], nonce, sealed, nil); err != nil {
		return nil, fmt.Errorf("seal again: %w", err)
	}
	return nil, fmt.Errorf("seal again: %w: the content has changed", ErrCorrupt)
}

// Open decrypts sealed (ciphertext, then tag) in place; plain shares its memory.
// Errors: [ErrAuthentication], after which sealed is wiped, and [ErrCorrupt] for a
// nonce or a length that is none.
func Open(k *Key, nonce, sealed []byte) (plain []byte, err error) {
	if len(nonce) != NonceBytes || len(sealed) < TagBytes {
		return nil, fmt.Errorf("open blob of %d bytes: %w", len(nonce)+len(sealed), ErrCorrupt)
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	plain, err = aead.Open(sealed[:0], nonce, sealed, nil)
	if err != nil {
		clear(sealed)
		return nil, ErrAuthentication
	}
	return plain, nil
}

// SplitBlob returns the parts of a blob, which share its memory.
func SplitBlob(blob []byte) (nonce, sealed []byte, err error) {
	if len(blob) < Overhead {
		return nil, nil, fmt.Errorf("blob of %d bytes: want at least %d: %w", len(blob), Overhead, ErrCorrupt)
	}
	return blob[:NonceBytes], blob[NonceBytes:], nil
}

// OpenBlob decrypts a blob in place; plain shares its memory. Errors:
// [ErrAuthentication], [ErrCorrupt] for what is too short to be a blob.
func OpenBlob(k *Key, blob []byte) (plain []byte, err error) {
	nonce, sealed, err := SplitBlob(blob)
	if err != nil {
		return nil, err
	}
	return Open(k, nonce, sealed)
}

// SealBlob encrypts a copy of plain into a new blob, which belongs to the caller.
func SealBlob(k *Key, plain []byte) ([]byte, error) {
	blob := make([]byte, NonceBytes+len(plain), Overhead+len(plain))
	copy(blob[NonceBytes:], plain)
	nonce, sealed, err := Seal(k, blob[NonceBytes:])
	if err != nil {
		return nil, err
	}
	copy(blob, nonce[:])
	return blob[:NonceBytes+len(sealed)], nil
}
