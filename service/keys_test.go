package service_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// openVault opens the keys of the service beside it.
func (r *running) openVault() *vault.Vault {
	r.t.Helper()
	s, err := store.Open(r.t.Context(), r.dir, r.database)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	source := vault.InDirectory(r.dir)
	master, err := source.Read(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := vault.Open(r.t.Context(), s, source, master, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// serviceKey is a key of the service, as the holder of the master key reads it.
func (r *running) serviceKey(purpose string) []byte {
	r.t.Helper()
	key, err := r.openVault().Key(purpose)
	if err != nil {
		r.t.Fatal(err)
	}
	return key[:]
}

// old is a service that an earlier version left, whose keys were all derived
// from the master key.
type old struct {
	Master    []byte    `json:"master"`
	URL       string    `json:"url"`
	LogKey    string    `json:"log_key"`
	APIKey    string    `json:"api_key"`
	Account   string    `json:"account"`
	Token     string    `json:"token"`
	At        time.Time `json:"at"` // of the token
	Ref       string    `json:"ref"`
	LegacyRef string    `json:"legacy_ref"`
	LegacyKey string    `json:"legacy_key"`

	Blobs map[string][]byte `json:"blobs"`
}

// openOld opens a copy of testdata/derived-keys.
func openOld(t *testing.T) (old, *running) {
	t.Helper()
	var was old
	raw, err := os.ReadFile("testdata/derived-keys.json")
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) {
		path := filepath.Join(dir, name)
		ok(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)))
	}
	write("master.key", was.Master)
	for name, content := range was.Blobs {
		write(name, content)
	}
	text, err := os.ReadFile("testdata/derived-keys.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, store.FileName))
	if err == nil {
		_, err = db.ExecContext(t.Context(), string(text))
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return was, reopen(t, dir, was)
}

// reopen opens the old service at the address and time it knew.
func reopen(t *testing.T, dir string, was old) *running {
	t.Helper()
	svc, err := service.Open(t.Context(), service.Config{DataDir: dir, PublicURL: was.URL, Now: func() time.Time { return was.At }})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(svc.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	return &running{t: t, svc: svc, dir: dir, url: server.URL}
}

// asBefore checks that clients see no difference: a session token and the key
// that verifies checkpoints are good, and files open.
func (was old) asBefore(r *running) {
	r.t.Helper()
	if key := r.logKey(); key != was.LogKey {
		r.t.Errorf("the log's key is %q, was %q", key, was.LogKey)
	}
	if n, err := r.svc.Verify(r.t.Context(), true, func(ref string, err error) { r.t.Errorf("verify %s: %v", ref, err) }); err != nil || n != 2 {
		r.t.Errorf("%d files, %v", n, err)
	}
	alice := &user{running: r, id: was.Account, key: was.APIKey, token: was.Token}
	if content, _ := alice.retrieve("g", was.Ref); string(content) != "kept content" {
		r.t.Errorf("the old file holds %q", content)
	}
	if key := alice.prepared("g", was.LegacyRef).Key; key != was.LegacyKey {
		r.t.Error("the legacy file has another key")
	}
}

// A service from before its keys were kept goes on with those it derived, at the
// first start, at every later one and under another master key.
func TestDerivedKeysGoOn(t *testing.T) {
	was, r := openOld(t)
	was.asBefore(r)
	was.asBefore(reopen(t, r.dir, was))
	if again, err := r.svc.ImportPlain(t.Context(), service.LegacyFile{Group: "g", Name: "legacy.txt"}, []byte("legacy content"), 1); err != nil || again.CID != was.LegacyRef {
		t.Errorf("imported again as %s, %v", again.CID, err)
	}
	if done := r.rotated(); done.Keys != 2 {
		t.Errorf("%+v", done)
	}
	was.asBefore(r)
	was.asBefore(reopen(t, r.dir, was))
	other := bytes.Repeat([]byte{1}, 32)
	ok(t, os.WriteFile(filepath.Join(r.dir, "master.key"), other, 0o600))
	if _, err := service.Open(t.Context(), service.Config{DataDir: r.dir}); err == nil || !strings.Contains(err.Error(), "another master key: put that master.key") {
		t.Errorf("another master key opens it: %v", err)
	}
}

// The keys of a new service are random: the master key alone, without the database, does
// not give them.
func TestThreat33ServiceKeysAreNotDerived(t *testing.T) {
	r := run(t)
	master, err := os.ReadFile(filepath.Join(r.dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, purpose := range []string{vault.PurposeLog, vault.PurposeTokens, vault.PurposeTickets, vault.PurposePage} {
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
