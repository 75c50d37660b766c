package vault

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/format"
)

// Files from before this service have no key of their own: they were sealed with
// a key of their group. Such a key is kept per file, wrapped like any other, so
// that it opens the file whatever happens to the group's version.

// LegacyKey returns the key that seals legacy files of a group at one version. It is
// derived apart from the key that wraps file keys: its holder can open the group's
// legacy files of that version and nothing else.
func (v *Vault) LegacyKey(group string, version int64) (*format.Key, error) {
	from, err := v.Key(purposeLegacy)
	if err != nil {
		return nil, err
	}
	salt := Binding{Group: group, Version: version}.bytes()
	raw, err := hkdf.Key(sha256.New, from[:], salt, "svc-legacy-key-1", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive legacy key: %w", err)
	}
	defer clear(raw)
	return format.NewKey(raw)
}

// ReadFileKey reads a key of another service from a file: 32 bytes, or standard base64
// of them. A file that other users may read is refused.
func ReadFileKey(path string) (*format.Key, error) {
	raw, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return format.NewKey(raw[:])
}

// ErrWrongKey means that a key does not open a blob, or the blob was changed.
var ErrWrongKey = errors.New("the key does not open the file, or its bytes were changed")

// OpenLegacy decrypts a copy of a file in the format of version 0, for importing.
func OpenLegacy(key *format.Key, blob []byte) ([]byte, error) {
	plain, err := format.OpenBlob(key, bytes.Clone(blob))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrongKey, err)
	}
	return plain, nil
}
