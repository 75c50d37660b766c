package call

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

// callerOf calls a service, whose refusals count by their status alone.
func callerOf(t *testing.T, url, key string, again func(context.Context) (locked.Secret, error)) *Caller {
	t.Helper()
	c := New(Config{Account: "alice.svc.testnet", Key: locked.NewSecret(key), NewKey: again, AuthURL: url, URL: url,
		Timeout: DefaultTimeout, ReadError: func(resp *http.Response, body []byte) *Refusal {
			refused := resp.StatusCode == http.StatusUnauthorized
			return &Refusal{Status: resp.StatusCode, Text: string(body), BadToken: refused, BadKey: refused}
		}})
	t.Cleanup(c.Close)
	return c
}

// ask makes any call with a token.
func ask(t *testing.T, c *Caller) error {
	return c.Do(t.Context(), Call{Path: wire.PathTools + wire.OpGetOwnedGroups})
}

// signIn answers session tokens that live for life by a clock that is off by
// skew, and counts them.
func signIn(t *testing.T, expires string, life, skew time.Duration) (c *Caller, fetched *atomic.Int32) {
	t.Helper()
	fetched = new(atomic.Int32)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/auth/session-token" {
			_, _ = w.Write([]byte(`{"result":[]}`))
			return
		}
		issued := time.Now().Add(skew)
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iat": issued.Unix(), "exp": issued.Add(life).Unix(), "n": fetched.Add(1)}).SignedString([]byte("secret"))
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": token, "expires_in": expires})
	}))
	t.Cleanup(h.Close)
	return callerOf(t, h.URL, "svc_sk_0123456789012345678901234567890123456789012", nil), fetched
}

// A token is renewed 5 minutes before its end, a short-lived one after four
// fifths of its life, by its own life and not by either side's clock.
func TestTokensAreRenewedBeforeTheirEnd(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, expires    string
		life, skew, want time.Duration // want: from now to the renewal
	}{
		{"a day", "24h", 24 * time.Hour, 0, 24*time.Hour - 5*time.Minute},
		{"the token ends before it says", "24h", time.Hour, 0, 55 * time.Minute},
		{"it says so before the token ends", "1h", 24 * time.Hour, 0, 55 * time.Minute},
		{"5 minutes", "5m", 5 * time.Minute, 0, 4 * time.Minute},
		{"100 seconds", "100s", 100 * time.Second, 0, 80 * time.Second},
		{"the service's clock is a month behind", "24h", 24 * time.Hour, -30 * 24 * time.Hour, 24*time.Hour - 5*time.Minute},
		{"the service's clock is a month ahead", "24h", 24 * time.Hour, 30 * 24 * time.Hour, 24*time.Hour - 5*time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, fetched := signIn(t, tc.expires, tc.life, tc.skew)
			before := time.Now()
			for range 3 {
				if err := ask(t, c); err != nil {
					t.Fatal(err)
				}
			}
			after := time.Now()
			if n := fetched.Load(); n != 1 {
				t.Errorf("%d tokens for three calls", n)
			}
			if at := c.tokens.refreshAt; at.Before(before.Add(tc.want)) || at.After(after.Add(tc.want)) {
				t.Errorf("renewed in %s, want %s", at.Sub(before), tc.want)
			}
			c.tokens.mu.Lock()
			c.tokens.refreshAt = time.Now() // its time has come
			c.tokens.mu.Unlock()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if err := ask(t, c); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := fetched.Load(); n != 2 {
				t.Errorf("%d tokens after the renewal, want 2", n)
			}
			if err := c.RefreshToken(t.Context()); err != nil || fetched.Load() != 3 {
				t.Errorf("a forced refresh: %d tokens, %v", fetched.Load(), err)
			}
		})
	}
}

