package sdk

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/svcfs/svcfs/sdk/wire"
	"pgregory.net/rapid"
)

// Threat 8: a service chooses its tokens. One of a single character makes no error longer.
func TestThreat8ShortTokens(t *testing.T) {
	t.Parallel()
	c, err := New("alice.svc.testnet", Config{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	c.tokens.token = NewSecret("e")
	if got := c.scrub("a text, beyond it"); got != "a tredactedxt, bredactedyond it" {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
	// One that is the beginning or the end of another leaves nothing of it.
	for _, token := range []string{"abc", "bcd", "xab", "cdx"} {
		if got := redact("xabcdx", []string{token, "abcd"}); strings.Trim(got, "x") != "redacted" {
			t.Errorf("%s: %q", token, got)
		}
	}
}

// Threat 4: however a service repeats our key or a token, alone or encoded
// together with something else, whole or cut, no error shows it, nor anything
// that a terminal would obey.
func TestThreat4NoErrorShowsACredential(t *testing.T) {
	t.Parallel()
	const key, token = "svc_sk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG", "eyJhbGciOiJIUzI1NiJ9.eyJhY2NvdW50X2lkIjoiYWxpY2UifQ.QmFzZTY0dXJsIHNpZ25hdHVyZQ"
	c, err := New("alice.svc.testnet", Config{URL: "http://127.0.0.1:1", APIKey: NewSecret(key)})
	if err != nil {
		t.Fatal(err)
	}
	c.tokens.token = NewSecret(token)
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
		err := c.wrap("try", "g", "r", c.scrubAnswer(newAnswerError(status, "", text)))
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

// Threat 9: a service that speaks only what was broken long ago is refused; the
// same one with TLS 1.2 is not.
func TestThreat9OldTLS(t *testing.T) {
	t.Parallel()
	for version, refused := range map[uint16]bool{tls.VersionTLS11: true, tls.VersionTLS12: false, tls.VersionTLS13: false} {
		h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }))
		h.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		h.Config.ErrorLog = log.New(io.Discard, "", 0)
		h.StartTLS()
		t.Cleanup(h.Close)
		c, err := New("alice.svc.testnet", Config{URL: h.URL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		roots := x509.NewCertPool()
		roots.AddCert(h.Certificate())
		c.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = roots
		if err := c.Health(t.Context()); (err != nil) != refused || refused && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

// A code of a later version is kept: it says that the service answered.
func TestUnknownCodeIsKept(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"gone fishing", "not found"} {
		err := newAnswerError(http.StatusNotFound, "later-version", text)
		if err.code != "later-version" {
			t.Errorf("%q: code %q", text, err.code)
		}
	}
	if err := newAnswerError(http.StatusNotFound, "", "group not found"); err.code != wire.CodeGroupNotFound {
		t.Errorf("the words say %q", err.code)
	}
}
