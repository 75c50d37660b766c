package vault

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

const (
	// FileName is the name of the master key in the data directory.
	FileName = "master.key"
	// commandTimeout bounds a command that prints the master key.
	commandTimeout = time.Minute
	// MaxFileBytes bounds a file with a key: more is no key.
	MaxFileBytes = 100
)

// Purposes of keys that come from the master key itself, and change with it.
const (
	purposeName     = "name of the master key"
	purposeArchives = "archives"
	purposeWrapping = "keys of the service"
)

// Master is the master key. It wraps the keys of the service and seals archives, and
// does nothing else. It prints as "redacted".
type Master struct {
	locked.Redacted
	raw locked.Bytes
}

// Name identifies a master key and reveals nothing about it.
func (m Master) Name() (string, error) {
	raw, err := m.derive(purposeName)
	return hex.EncodeToString(raw[:]), err
}

// ArchiveSeal is the key that seals archives.
func (m Master) ArchiveSeal() ([keyBytes]byte, error) { return m.derive(purposeArchives) }

// derive returns a key for a purpose, by HKDF-SHA256. Two purposes never share
// a key.
func (m Master) derive(purpose string) ([keyBytes]byte, error) {
	key, err := hkdf.Key(sha256.New, m.raw.Slice(), nil, "svc-derived-1 "+purpose, keyBytes)
	if err != nil {
		return [keyBytes]byte{}, fmt.Errorf("derive key for %s: %w", purpose, err)
	}
	defer clear(key)
	return [keyBytes]byte(key), nil
}

// aead wraps keys of the service.
func (m Master) aead() (cipher.AEAD, error) {
	key, err := m.derive(purposeWrapping)
	if err != nil {
		return nil, err
	}
	defer clear(key[:])
	return newGCM(key[:])
}

// newGCM makes an AEAD whose output begins with its random nonce.
func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Source is the place of the master key.
type Source struct {
	File    string // 32 bytes, or standard base64 of them
	Make    bool   // a File that is missing is made
	Command string // run by /bin/sh, prints the key; "" = File
}

// InDirectory is the master key of a data directory, made at the first start.
func InDirectory(dir string) Source { return Source{File: filepath.Join(dir, FileName), Make: true} }

// WhereToPut says where the master key of a database belongs.
func (s Source) WhereToPut() string {
	if s.Command != "" {
		return "have the command print that master key"
	}
	return fmt.Sprintf("put that master.key into %s, with mode 0600", filepath.Dir(s.File))
}

// Read reads the master key. A file that other users may read is refused.
func (s Source) Read(ctx context.Context) (Master, error) {
	raw, err := s.read(ctx)
	if err != nil {
		return Master{}, fmt.Errorf("open vault: %w", err)
	}
	defer clear(raw[:])
	return Master{raw: locked.Copy(raw[:])}, nil
}

func (s Source) read(ctx context.Context) ([keyBytes]byte, error) {
	if s.Command != "" {
		return runCommand(ctx, s.Command)
	}
	raw, err := readSecret(s.File)
	if s.Make && errors.Is(err, fs.ErrNotExist) {
		if err := makeSecret(s.File); err != nil {
			return raw, err
		}
		raw, err = readSecret(s.File)
	}
	return raw, err
}

// runCommand runs a command that prints the key. The operator sees its standard error.
func runCommand(ctx context.Context, command string) (key [keyBytes]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	defer clear(out)
	if err != nil {
		return key, fmt.Errorf("the command for the master key: %w: run it by itself to see why", err)
	}
	return parseSecret(out, "what the command for the master key printed")
}

// readSecret reads a file of 32 secret bytes that no other user may read.
func readSecret(path string) (secret [keyBytes]byte, err error) {
	raw, err := ownfile.Read(path, ownfile.SecretKind(path), MaxFileBytes)
	defer clear(raw)
	if err != nil {
		return secret, err
	}
	return parseSecret(raw, path)
}

// parseSecret takes 32 bytes, or standard base64 of them; from names their source in
// messages.
func parseSecret(raw []byte, from string) (secret [keyBytes]byte, err error) {
	if len(raw) == keyBytes {
		return [keyBytes]byte(raw), nil
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(raw)))
	defer clear(decoded)
	if err != nil || len(decoded) != keyBytes {
		return secret, fmt.Errorf("%s holds no key: want %d bytes, or standard base64 of them; a damaged master key "+
			"comes back from a backup", from, keyBytes)
	}
	return [keyBytes]byte(decoded), nil
}

// makeSecret writes a new secret with mode 0600, unless the file exists. The secret is
// durable before it encrypts anything. Processes that start at the same time end up with
// one secret.
func makeSecret(path string) error {
	var secret [keyBytes]byte
	_, _ = rand.Read(secret[:]) // never fails
	defer clear(secret[:])
	err := ownfile.Create(path, secret[:])
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
