package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// isConfined fails the test unless a service that is up took its rights away.
func isConfined(t *testing.T, p *process) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
		t.Errorf("%v, it can gain rights:\n%s", err, status)
	}
}

// stop ends a service, which must not have needed what it may not open.
func (p *process) stop(t testing.TB) {
	t.Helper()
	ok(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &p.log)
	}
	if strings.Contains(p.log.String(), "permission denied") {
		t.Errorf("it needed what it may not open:\n%s", &p.log)
	}
}

// provider is an OpenID Connect provider that knows one person, and one secret of svcd.
func provider(t *testing.T, secret string, nonce func() string) (issuer string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	answer := func(path string, what func(r *http.Request) map[string]any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(what(r))
		})
	}
	answer("/.well-known/openid-configuration", func(*http.Request) map[string]any {
		return map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/authorize",
			"token_endpoint": issuer + "/token", "jwks_uri": issuer + "/jwks"}
	})
	answer("/jwks", func(*http.Request) map[string]any {
		return map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "kid": "1",
			"n": b64(key.N.Bytes()), "e": b64([]byte{1, 0, 1})}}}
	})
	answer("/token", func(r *http.Request) map[string]any {
		_, got, basic := r.BasicAuth()
		if !basic {
			got = r.FormValue("client_secret")
		}
		if got != secret {
			return map[string]any{"error": "invalid_client"}
		}
		now := time.Now().Unix()
		claims, err := json.Marshal(map[string]any{"iss": issuer, "sub": "1", "aud": "svcd", "iat": now,
			"exp": now + 300, "nonce": nonce(), "preferred_username": "alice"})
		if err != nil {
			t.Error(err)
		}
		text := b64([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + b64(claims)
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Error(err)
		}
		return map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 300,
			"id_token": text + "." + b64(signature)}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	issuer = server.URL
	return issuer
}

// Threat 19: a confined service signs people in at an OpenID Connect provider, with a
// client secret from a file and from a credential of systemd, which shows an access
// list for its user as a bit of the group.
func TestThreat19ConfinedServiceHasAClientSecret(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"file": 0o600, "credential": 0o440} {
		t.Run(name, func(t *testing.T) {
			const secret = "a-secret-that-no-log-shows"
			file := filepath.Join(t.TempDir(), "oidc")
			ok(t, os.WriteFile(file, []byte(secret+"\n"), mode))
			if name == "credential" {
				t.Setenv(ownfile.EnvCredentials, filepath.Dir(file))
			}
			nonce := ""
			issuer := provider(t, secret, func() string { return nonce })
			p := startServe(t, "--oidc-issuer", issuer, "--oidc-client-id", "svcd", "--oidc-client-secret-file", file,
				"--oidc-create")
			isConfined(t, p)
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			visit := func(address string) *http.Response {
				t.Helper()
				resp, err := browser.Get(address)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				return resp
			}
			to, err := visit(p.url + "/account/oidc/start").Location()
			if err != nil {
				t.Fatal(err)
			}
			nonce = to.Query().Get("nonce")
			back := url.Values{"code": {"x"}, "state": {to.Query().Get("state")}, "iss": {issuer}}
			if resp := visit(to.Query().Get("redirect_uri") + "?" +
				back.Encode()); resp.StatusCode != http.StatusSeeOther {
				t.Errorf("sign-in: %s", resp.Status)
			}
			p.stop(t)
			if log := p.log.String(); strings.Contains(log, secret) || !strings.Contains(log, "alice") {
				t.Errorf("signed in:\n%s", log)
			}
		})
	}
}

// Threat 19: a confined service reaches PostgreSQL over a socket in the file system,
// also when it must connect anew.
func TestThreat19ConfinedServiceReachesPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	database := server.OverSocket(t, server.NewDatabase(t))
	p := startServe(t, "--db", database)
	isConfined(t, p)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	ok(t, json.Unmarshal([]byte(mustRun(t, "account", "create", "alice", "--data", p.data, "--db", database)), &made))
	call[string](t, p, made.ID, made.Key, wire.OpRegisterGroup, map[string]string{"group_id": "before"})
	server.Stop()
	server.Restart(t)
	proctest.Eventually(t, "health recovers", func() bool {
		resp, err := http.Get(p.url + wire.PathHealth)
		ok(t, errors.Join(err, resp.Body.Close()))
		return resp.StatusCode == http.StatusOK
	})
	call[string](t, p, made.ID, made.Key, wire.OpRegisterGroup, map[string]string{"group_id": "after"})
	p.stop(t)
}
