package chain

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// GroupChecksum is what the checksum of a group is computed from (specification 4.2, getGroupChecksum). All of it is
// public: anybody can compute the checksum.
type GroupChecksum struct {
	Measurement string // of the program that keeps the keys, see wire.Vault
	VaultKey    []byte // that keys of files are sealed to
	Group       string
	KeyVersion  int64 // 1, and one more for each revocation
}

// Text returns the text of which the checksum is the SHA-256. Its third line is that of the key.
func (c GroupChecksum) Text() []byte {
	key := sha256.Sum256(c.VaultKey)
	return []byte(strings.Join([]string{"svc-group-checksum-1",
		c.Measurement, hex.EncodeToString(key[:]), hex.EncodeToString([]byte(c.Group)),
		strconv.FormatInt(c.KeyVersion, 10), ""}, "\n"))
}

// Sum returns the checksum in hex.
func (c GroupChecksum) Sum() string {
	sum := sha256.Sum256(c.Text())
	return hex.EncodeToString(sum[:])
}
