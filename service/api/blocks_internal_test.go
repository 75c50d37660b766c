package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"
)

// FuzzFirstByte reads any header: the byte is one of the file.
func FuzzFirstByte(f *testing.F) {
	for _, text := range []string{"", "bytes=0-", "bytes=5-7", "bytes=-3", "bytes=-0", "bytes=99-", "bytes=-99",
		"bytes= 4-5", "5-", "bytes=x-", "bytes=+5-"} {
		f.Add(text)
	}
	const size = 10
	f.Fuzz(func(t *testing.T, text string) {
		first := firstByte(text, size)
		if first < 0 || first >= size {
			t.Fatalf("%q begins at %d", text, first)
		}
	})
}

// A range that net/http answers begins where the part was opened.
func TestFirstByte(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "bytes=0-": 0, "bytes=5-7": 5, "bytes=-3": 7, "bytes=-0": 0,
		"bytes=99-": 0, "bytes=-99": 0, "bytes=9-9": 9} {
		if got := firstByte(text, 10); got != want {
			t.Errorf("%q begins at %d, want %d", text, got, want)
		}
	}
}

func TestDigestOf(t *testing.T) {
	sum := sha256.Sum256([]byte("x"))
	text := base64.StdEncoding.EncodeToString(sum[:])
	for value, want := range map[string]bool{
		"sha-256=:" + text + ":": true, "sha-512=:AA==:, sha-256=:" + text + ":": true, "sha-256=" + text: false,
		"sha-256=:":        false,
		"sha-256=:" + text: false, "sha-256=:AA==:": false, "sha-256=?1": false,
	} {
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header.Set("Repr-Digest", value)
		got, err := digestOf(r.Header.Values("Repr-Digest"))
		if want != (err == nil) || want && (got == nil || *got != sum) {
			t.Errorf("%q: %x, %v", value, got, err)
		}
	}
	for _, none := range [][]string{nil, {""}, {"sha-512=:AA==:"}} {
		if got, err := digestOf(none); got != nil || err != nil {
			t.Errorf("%q: %x, %v", none, got, err)
		}
	}
}
