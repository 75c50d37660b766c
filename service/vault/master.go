package vault

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// commandTimeout bounds a command that prints the master key.
const commandTimeout = time.Minute

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

// ReadMaster reads the master key. A file that other users may read is refused.
func ReadMaster(ctx context.Context, from vaultwire.Source) (Master, error) {
	raw, err := read(ctx, from)
	if err != nil {
		return Master{}, fmt.Errorf("open vault: %w", err)
	}
	defer clear(raw[:])
	return Master{raw: locked.Copy(raw[:])}, nil
}

func read(ctx context.Context, from vaultwire.Source) ([keyBytes]byte, error) {
	if from.Command != "" {
		return runCommand(ctx, from.Command)
	}
	raw, err := vaultwire.ReadSecret(from.File)
	if from.Make && errors.Is(err, fs.ErrNotExist) {
		if err := makeSecret(from.File); err != nil {
			return raw, err
		}
		raw, err = vaultwire.ReadSecret(from.File)
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
	return vaultwire.ParseSecret(out, "what the command for the master key printed")
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
