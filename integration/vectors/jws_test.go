package vectors

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/c2sp/wycheproof"

	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Threat 20: signatures of all kinds, good and spoilt, are no session tokens,
// also where the service's secret is the key they were made with: signed is not
// enough.
func TestThreat20WycheproofJSONWebSignatures(t *testing.T) {
	raw, err := fs.ReadFile(wycheproof.TestVectors, "json_web_signature_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TestGroups []struct {
			Private struct{ Kty, K string }
			Tests   []struct {
				TcID         int
				Comment, JWS string
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	n, own := 0, 0
	for _, g := range file.TestGroups {
		var secret [32]byte
		if key, err := base64.RawURLEncoding.DecodeString(g.Private.K); err == nil && g.Private.Kty == "oct" &&
			len(key) == len(secret) {
			copy(secret[:], key)
			own += len(g.Tests)
		}
		v := vaultWith(t, secret[:])
		for _, tc := range g.Tests {
			n++
			claims, err := v.OpenToken(t.Context(),
				vaultwire.OpenToken{Token: []byte(tc.JWS), Address: "http://127.0.0.1:8000"})
			var refused *vaultwire.TokenError
			if !errors.As(err, &refused) || claims.Account != "" {
				t.Errorf("case %d, %s: account %q, %v", tc.TcID, tc.Comment, claims.Account, err)
			}
		}
	}
	if n < 401 || own < 40 {
		t.Errorf("only %d cases, %d of them with a key that could be ours", n, own)
	}
	t.Logf("%d cases, %d with a key that could be ours", n, own)
}

// vaultWith is a vault that signs session tokens with a secret.
func vaultWith(t *testing.T, secret []byte) *vault.Vault {
	t.Helper()
	from := vaultwire.InDirectory(t.TempDir())
	v, err := vault.New(t.Context(), from, vaultwire.Source{}, "", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	row := vaultwire.Row{Key: vaultwire.Key{Purpose: vaultwire.PurposeTokens, Version: 1},
		Master: hex.EncodeToString(derived(t, from, "name of the master key"))}
	block, err := aes.NewCipher(derived(t, from, "keys of the service"))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	row.Wrapped = aead.Seal(nil, nil, secret, []byte("svc-service-key-1 "+row.Purpose+" 1"))
	if _, err := v.Keep(t.Context(), vaultwire.Keep{Rows: []vaultwire.Row{row}}); err != nil {
		t.Fatal(err)
	}
	return v
}

// derived is a key that comes from the master key.
func derived(t *testing.T, from vaultwire.Source, purpose string) []byte {
	t.Helper()
	master, err := vaultwire.ReadSecret(from.File)
	if err != nil {
		t.Fatal(err)
	}
	key, err := hkdf.Key(sha256.New, master[:], nil, "svc-derived-1 "+purpose, vaultwire.KeyBytes)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
