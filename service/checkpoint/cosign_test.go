package checkpoint_test

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire/cosign"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/witness"
)

// Threat 6: the witness signs an unchanged checkpoint again each minute, also after the clock went
// back. While it does not, the checkpoint stays, and the witness is asked again soon.
func TestThreat6WitnessSignsAgain(t *testing.T) {
	s, dir := ledgerOf(t, 3)
	const origin = "files.example.org/svc.testnet"
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public, err := note.NewEd25519VerifierKey(origin, key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	w, err := witness.Open(t.TempDir(), "witness.example.org", []string{public})
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	away := false
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if away {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Handler(nil).ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	client, err := witness.NewClient(server.URL, w.Key())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := cosign.NewVerifier(w.Key())
	if err != nil {
		t.Fatal(err)
	}
	now, signs := time.Now(), &following{keyOf: keyOf(key)}
	l := checkpoint.New(s, dir, origin, func(context.Context, *store.Tx) ([]checkpoint.Key, error) {
		return []checkpoint.Key{signs}, nil
	}, new(settled), client, 64<<20, slog.New(slog.DiscardHandler),
		func() time.Time { return now })
	t.Cleanup(func() { _ = l.Close() })
	step := func(later time.Duration, requests int64, good bool) {
		t.Helper()
		now = now.Add(later)
		before := asked.Load()
		if err := l.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Cosign(t.Context()); (err == nil) != good {
			t.Errorf("%s later: %v", later, err)
		}
		if n := asked.Load() - before; n != requests {
			t.Errorf("%s later the witness was asked %d times, want %d", later, n, requests)
		}
		rw := httptest.NewRecorder()
		l.Handler(func(rw http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }).ServeHTTP(rw,
			httptest.NewRequest(http.MethodGet, "/tlog/checkpoint", nil))
		if _, err := note.Open(rw.Body.Bytes(), note.VerifierList(verifier)); err != nil {
			t.Errorf("%s later: %q: %v", later, rw.Body, err)
		}
	}
	step(0, 1, true)
	step(59*time.Second, 0, true)
	step(time.Second, 1, true)
	step(-time.Hour, 1, true)
	away = true
	step(time.Minute, 1, false)
	step(9*time.Second, 0, true)
	step(time.Second, 1, false)
	away = false
	step(10*time.Second, 1, true)
	step(10*time.Second, 0, true)
}
