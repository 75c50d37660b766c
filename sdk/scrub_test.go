package sdk

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/svcfs/svcfs/sdk/wire"
	"pgregory.net/rapid"
)

// Threat 4: however a service repeats our key or a token, alone or encoded
// together with something else, whole or cut, no error shows it, nor anything
// that a terminal would obey.
func TestThreat4NoErrorShowsACredential(t *testing.T) {
	t.Parallel()
	const key, token = "svc_sk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG", "eyJhbGciOiJIUzI1NiJ9.eyJhY2NvdW50X2lkIjoiYWxpY2UifQ.QmFzZTY0dXJsIHNpZ25hdHVyZQ"
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"token":"`+token+`"}`)
	}))
	t.Cleanup(h.Close)
	c, err := New("alice.svc.testnet", Config{URL: h.URL, APIKey: NewSecret(key)})
	if err == nil {
		err = c.RefreshToken(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]func(string) string{
		"plain": func(s string) string { return s }, "hex": func(s string) string { return hex.EncodeToString([]byte(s)) },
		"HEX":       func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"base64":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64url": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	}
	rapid.Check(t, func(t *rapid.T) {
		form := forms[rapid.SampledFrom([]string{"plain", "hex", "HEX", "base64", "base64url"}).Draw(t, "form")]
		secret := rapid.SampledFrom([]string{key, token}).Draw(t, "secret")
		around := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "ab", "alice:", "\x1b[2J", "\u202e", "\u2029", "\u061c", "\U000e0041", "\n", "Bearer ", `"`, "ü"}), 4, 4).Draw(t, "around")
		text := around[0] + form(around[1]+secret+around[2]) + around[3]
		status := rapid.SampledFrom([]int{200, 400, 401, 403, 404, 429, 500, 503}).Draw(t, "status")
		err := c.wrap("try", "g", "r", refusalOf(c, status, "", text))
		shown := fmt.Sprintf("%v %+v %#v", err, err, err)
		pieces := []string{secret, secret[:40], form(secret)}
		for before := range 3 { // whatever is encoded together with it
			pieces = append(pieces, form("\x00\x00"[:before] + secret)[8:40])
		}
		for _, piece := range pieces {
			if strings.Contains(shown, piece) {
				t.Fatalf("%q is shown as %q", text, shown)
			}
		}
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Fatalf("%q is shown as %q", text, shown)
		}
	})
}

// refusalOf is a refusal as a client returns it.
func refusalOf(c *Client, status int, code, text string) error {
	r := newRefusal(status, code, text)
	r.Text = c.calls.Scrub(r.Text)
	return r
}

// A code of a later version is kept: it says that the service answered.
func TestUnknownCodeIsKept(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"gone fishing", "not found"} {
		err := newRefusal(http.StatusNotFound, "later-version", text)
		if err.Code != "later-version" {
			t.Errorf("%q: code %q", text, err.Code)
		}
	}
	if err := newRefusal(http.StatusNotFound, "", "group not found"); err.Code != wire.CodeGroupNotFound {
		t.Errorf("the words say %q", err.Code)
	}
}