// keyed is a service where one key at a time is alice's.
func keyed(t *testing.T, again func(context.Context) (locked.Secret, error)) (c *Caller, valid *atomic.Value,
	tried *atomic.Int32) {
	t.Helper()
	valid, tried = new(atomic.Value), new(atomic.Int32)
	valid.Store("svc_sk_one")
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := valid.Load().(string)
		switch {
		case r.URL.Path == "/api/auth/session-token" && r.Header.Get("X-Api-Key") == now:
			_ = json.NewEncoder(w).Encode(map[string]string{"token": "token-of-" + now})
		case r.URL.Path == "/api/auth/session-token":
			tried.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"the key ` + r.Header.Get("X-Api-Key") + ` is not valid"}`))
		case r.Header.Get("Authorization") != "Bearer token-of-"+now && r.Header.Get("Authorization") != "":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`{"result":[]}`))
		}
	}))
	t.Cleanup(h.Close)
	return callerOf(t, h.URL, "svc_sk_one", again), valid, tried
}

// When the service refuses the key, the client takes the one that the account has now, if
// the service takes it for this account.
func TestNewKeyAfterARefusal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, there string // the key that is there now
		fails       error  // of looking there
		want        string // in the error; "" = the call succeeds
	}{
		{"the new one", "svc_sk_two", nil, ""},
		{"the same one", "svc_sk_one", nil, "the same key is still there"},
		{"one of another account", "svc_sk_bob", nil, "not one of alice.svc.testnet, or revoked too"},
		{"none", "", nil, "the same key is still there"},
		{"no key at all", "svc_sk_two\r\n", nil, "no API key"},
		{"one that others may read", "", errors.New("others may read it"), "others may read it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked := 0
			c, valid, tried := keyed(t, func(context.Context) (locked.Secret, error) {
				asked++
				return locked.NewSecret(tc.there), tc.fails
			})
			if err := ask(t, c); err != nil || asked > 0 {
				t.Fatalf("before: asked %d times, %v", asked, err)
			}
			valid.Store("svc_sk_two")
			for range 3 {
				err := ask(t, c)
				if tc.want == "" && err != nil ||
					tc.want != "" && (!isKeyRefused(err) || strings.Contains(err.Error(), "svc_sk_")) {
					t.Fatal(err)
				}
				if tc.want != "" && asked > 0 && c.tokens.key.Reveal() != "svc_sk_one" {
					t.Error("the key was taken")
				}
				if tc.want != "" && strings.Contains(err.Error(), "read again") && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("the error is %v", err)
				}
			}
			if asked != 1 {
				t.Errorf("asked %d times within a moment", asked)
			}
			c.tokens.mu.Lock()
			c.tokens.refusal.asked = time.Time{} // a moment later
			c.tokens.mu.Unlock()
			err := ask(t, c)
			if tc.want != "" && (asked != 2 || err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("asked %d times: %v", asked, err)
			}
			if tc.want == "" && (asked != 1 || c.tokens.key.Reveal() != "svc_sk_two") {
				t.Errorf("asked %d times, and the new key is kept: %v", asked, c.tokens.key.Reveal() == "svc_sk_two")
			}
			wrong := int32(1) // the old one
			if tc.there == "svc_sk_bob" {
				wrong++
			}
			if tried.Load() != wrong {
				t.Errorf("%d keys were tried in vain, want %d", tried.Load(), wrong)
			}
			c.tokens.mu.Lock()
			c.tokens.refusal.until = time.Time{} // after the pause
			c.tokens.mu.Unlock()
			valid.Store("svc_sk_one")
			if err := ask(t, c); tc.want != "" && err != nil {
				t.Errorf("the old key is good again: %v", err)
			}
		})
	}
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`"24h"`: "24h0m0s", `"5m"`: "5m0s", `"2d"`: "48h0m0s", `"30s"`: "30s",
		`3600`: "1h0m0s", ``: "24h0m0s", `null`: "24h0m0s",
		`""`: "23h0m0s", `"h"`: "23h0m0s", `"5"`: "23h0m0s", `"-5m"`: "23h0m0s", `"1h30m"`: "23h0m0s",
		`"99999999999d"`: "23h0m0s", `"2000000000d"`: "8760h0m0s", `{}`: "23h0m0s", `-1`: "23h0m0s"} {
		if got := lifetime(json.RawMessage(text)).String(); got != want {
			t.Errorf("expires_in %s lasts %s, want %s", text, got, want)
		}
	}
}
