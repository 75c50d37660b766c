package api

import (
	"maps"
	"net/http"

	"github.com/svcfs/svcfs/service/space"
)

// health answers as the hosted service does, and adds the state of each part. The status
// is 503 when files cannot be served. It is only "degraded" when the ledger is not
// signed any more or uploads have no room. Low room is reported before that.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	code, status := http.StatusOK, "ok"
	parts := maps.Clone(s.Health(r.Context()))
	for _, state := range parts {
		if state != "ok" {
			code, status = http.StatusServiceUnavailable, "degraded"
			w.Header().Set("Retry-After", "5")
		}
	}
	checkpoints := "ok"
	parts["checkpoints"] = "ok"
	if err := s.Checkpoints.Problem(); err != nil {
		checkpoints, status, parts["checkpoints"] = err.Error(), "degraded", "down"
	} else if s.Checkpoints.Behind() {
		checkpoints, status, parts["checkpoints"] = "the newest records are not signed: the log tells why", "degraded", "down"
	}
	room := s.Space.State()
	if room == space.Full {
		status = "degraded"
	}
	writeJSON(w, code, map[string]any{"status": status, "version": s.Version, "auth": "enabled", "rpc_reachable": parts["database"] == "ok",
		"checkpoints": checkpoints, "space": room, "parts": parts})
}
