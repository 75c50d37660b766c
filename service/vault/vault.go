// Package vault keeps the keys, standing in for the trusted execution
// environment of the hosted service. It is the only package that sees a file key
// or the master key.
//
// The master key gives, by HKDF-SHA256, one key per group and version; that
// wraps a random key per file with AES-256-GCM, bound to group, reference and
// version. Only wrapped keys leave the package for the database; without the
// master key the database and the blobs are noise.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

const (
	keyBytes = 32
	// FileName is the name of the master key in the data directory.
	FileName = "master.key"
	// measurement identifies the code that handles keys, as an attestation would.
	// It changes when this package changes what it does with a key.
	measurement = "svcd-vault-1"
)

// FileKey is the key of one file on its way to a member. It prints as
// "redacted"; Base64 is the one way to its bytes.
type FileKey struct{ raw [keyBytes]byte }

// Base64 returns the key as the wire wants it.
func (k FileKey) Base64() string { return base64.StdEncoding.EncodeToString(k.raw[:]) }

// Format prints "redacted" for every verb.
func (k FileKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redacted")) }

// LogValue gives "redacted" to slog.
func (k FileKey) LogValue() slog.Value { return slog.StringValue("redacted") }

// Vault wraps and unwraps file keys. It is safe for concurrent use.
type Vault struct{ master [keyBytes]byte }

// Open reads the master key of a data directory, or makes it at the first
// start. A file that others may read is refused.
func Open(dir string) (*Vault, error) {
	raw, err := loadSecret(filepath.Join(dir, FileName))
	if err != nil {
		return nil, fmt.Errorf("open vault: %w", err)
	}
	return &Vault{master: raw}, nil
}

// loadSecret reads a file of 32 secret bytes, or makes it with mode 0600. Two
// processes that start at once end up with the same secret.
func loadSecret(path string) (secret [keyBytes]byte, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeSecret(path); err != nil {
			return secret, err
		}
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return secret, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return secret, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return secret, fmt.Errorf("%s may be read by others: run chmod 600 on it", path)
	}
	if len(raw) != keyBytes {
		return secret, fmt.Errorf("%s holds %d bytes, want %d: restore it from a backup", path, len(raw), keyBytes)
	}
	return [keyBytes]byte(raw), nil
}

// makeSecret writes a new secret and makes it durable before anything is
// encrypted with it.
func makeSecret(path string) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	var secret [keyBytes]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return err
	}
	_, err = f.Write(secret[:])
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Derive returns a key for another purpose than files, by HKDF-SHA256. Purposes
// are constants of this program; two of them never share a key.
func (v *Vault) Derive(purpose string) ([keyBytes]byte, error) {
	key, err := hkdf.Key(sha256.New, v.master[:], nil, "svc-derived-1 "+purpose, keyBytes)
	if err != nil {
		return [keyBytes]byte{}, fmt.Errorf("derive key for %s: %w", purpose, err)
	}
	return [keyBytes]byte(key), nil
}

// Binding says what a wrapped key belongs to; it cannot be unwrapped as
// anything else.
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

// groupKey derives the key of one version of a group.
func (v *Vault) groupKey(group string, version int64) (cipher.AEAD, error) {
	salt := Binding{Group: group, Version: version}.bytes()
	key, err := hkdf.Key(sha256.New, v.master[:], salt, "svc-group-key-1", keyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	clear(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// NewFileKey makes a random key for a file and returns it with its wrapped form.
func (v *Vault) NewFileKey(b Binding) (FileKey, []byte, error) {
	var key FileKey
	if _, err := rand.Read(key.raw[:]); err != nil {
		return FileKey{}, nil, fmt.Errorf("make file key: %w", err)
	}
	wrapped, err := v.Wrap(b, key)
	return key, wrapped, err
}

// Wrap returns the wrapped form of a key for exactly this binding.
func (v *Vault) Wrap(b Binding, key FileKey) ([]byte, error) {
	aead, err := v.groupKey(b.Group, b.Version)
	if err != nil {
		return nil, fmt.Errorf("derive group key: %w", err)
	}
	nonce := make([]byte, aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("make nonce: %w", err)
	}
	return aead.Seal(nonce, nonce, key.raw[:], b.bytes()), nil
}

// Unwrap returns the key wrapped for exactly this binding.
func (v *Vault) Unwrap(b Binding, wrapped []byte) (FileKey, error) {
	aead, err := v.groupKey(b.Group, b.Version)
	if err != nil {
		return FileKey{}, fmt.Errorf("derive group key: %w", err)
	}
	if len(wrapped) < aead.NonceSize() {
		return FileKey{}, errors.New("unwrap file key: record is too short")
	}
	raw, err := aead.Open(nil, wrapped[:aead.NonceSize()], wrapped[aead.NonceSize():], b.bytes())
	if err != nil || len(raw) != keyBytes {
		return FileKey{}, errors.New("unwrap file key: the record does not belong to this master key, group, reference and version")
	}
	defer clear(raw)
	return FileKey{raw: [keyBytes]byte(raw)}, nil
}

// Measurement identifies the code that handles keys; see [Checksum].
func Measurement() string { return measurement }

// Checksum is the public commitment of a group: hex SHA-256 of [ChecksumInput].
// It changes when the key is rotated or other code handles keys, and anyone can
// compute it: service/LEDGER.md says how.
func Checksum(group string, version int64) string {
	sum := sha256.Sum256(ChecksumInput(group, version))
	return hex.EncodeToString(sum[:])
}

// ChecksumInput is the vault's measurement, the group and its key version, as
// service/LEDGER.md lays them out.
func ChecksumInput(group string, version int64) []byte {
	return append([]byte(measurement+"\x00"), Binding{Group: group, Version: version}.bytes()...)
}
