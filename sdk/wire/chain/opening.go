package chain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Opening is what the record of a file commits to. The record, which lasts for ever, holds the
// commitment. The opening is kept sealed, is listed to members, and is destroyed with the key of the
// file: without the salt nobody can try which content, or which size, a commitment stands for.
type Opening struct {
	Salt [SaltBytes]byte // random, or unknown to everybody who does not have the key of the file
	Size int64           // of the plaintext in bytes, negative = not known
	Hash Hash            // of the plaintext; zero where the writer of format version 2 did not know it
}

// SaltBytes is the length of [Opening].Salt, and OpeningBytes that of [Opening.Bytes].
const (
	SaltBytes    = 32
	OpeningBytes = SaltBytes + 8 + sha256.Size
)

// Commitment returns what a record has as its FileHash: 64 hex digits of HMAC-SHA-256 under the
// salt over the size (8 bytes, big-endian) and the hash.
func (o *Opening) Commitment() string {
	mac := hmac.New(sha256.New, o.Salt[:])
	mac.Write(o.Bytes()[SaltBytes:])
	return hex.EncodeToString(mac.Sum(nil))
}

// Bytes returns salt, size and hash, one after the other.
func (o *Opening) Bytes() []byte {
	b := append(make([]byte, 0, OpeningBytes), o.Salt[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(max(o.Size, -1)))
	return append(b, o.Hash[:]...)
}

// String returns [Opening.Bytes] in standard base64, as rows of a list have it.
func (o *Opening) String() string { return base64.StdEncoding.EncodeToString(o.Bytes()) }

// OpeningOf reverses [Opening.Bytes].
func OpeningOf(raw []byte) (o Opening, err error) {
	if len(raw) != OpeningBytes {
		return o, fmt.Errorf("an opening of %d bytes: want %d", len(raw), OpeningBytes)
	}
	copy(o.Salt[:], raw)
	o.Size = int64(binary.BigEndian.Uint64(raw[SaltBytes:]))
	copy(o.Hash[:], raw[SaltBytes+8:])
	return o, nil
}

// ParseOpening reverses [Opening.String].
func ParseOpening(text string) (Opening, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Opening{}, fmt.Errorf("an opening is not base64: %w", err)
	}
	return OpeningOf(raw)
}
