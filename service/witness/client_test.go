package witness_test

import (
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire/cosign"
	"github.com/svcfs/svcfs/service/witness"
)

// A signature of the witness on another text than the checkpoint is refused: no member would take it.
func TestWitnessSignsAnotherText(t *testing.T) {
	l := newLog(t, 1)
	l.grow(1, "a")
	signed := l.checkpoint()
	body, _, _ := strings.Cut(signed, "\n\n")
	s, err := cosign.NewSigner("w.example.org", ed25519.NewKeyFromSeed(make([]byte, 32)), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for text, head := range map[string]string{body + "\n": body + "\n\n", signed: signed} {
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			both, err := note.Sign(&note.Note{Text: text}, s)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(rw, strings.TrimPrefix(string(both), head))
		}))
		c, err := witness.NewClient(server.URL, s.Verifier.String())
		if err != nil {
			t.Fatal(err)
		}
		both, err := c.Sign(t.Context(), []byte(signed), l.n, nil)
		server.Close()
		if (err != nil) != (text == signed) {
			t.Errorf("a signature on %q: %q, %v", text, both, err)
		}
		if _, opened := note.Open(both, note.VerifierList(s.Verifier)); err == nil && opened != nil {
			t.Errorf("%q is published: %v", both, opened)
		}
	}
}
