package service_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// openStore opens the database of the service beside it.
func (r *running) openStore() *store.Store {
	r.t.Helper()
	s, err := store.Open(r.t.Context(), r.dir, r.database)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// openVault opens the keys of the service beside it.
func (r *running) openVault() *keys.Keys {
	r.t.Helper()
	k, err := vaulttest.Open(r.t.Context(), r.openStore(), vaultwire.InDirectory(r.dir))
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// serviceKey is a key of the service, as the holder of the master key reads it.
func (r *running) serviceKey(purpose string) []byte {
	r.t.Helper()
	key, err := vaulttest.Secret(r.t.Context(), r.openStore(), vaultwire.InDirectory(r.dir), purpose)
	if err != nil {
		r.t.Fatal(err)
	}
	return key
}

// The keys of a new service are random: the master key alone, without the database, does
// not give them.
func TestThreat33ServiceKeysAreNotDerived(t *testing.T) {
	r := run(t)
	master, err := os.ReadFile(filepath.Join(r.dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, purpose := range []string{vaultwire.PurposeLog, vaultwire.PurposeTokens, vaultwire.PurposeTickets,
		vaultwire.PurposePage} {
		key := r.serviceKey(purpose)
		derived, err := hkdf.Key(sha256.New, master, nil, "svc-derived-1 "+purpose, 32)
		if err != nil || bytes.Equal(key, derived) || r.databaseHolds(key) {
			t.Errorf("%s: derived from the master key, or in the database in the clear; %v", purpose, err)
		}
	}
}

// logKey is the verifier key that the service tells.
func (r *running) logKey() string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+wire.PathTlog+"key", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	_, body := r.do(req)
	return string(body)
}
