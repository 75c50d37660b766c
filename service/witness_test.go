package service_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/cosign"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/witness"
)

// witnessed runs a service over the data of r whose checkpoints a witness signs.
func (r *running) witnessed(url, key string) *running {
	r.t.Helper()
	cfg := service.Config{DataDir: r.dir, Database: r.database, PublicURL: r.url, MaxFileBytes: 1 << 20, Witness: url,
		WitnessKey: key}
	svc, err := openService(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewServer(svc.Handler())
	r.t.Cleanup(func() {
		server.Close()
		if err := svc.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return &running{t: r.t, svc: svc, dir: r.dir, url: server.URL, database: r.database}
}

// A service with a witness publishes only checkpoints that the witness signed too; the
// witness signs no second history, and may replay the records.
func TestThreat6WitnessSignsOneHistory(t *testing.T) { signsOneHistory(t, false) }

func TestThreat6WitnessThatReplaysSignsOneHistory(t *testing.T) { signsOneHistory(t, true) }

func signsOneHistory(t *testing.T, replays bool) {
	t.Parallel()
	r, alice := runWithGroup(t)
	w, err := witness.Open(t.TempDir(), "witness.example.org", []string{r.key()})
	if err != nil {
		t.Fatal(err)
	}
	w.Replays = replays
	away := false
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if away {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Handler(nil).ServeHTTP(rw, req)
	}))
	t.Cleanup(server.Close)
	verifier, err := cosign.NewVerifier(w.Key())
	if err != nil {
		t.Fatal(err)
	}
	there := r.witnessed(server.URL, w.Key())
	published := func() (string, bool) {
		t.Helper()
		_, raw := there.get("/tlog/checkpoint")
		_, err := note.Open([]byte(raw), note.VerifierList(verifier))
		return raw, err == nil
	}
	if raw, ok := published(); !ok {
		t.Fatalf("the witness did not sign %q", raw)
	}
	must[string](alice.at(there), wire.OpRegisterGroup, object{"group_id": "two"})
	first, ok := published()
	if !ok || !strings.Contains(first, "\n3\n") {
		t.Fatalf("the witness did not sign %q", first)
	}
	t.Run("a listing comes with what the witness signed", func(t *testing.T) {
		rows, proof := alice.at(there).chain("two", nil)
		if _, err := note.Open([]byte(proof.Checkpoint), note.VerifierList(verifier)); err != nil || len(rows) != 1 {
			t.Errorf("a listing comes with %q: %v", proof.Checkpoint, err)
		}
	})
	t.Run("without the witness nothing new is published", func(t *testing.T) {
		away = true
		must[string](alice.at(there), wire.OpRegisterGroup, object{"group_id": "three"})
		if status, raw := there.get("/tlog/checkpoint"); status != http.StatusServiceUnavailable {
			t.Errorf("without the witness: %d %q", status, raw)
		}
		if status, health := there.get("/health"); status != http.StatusServiceUnavailable ||
			!strings.Contains(health, "degraded") || !strings.Contains(health, "not signed") ||
			strings.Contains(health, "127.0.0.1") {
			t.Errorf("without the witness: %d %s", status, health)
		}
	})
	t.Run("the witness is back", func(t *testing.T) {
		away = false
		if raw, ok := published(); !ok || !strings.Contains(raw, "\n4\n") {
			t.Errorf("the witness is back, and did not sign %q", raw)
		}
		if status, health := there.get("/health"); status != http.StatusOK || strings.Contains(health, "degraded") {
			t.Errorf("the witness is back: %s", health)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		restarted := r.witnessed(server.URL, w.Key())
		must[string](alice.at(restarted), wire.OpRegisterGroup, object{"group_id": "four"})
		if _, raw := restarted.get("/tlog/checkpoint"); !strings.Contains(raw, "\n5\n") {
			t.Errorf("after a restart: %q", raw)
		}
	})
	t.Run("the same log with another history is not signed", func(t *testing.T) {
		if _, err := r.openDatabase().Exec(r.withoutTriggers() +
			"UPDATE ledger SET fee = '0' WHERE seq = 2"); err != nil {
			t.Fatal(err)
		}
		r.forgeChain()
		if err := os.RemoveAll(filepath.Join(r.dir, checkpoint.Dir)); err != nil {
			t.Fatal(err)
		}
		forked := r.witnessed(server.URL, w.Key())
		if status, raw := forked.get("/tlog/checkpoint"); status != http.StatusServiceUnavailable {
			t.Errorf("the witness signed a second history: %q", raw)
		}
	})
}
