// Package vault keeps the keys, standing in for the trusted execution
// environment of the hosted service. It is the only package that sees a file key
// or the master key.
//
// The master key wraps the keys of the service, which the database keeps. One of
// them, the root, gives by HKDF-SHA256 one key per group and version; that
// wraps a random key per file with AES-256-GCM, bound to group, reference and
// version. Only wrapped keys leave the package for the database; without the
// master key the database and the blobs are noise.
package vault

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/store"
)

const (
	keyBytes = 32
	// measurement stands in the place of an attested measurement of the code that
	// handles keys. It is a constant: nothing is measured. It stays, because clients may
	// remember checksums.
	measurement = "svcd-vault-1"
)

// Vault wraps and unwraps file keys, and keeps the keys of the service. It is
// safe for concurrent use.
type Vault struct {
	source Source

	mu      sync.RWMutex // guards the rest
	master  Master
	keys    []serviceKey
	secrets map[int64]*format.VaultSecret // by epoch, as they are needed
}

// Binding is the owner of a wrapped key; the key cannot be unwrapped for another.
type Binding struct {
	Group   string
	Ref     string
	Version int64 // of the group's key
}

func (b Binding) bytes() []byte {
	var out []byte
	for _, s := range []string{"svc-file-key-1", b.Group, b.Ref} {
		out = binary.BigEndian.AppendUint64(out, uint64(len(s)))
		out = append(out, s...)
	}
	return binary.BigEndian.AppendUint64(out, uint64(b.Version))
}

// groupKey derives the key of one version of a group from a root.
func groupKey(root serviceKey, group string, version int64) (cipher.AEAD, error) {
	salt := Binding{Group: group, Version: version}.bytes()
	key, err := hkdf.Key(sha256.New, root.raw.Slice(), salt, "svc-group-key-1", keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive group key: %w", err)
	}
	defer clear(key)
	return newGCM(key)
}

// Wrap wraps a key for exactly this binding, by a version of the root that tx knows.
func (v *Vault) Wrap(ctx context.Context, tx *store.Tx, root int64, b Binding, key *format.Key) ([]byte, error) {
	k, ok := v.root(root)
	if !ok { // another process made it
		if err := v.Reload(ctx, tx); err != nil {
			return nil, err
		}
		if k, ok = v.root(root); !ok {
			return nil, fmt.Errorf("there is no root %d", root)
		}
	}
	aead, err := groupKey(k, b.Group, b.Version)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, key.Bytes(), b.bytes()), nil
}

// root returns a version of the root.
func (v *Vault) root(version int64) (serviceKey, bool) {
	for _, k := range v.versions(purposeFiles) {
		if k.version == version {
			return k, true
		}
	}
	return serviceKey{}, false
}

// UnwrapFileKey returns the key wrapped for exactly this binding, and the version of the
// root that wraps it.
func (v *Vault) UnwrapFileKey(ctx context.Context, tx *store.Tx, b Binding, wrapped []byte) (*format.Key,
	int64, error) {
	key, root, err := v.UnwrapFileKeyOffline(b, wrapped)
	if err == nil {
		return key, root, nil
	}
	if err := v.Reload(ctx, tx); err != nil { // another process may have made a root
		return nil, 0, err
	}
	return v.UnwrapFileKeyOffline(b, wrapped)
}

// UnwrapFileKeyOffline is [Vault.UnwrapFileKey] with the roots that were read so far,
// without the database.
func (v *Vault) UnwrapFileKeyOffline(b Binding, wrapped []byte) (key *format.Key, version int64, err error) {
	for _, root := range v.versions(purposeFiles) {
		aead, err := groupKey(root, b.Group, b.Version)
		if err != nil {
			return nil, 0, err
		}
		raw, err := aead.Open(nil, nil, wrapped, b.bytes())
		if err != nil || len(raw) != keyBytes {
			continue
		}
		defer clear(raw)
		key, err = format.NewKey(raw)
		return key, root.version, err
	}
	return nil, 0, errors.New("unwrap file key: the record does not belong to this master key, group, reference and " +
		"version")
}

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
	return append([]byte(measurement+"\x00"), Binding{Group: group, Version: version}.bytes()...)
}
