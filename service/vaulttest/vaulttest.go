// Package vaulttest opens the keys of a service beside it, as the holder of the master key can. For tests.
package vaulttest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Measurement is what these vaults say of their program: nobody measures a test.
const Measurement = "0000000000000000000000000000000000000000000000000000000000000000"

// InProcess is a vault in the process of a test.
func InProcess(ctx context.Context, from, next vaultwire.Source, now func() time.Time,
	_ func(error) error) (vaultwire.Vault, error) {
	return newVault(ctx, from, next, now)
}

// newVault makes a vault that imports files from before the service, too.
func newVault(ctx context.Context, from, next vaultwire.Source, now func() time.Time) (*vault.Vault, error) {
	v, err := vault.New(ctx, from, next, Measurement, now)
	if err == nil {
		v.AllowLegacy()
	}
	return v, err
}

// BehindSocket is a vault that is asked over a socket, as svcvault is, and ends with the service.
func BehindSocket(ctx context.Context, from, next vaultwire.Source, now func() time.Time,
	away func(error) error) (vaultwire.Vault, error) {
	v, err := newVault(ctx, from, next, now)
	if err != nil {
		return nil, err
	}
	name := "@svcvault-test-" + rand.Text()
	l, err := net.Listen("unix", name)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { _ = vaultwire.Serve(ctx, l, v) }()
	return &behindSocket{vaultwire.NewClient(name, away), stop}, nil
}

type behindSocket struct {
	*vaultwire.Client
	stop context.CancelFunc
}

func (b *behindSocket) Close() error {
	b.stop()
	return b.Client.Close()
}

// Open opens the keys of a database with a vault of its own.
func Open(ctx context.Context, s *store.Store, from vaultwire.Source) (*keys.Keys, error) {
	var next vaultwire.Source
	if from.Make {
		next = from.Next()
	}
	v, err := vault.New(ctx, from, next, Measurement, time.Now)
	if err != nil {
		return nil, err
	}
	return keys.Open(ctx, s, v, time.Now())
}

// Secret returns the newest key for a purpose, which no vault gives to anybody.
func Secret(ctx context.Context, s *store.Store, from vaultwire.Source, purpose string) (secret []byte, err error) {
	var version int64
	var wrapped []byte
	err = s.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT version, wrapped FROM service_keys WHERE purpose = ? ORDER BY version "+
			"DESC LIMIT 1", purpose).Scan(&version, &wrapped)
	})
	if err != nil {
		return nil, err
	}
	wrapping, err := Derived(from, "keys of the service")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(wrapping)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, wrapped, fmt.Appendf(nil, "svc-service-key-1 %s %d", purpose, version))
}

// Derived returns a key that comes from the master key in a file.
func Derived(from vaultwire.Source, purpose string) ([]byte, error) {
	master, err := vaultwire.ReadSecret(from.File)
	if err != nil {
		return nil, err
	}
	return hkdf.Key(sha256.New, master[:], nil, "svc-derived-1 "+purpose, vaultwire.KeyBytes)
}

// Session is the sealed session of a token, which only the vault reads; nil = it has none.
func Session(ctx context.Context, s *store.Store, from vaultwire.Source, token string) (*format.Session, error) {
	var claims struct {
		Account string `json:"account_id"`
		Cnf     *struct {
			Sealed []byte `json:"svc_sealed"`
		} `json:"cnf"`
	}
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)])
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Cnf == nil {
		return nil, nil
	}
	tokens, err := Secret(ctx, s, from, vaultwire.PurposeTokens)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, tokens, nil, "svc-confirmation-1", vaultwire.KeyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	secret, err := aead.Open(nil, nil, claims.Cnf.Sealed, []byte(claims.Account))
	if err != nil {
		return nil, err
	}
	return format.SessionOf(secret)
}
