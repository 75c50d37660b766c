package sdk

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// FuzzToken: whatever the service says about a token's life, it has one, and it
// ends within a year.
func FuzzToken(f *testing.F) {
	claims := func(text string) string {
		return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".c2ln"
	}
	for _, expires := range []string{`"24h"`, `"5m"`, `3600`, `null`, `"99999999999d"`, `-1`, `1e308`, `{}`} {
		for _, token := range []string{"", "a.b.c", claims(`{"iat":1,"exp":2}`), claims(`{"iat":2,"exp":1}`), claims(`{"iat":-1e300,"exp":1e300}`), claims(`{"exp":"x"}`), claims(`[]`)} {
			f.Add([]byte(expires), token)
		}
	}
	f.Fuzz(func(t *testing.T, expires []byte, token string) {
		if life := lifetime(expires); life < 0 || life > longestLifetime {
			t.Errorf("expires_in %s lasts %s", expires, life)
		}
		if life, ok := expiryOf(token); ok && life <= 0 {
			t.Errorf("%q lasts %s", token, life)
		}
	})
}

// FuzzTarget: where a service sends us for a transfer is itself, or nowhere.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"/tools/x", "//evil.example/x", "http://evil.example", `/\evil`, "@evil", "/a/../b", "/a?x", "/%2e%2e/", "/\x00", "/ü", "/..", "/a:b@evil/"} {
		f.Add(seed)
	}
	c, err := New("a", Config{URL: "http://127.0.0.1:9/base"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string) {
		address, err := c.onService(target)
		if err != nil {
			if KindOf(c.wrap("x", "", "", err)) != KindCorrupt {
				t.Errorf("%q: %v", target, err)
			}
			return
		}
		req, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			return // not sent
		}
		if req.URL.Host != "127.0.0.1:9" || req.URL.Scheme != "http" || req.URL.User != nil || req.URL.RawQuery != "" || !strings.HasPrefix(req.URL.Path, "/base/") {
			t.Errorf("%q leads to %s", target, req.URL)
		}
	})
}

// FuzzAddress: an address that is accepted is https or loopback, and holds no
// password.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"https://h", "http://127.0.0.1", "http://localhost:1/", "http://127.0.0.1.evil", "http://[::1]", "http://user@h", "https://h#x", "http://0x7f.1", "\x00", "http://LOCALHOST"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		c, err := New("a", Config{URL: address})
		if err != nil || address == "" {
			return
		}
		u, err := url.Parse(c.NetworkInfo().MCPURL)
		if err != nil || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && !isLoopback(u.Hostname()) {
			t.Errorf("%q was accepted as %v, %v", address, u, err)
		}
	})
}

// FuzzView: what a node of the ledger answers, with any status, never panics and
// is a value or an error of one line.
func FuzzView(f *testing.F) {
	numbers := func(text string) string {
		list := make([]int, len(text))
		for i, b := range []byte(text) {
			list[i] = int(b)
		}
		raw, _ := json.Marshal(list)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"result":%s}}`, raw)
	}
	for _, seed := range []string{numbers("7"), numbers(`"alice"`), numbers("true"), numbers("null"), numbers(`"` + strings.Repeat("9", 100) + `"`), `{"result":{"amount":"5","locked":"0"}}`,
		`{"result":{"error":"wasm execution failed"}}`, `{"error":{"cause":{"name":"UNKNOWN_ACCOUNT"},"message":"Server error","data":"account x does not exist while viewing"}}`,
		`{"error":"text"}`, `{"error":[]}`, `{"result":null}`, `{"result":{"result":"AQI="}}`, `[]`, `<html>`} {
		f.Add(200, []byte(seed))
		f.Add(422, []byte(seed))
	}
	var status atomic.Int64
	var body atomic.Pointer[[]byte]
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write(*body.Load())
	}))
	f.Cleanup(h.Close)
	c, err := New("alice.svc.testnet", Config{URL: h.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	f.Fuzz(func(t *testing.T, code int, raw []byte) {
		if code != 200 && (code < 400 || code > 499 || code == 408 || code == 429) {
			return // informational, or repeated with pauses
		}
		status.Store(int64(code))
		body.Store(&raw)
		ctx := context.Background()
		_, balance := c.Balance(ctx, "")
		_, fee := c.EstimateFee(ctx, "upload")
		owner, err := c.GroupOwner(ctx, "g")
		if err == nil && owner == "" {
			t.Errorf("a group without an owner: %s", raw)
		}
		_, member := c.IsAuthorized(ctx, "g", "")
		_, sum := c.GroupChecksum(ctx, "g")
		for _, err := range []error{balance, fee, err, member, sum} {
			var own *Error
			if err != nil && (!errors.As(err, &own) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1000) {
				t.Errorf("%d %q: %v", code, raw, err)
			}
		}
	})
}
