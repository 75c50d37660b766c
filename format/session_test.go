package format

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
)

// The vault reads the API key of a session, and the client that began it reads what the vault writes; nobody else does,
// and nothing opens as another file's.
func TestSession(t *testing.T) {
	seed := make([]byte, 32)
	_, _ = rand.Read(seed)
	secret, err := NewVaultSecret(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := NewVaultPublic(secret.Public())
	if err != nil {
		t.Fatal(err)
	}
	to := SessionFor{"svc.testnet", "alice.svc.testnet", 3}
	apiKey := []byte("svc_sk_0123456789")
	opening, client, err := public.NewSession(to, apiKey)
	if err != nil || len(opening) != EncapsulatedBytes+len(apiKey)+TagBytes || bytes.Contains(opening, apiKey) {
		t.Fatalf("%d bytes: %v", len(opening), err)
	}
	got1, vault, err := secret.OpenSession(to, opening)
	if err != nil || !bytes.Equal(got1, apiKey) {
		t.Fatal(got1, err)
	}
	if !bytes.Equal(client.Secret(), vault.Secret()) || !bytes.Equal(client.RequestKey(), vault.RequestKey()) ||
		!bytes.Equal(client.VouchKey(), vault.VouchKey()) || bytes.Equal(client.Secret(), client.RequestKey()) ||
		bytes.Equal(client.VouchKey(), client.RequestKey()) {
		t.Error("the two sides have other secrets, or all are the same")
	}
	key, err := NewKey(bytes.Repeat([]byte{7}, KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	sealed := vault.Seal("g", "bafy", key)
	got, err := client.Open("g", "bafy", sealed)
	if err != nil || !bytes.Equal(got.Bytes(), key.Bytes()) || len(sealed) != SessionKeyBytes {
		t.Errorf("%d bytes: %v", len(sealed), err)
	}
	if again := vault.Seal("g", "bafy", key); bytes.Equal(again, sealed) {
		t.Error("the same key looks the same again")
	}
	changed := bytes.Clone(sealed)
	changed[20] ^= 1
	for name, open := range map[string]func() (*Key, error){
		"another file":  func() (*Key, error) { return client.Open("g", "bafy2", sealed) },
		"another group": func() (*Key, error) { return client.Open("gb", "afy", sealed) },
		"changed":       func() (*Key, error) { return client.Open("g", "bafy", changed) },
		"cut":           func() (*Key, error) { return client.Open("g", "bafy", sealed[:11]) },
		"nothing":       func() (*Key, error) { return client.Open("g", "bafy", nil) },
	} {
		if _, err := open(); !errors.Is(err, ErrAuthentication) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, other := range []SessionFor{{"svc", to.Account, 3}, {to.Service, "bob.svc.testnet", 3},
		{to.Service, to.Account, 4}, {"svc.testnetalice", ".svc.testnet", 3}} {
		if _, _, err := secret.OpenSession(other, opening); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	for _, n := range []int{0, EncapsulatedBytes - 1, EncapsulatedBytes + TagBytes, MaxOpeningBytes + 1} {
		if _, _, err := secret.OpenSession(to, make([]byte, n)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	changed = bytes.Clone(opening)
	changed[len(changed)-1] ^= 1
	if _, _, err := secret.OpenSession(to, changed); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a changed API key: %v", err)
	}
	if _, _, err := public.NewSession(to, make([]byte, MaxAPIKeyBytes+1)); err == nil {
		t.Error("a long API key")
	}
	if _, err := SessionOf(make([]byte, 31)); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	if text := fmt.Sprintf("%v %+v %#v", *client, client, client); text != "redacted redacted redacted" {
		t.Error(text)
	}
}
