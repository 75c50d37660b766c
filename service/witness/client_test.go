package witness_test

import (
	"context"
	"crypto/ed25519"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire/cosign"
	"github.com/svcfs/svcfs/service/vaultwire"
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

// told has a witness sent the records of q, and remembers from where on it wanted some.
type told struct {
	*chained
	q     witness.Replay
	bases []int64
}

func (l *told) Prove(old int64) (tlog.TreeProof, error) { return tlog.ProveTree(l.n, old, l) }

func (l *told) Replay(ctx context.Context, base int64, send func(context.Context, witness.Replay) (string, error)) (
	string, error) {
	l.bases = append(l.bases, base)
	return send(ctx, l.q)
}

// A size beyond the ledger that the witness told once is asked for again, and nothing is replayed twice for it.
func TestWitnessToldAnotherSize(t *testing.T) {
	l := &told{chained: newChained(t)}
	w, wrong := replaying(t, t.TempDir(), l.log, true), false
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if wrong && r.URL.Path == witness.Path {
			rw.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(rw, "1000\n")
			return
		}
		w.Handler(nil).ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	c, err := witness.NewClient(server.URL, w.Key())
	if err != nil {
		t.Fatal(err)
	}
	base := vaultwire.NoRecords()
	for i, isWrong := range []bool{false, true, false} {
		if i < 2 {
			l.q = l.add(entry{"group:g", string(rune('a' + i))})
			l.q.Base = base
		}
		signed, now := l.shown()
		wrong = isWrong
		if _, err := c.Sign(t.Context(), []byte(signed), l.n, l); (err != nil) != isWrong {
			t.Errorf("%d: %v", i, err)
		}
		if !isWrong {
			base = now
		}
	}
	if want := []int64{0, 1, 1}; !slices.Equal(l.bases, want) {
		t.Errorf("records were wanted from %d on, not %d", l.bases, want)
	}
}
