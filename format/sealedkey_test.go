package format

import (
	"bytes"
	"crypto/hpke"
	"errors"
	"fmt"
	"testing"
)

func TestSealedKey(t *testing.T) {
	seed := secretOf(t, 7)
	public := seed.Public()
	if text := fmt.Sprintf("%v %+v", seed, *seed); text != "redacted redacted" {
		t.Errorf("prints %s", text)
	}
	if len(public) != VaultKeyBytes || hpke.MLKEM768X25519().ID() != SealedKeyKEM {
		t.Fatalf("%d bytes of kem %#x", len(public), hpke.MLKEM768X25519().ID())
	}
	key, err := RandomKey()
	if err != nil {
		t.Fatal(err)
	}
	to, blob := SealedFor{"svc", "alice", "id", 3}, [32]byte{1}
	vault, err := NewVaultPublic(public)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := vault.SealKey(to, blob, key)
	if err != nil || len(sealed) != SealedKeyBytes {
		t.Fatalf("%d bytes, %v", len(sealed), err)
	}
	got, err := seed.OpenKey(to, blob, sealed)
	if err != nil || *got != *key {
		t.Fatalf("another key, %v", err)
	}
	for name, open := range map[string]func() (*Key, error){
		"another service": func() (*Key, error) {
			return seed.OpenKey(SealedFor{"svd", "alice", "id", 3}, blob, sealed)
		},
		"another account": func() (*Key, error) {
			return seed.OpenKey(SealedFor{"svc", "bob", "id", 3}, blob, sealed)
		},
		"fields that shift": func() (*Key, error) {
			return seed.OpenKey(SealedFor{"svca", "lice", "id", 3}, blob, sealed)
		},
		"another upload": func() (*Key, error) {
			return seed.OpenKey(SealedFor{"svc", "alice", "ie", 3}, blob, sealed)
		},
		"another epoch": func() (*Key, error) {
			return seed.OpenKey(SealedFor{"svc", "alice", "id", 4}, blob, sealed)
		},
		"another ciphertext": func() (*Key, error) { return seed.OpenKey(to, [32]byte{2}, sealed) },
		"another vault":      func() (*Key, error) { return secretOf(t, 8).OpenKey(to, blob, sealed) },
		"a changed byte": func() (*Key, error) {
			changed := bytes.Clone(sealed)
			changed[100] ^= 1
			return seed.OpenKey(to, blob, changed)
		},
	} {
		if _, err := open(); !errors.Is(err, ErrAuthentication) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := seed.OpenKey(to, blob, sealed[1:]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a short one: %v", err)
	}
	if _, err := NewVaultPublic(public[1:]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a short vault key: %v", err)
	}
	if _, err := vault.SealKey(to, blob, new(Key)); err == nil {
		t.Error("a key of zeros is sealed")
	}
}

func secretOf(t testing.TB, seed byte) *VaultSecret {
	t.Helper()
	s, err := NewVaultSecret(bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkSealKey(b *testing.B) {
	seed := secretOf(b, 7)
	vault, _ := NewVaultPublic(seed.Public())
	key, _ := RandomKey()
	for b.Loop() {
		_, _ = vault.SealKey(SealedFor{}, [32]byte{}, key)
	}
}

func BenchmarkOpenKey(b *testing.B) {
	seed := secretOf(b, 7)
	vault, _ := NewVaultPublic(seed.Public())
	key, _ := RandomKey()
	sealed, _ := vault.SealKey(SealedFor{}, [32]byte{}, key)
	for b.Loop() {
		_, _ = seed.OpenKey(SealedFor{}, [32]byte{}, sealed)
	}
}
