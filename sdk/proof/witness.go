package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Numbers of c2sp.org/tlog-cosignature.
const (
	algCosignature = 0x04 // of an Ed25519 key that cosigns
	stampBytes     = 8    // the time before the signature, in s since the epoch, big-endian
)

// cosigner verifies the signatures of a witness.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

// newCosigner reads the verifier key of a witness: NAME+HASH+KEY, where KEY is
// base64 of the byte 4 and an Ed25519 key.
func newCosigner(text string) (*cosigner, error) {
	name, rest, _ := strings.Cut(text, "+")
	hash16, key64, _ := strings.Cut(rest, "+")
	hash, err := strconv.ParseUint(hash16, 16, 32)
	raw, keyErr := base64.StdEncoding.DecodeString(key64)
	if err != nil || keyErr != nil || len(hash16) != 8 || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algCosignature {
		return nil, fmt.Errorf("key of a witness %.200q: want NAME+HASH+KEY as the witness shows it, whose KEY begins with \"B\"", text)
	}
	if sum := sha256.Sum256(append([]byte(name+"\n"), raw...)); binary.BigEndian.Uint32(sum[:]) != uint32(hash) {
		return nil, fmt.Errorf("key of a witness %.200q: its hash is not that of name and key: copy it again", text)
	}
	return &cosigner{name, uint32(hash), raw[1:]}, nil
}

// CheckWitness says what is wrong with the text of a witness's verifier key, or
// nothing.
func CheckWitness(key string) error {
	_, err := newCosigner(key)
	return err
}

// Name returns the witness's name.
func (c *cosigner) Name() string { return c.name }

// KeyHash returns the hash of name and key.
func (c *cosigner) KeyHash() uint32 { return c.hash }

// Verify checks a cosignature of a checkpoint's text.
func (c *cosigner) Verify(text, sig []byte) bool {
	if len(sig) != stampBytes+ed25519.SignatureSize {
		return false
	}
	stamp := binary.BigEndian.Uint64(sig)
	signed := append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", stamp), text...)
	return ed25519.Verify(c.key, signed, sig[stampBytes:])
}

var _ note.Verifier = (*cosigner)(nil)
