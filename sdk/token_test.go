package sdk

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// signIn answers session tokens that live for life by a clock that is off by
// skew, and counts them.
func signIn(t *testing.T, expires string, life, skew time.Duration) (c *Client, fetched *atomic.Int32) {
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
	c, err := New("alice.svc.testnet", Config{URL: h.URL, APIKey: NewSecret("svc_sk_0123456789012345678901234567890123456789012")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, fetched
}

// A token is renewed 5 minutes before its end, a short-lived one after four
// fifths of its life, by its own life and not by either side's clock.
func TestTokensAreRenewedBeforeTheirEnd(t *testing.T) {
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
				if _, err := c.OwnedGroups(t.Context()); err != nil {
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
					if _, err := c.MemberGroups(t.Context()); err != nil {
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
