package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/vaulttest"
)

// A process that is told to end goes on while the delay runs, and only then takes no more connections.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Service{cfg: Config{DrainDelay: 10 * time.Second}}
		ctx, tell := context.WithCancel(t.Context())
		serving, stop := s.drained(ctx)
		defer stop()
		time.Sleep(time.Hour)
		if s.ending.Load() || serving.Err() != nil {
			t.Error("it ends untold")
		}
		tell()
		time.Sleep(9 * time.Second)
		if !s.ending.Load() || serving.Err() != nil {
			t.Errorf("told to end: %v, still serving: %v", s.ending.Load(), serving.Err() == nil)
		}
		time.Sleep(2 * time.Second)
		if serving.Err() == nil {
			t.Error("it does not end")
		}
	})
}

// Meanwhile /health says so, all else is answered, and each answer ends its connection.
func TestDrainTellsLoadBalancers(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Vault: vaulttest.InProcess, DataDir: filepath.Join(t.TempDir(), "data"),
		PublicURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	handler := s.leaving(s.handler)
	for _, ending := range []bool{false, true} {
		s.ending.Store(ending)
		status, connection, says := http.StatusOK, "", `"status":"ok"`
		if ending {
			status, connection, says = http.StatusServiceUnavailable, "close", `"status":"ending"`
		}
		health, other := httptest.NewRecorder(), httptest.NewRecorder()
		handler.ServeHTTP(health, httptest.NewRequest(http.MethodGet, wire.PathHealth, nil))
		handler.ServeHTTP(other, httptest.NewRequest(http.MethodGet, "/", nil))
		if health.Code != status || !strings.Contains(health.Body.String(), says) {
			t.Errorf("ending %v: health %d %s", ending, health.Code, health.Body)
		}
		if other.Code != http.StatusOK || other.Header().Get("Connection") != connection {
			t.Errorf("ending %v: %d, Connection: %q", ending, other.Code, other.Header().Get("Connection"))
		}
	}
}
