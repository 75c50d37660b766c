package call

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// FuzzToken: whatever the service says about a token's life, it has one, and it
// ends within a year.
func FuzzToken(f *testing.F) {
	claims := func(text string) string {
		return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".c2ln"
	}
	for _, expires := range []string{`"24h"`, `"5m"`, `3600`, `null`, `"99999999999d"`, `-1`, `1e308`, `{}`} {
		for _, token := range []string{"", "a.b.c", claims(`{"iat":1,"exp":2}`), claims(`{"iat":2,"exp":1}`),
			claims(`{"iat":-1e300,"exp":1e300}`), claims(`{"exp":"x"}`), claims(`[]`)} {
			f.Add([]byte(expires), token)
		}
	}
	f.Fuzz(func(t *testing.T, expires []byte, token string) {
		if life := lifetime(expires); life < 0 || life > longestLifetime {
			t.Errorf("expires_in %s lasts %s", expires, life)
		}
		if _, life := timesOf(token); life < 0 {
			t.Errorf("%q lasts %s", token, life)
		}
	})
}

// FuzzTarget: where a service sends us for a transfer is itself, or nowhere.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"/tools/x", "//evil.example/x", "http://evil.example", `/\evil`, "@evil", "/a/../b",
		"/a?x", "/%2e%2e/", "/\x00", "/ü", "/..", "/a:b@evil/"} {
		f.Add(seed)
	}
	c := New(Config{URL: "http://127.0.0.1:9/base"})
	f.Fuzz(func(t *testing.T, target string) {
		address, err := c.onService(target)
		if err != nil {
			if !errors.As(err, new(*MalformedError)) {
				t.Errorf("%q: %v", target, err)
			}
			return
		}
		req, err := http.NewRequest(http.MethodGet, address, nil)
		if err != nil {
			return // not sent
		}
		if req.URL.Host != "127.0.0.1:9" || req.URL.Scheme != "http" || req.URL.User != nil || req.URL.RawQuery != "" ||
			!strings.HasPrefix(req.URL.Path, "/base/") {
			t.Errorf("%q leads to %s", target, req.URL)
		}
	})
}
