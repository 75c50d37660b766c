package keys

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/svcfs/svcfs/service/vaultwire"
)

// measurement stands in the place of an attested measurement of the code that
// handles keys. It is a constant: nothing is measured. It stays, because clients may
// remember checksums.
const measurement = "svcd-vault-1"

// Measurement is the constant in [ChecksumInput].
func Measurement() string { return measurement }

// Checksum distinguishes versions of a group's key: hex SHA-256 of [ChecksumInput].
// Every client can compute it, as service/LEDGER.md says; it attests nothing.
func Checksum(group string, version int64) string {
	sum := sha256.Sum256(ChecksumInput(group, version))
	return hex.EncodeToString(sum[:])
}

// ChecksumInput is a constant, the group and its key version, as
// service/LEDGER.md lays them out.
func ChecksumInput(group string, version int64) []byte {
	return append([]byte(measurement+"\x00"), vaultwire.Binding{Group: group, Version: version}.Bytes()...)
}
