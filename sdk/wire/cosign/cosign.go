// Package cosign makes and verifies the signatures of a witness on checkpoints:
// c2sp.org/tlog-cosignature, version 1, with Ed25519. The package only computes.
package cosign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/locked"
)

// Numbers of c2sp.org/tlog-cosignature.
const (
	algorithm  = 0x04 // of an Ed25519 key that cosigns
	hashBytes  = 4    // length of the hash of the key in front of a signature in a note
	stampBytes = 8    // length of the time before the signature: s since the epoch, big-endian
)

// Verifier verifies the signatures of a witness. It is a [note.Verifier].
type Verifier struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

var _ note.Verifier = (*Verifier)(nil)

// NewVerifier parses the verifier key of a witness: NAME+HASH+KEY, where KEY is base64 of
// the byte 4 and an Ed25519 key.
func NewVerifier(text string) (*Verifier, error) {
	name, rest, _ := strings.Cut(text, "+")
	hash16, key64, _ := strings.Cut(rest, "+")
	hash, err := strconv.ParseUint(hash16, 16, 32)
	raw, keyErr := base64.StdEncoding.DecodeString(key64)
	if err != nil || keyErr != nil || len(hash16) != 8 || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algorithm {
		return nil, fmt.Errorf("key of a witness %.200q: want NAME+HASH+KEY as the witness shows it, whose KEY "+
			"begins with \"B\"", text)
	}
	v := &Verifier{name: name, key: raw[1:]}
	if v.hash = keyHash(name, v.key); v.hash != uint32(hash) {
		return nil, fmt.Errorf("key of a witness %.200q: its hash is not that of name and key: copy it again", text)
	}
	return v, nil
}

func keyHash(name string, key ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append(append([]byte(name+"\n"), algorithm), key...))
	return binary.BigEndian.Uint32(sum[:])
}

// Name returns the name of the witness.
func (v *Verifier) Name() string { return v.name }

// KeyHash returns the hash of name and key.
func (v *Verifier) KeyHash() uint32 { return v.hash }

// String returns the verifier key.
func (v *Verifier) String() string {
	return fmt.Sprintf("%s+%08x+%s", v.name, v.hash,
		base64.StdEncoding.EncodeToString(append([]byte{algorithm}, v.key...)))
}

// Verify checks a cosignature of a checkpoint's text.
func (v *Verifier) Verify(text, sig []byte) bool {
	if len(sig) != stampBytes+ed25519.SignatureSize {
		return false
	}
	return ed25519.Verify(v.key, signed(binary.BigEndian.Uint64(sig), text), sig[stampBytes:])
}

// latestStamp is far enough in the future, in s since the epoch, that no time overflows.
const latestStamp = 1 << 40

// TimeOf returns when the witness signed. sig must be a signature that the verifier verified, as
// [note.Open] returns it.
func (v *Verifier) TimeOf(sig note.Signature) (time.Time, error) {
	raw, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil || len(raw) != hashBytes+stampBytes+ed25519.SignatureSize {
		return time.Time{}, errors.New("the signature of a witness has no time")
	}
	stamp := binary.BigEndian.Uint64(raw[hashBytes:])
	return time.Unix(int64(min(stamp, latestStamp)), 0), nil
}

func signed(stamp uint64, text []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", stamp), text...)
}

// Signer cosigns checkpoints. It is a [note.Signer], and prints without the key.
type Signer struct {
	redacted
	*Verifier
	key ed25519.PrivateKey
	now func() time.Time
}

type redacted = locked.Redacted

var _ note.Signer = (*Signer)(nil)

// NewSigner returns the signer of a witness. name is text without spaces and plus signs.
func NewSigner(name string, key ed25519.PrivateKey, now func() time.Time) (*Signer, error) {
	if name == "" || strings.ContainsRune(name, '+') || strings.ContainsFunc(name, unicode.IsSpace) {
		return nil, errors.New("name of a witness: want text without spaces and plus signs, " +
			"such as witness.example.org")
	}
	public := key.Public().(ed25519.PublicKey)
	return &Signer{redacted{}, &Verifier{name, keyHash(name, public), public}, key, now}, nil
}

// Sign signs the text of a checkpoint and the present time.
func (s *Signer) Sign(text []byte) ([]byte, error) {
	stamp := uint64(s.now().Unix())
	return append(binary.BigEndian.AppendUint64(nil, stamp), ed25519.Sign(s.key, signed(stamp, text))...), nil
}
