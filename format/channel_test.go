package format

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
)

// The vault and the client that began a channel read what the other writes; nobody else does, and nothing opens as
// another file's.
func TestChannel(t *testing.T) {
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
	to := ChannelFor{"svc.testnet", "alice.svc.testnet", 3}
	enc, client, err := public.NewChannel(to)
	if err != nil || len(enc) != EncapsulatedBytes {
		t.Fatalf("%d bytes: %v", len(enc), err)
	}
	vault, err := secret.OpenChannel(to, enc)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewKey(bytes.Repeat([]byte{7}, KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	sealed := vault.Seal("g", "bafy", key)
	got, err := client.Open("g", "bafy", sealed)
	if err != nil || !bytes.Equal(got.Bytes(), key.Bytes()) || len(sealed) != ChannelKeyBytes {
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
	for _, other := range []ChannelFor{{"svc", to.Account, 3}, {to.Service, "bob.svc.testnet", 3},
		{to.Service, to.Account, 4}, {"svc.testnetalice", ".svc.testnet", 3}} {
		c, err := secret.OpenChannel(other, enc)
		if err == nil {
			_, err = client.Open("g", "bafy", c.Seal("g", "bafy", key))
		}
		if !errors.Is(err, ErrAuthentication) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	for _, n := range []int{0, EncapsulatedBytes - 1, EncapsulatedBytes + 1} {
		if _, err := secret.OpenChannel(to, make([]byte, n)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", *client, client, client); text != "redacted redacted redacted" {
		t.Error(text)
	}
}
