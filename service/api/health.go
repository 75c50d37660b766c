package api

import (
	"net/http"
)

// health answers what the hosted service does, and how each part is.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	code, status, parts := http.StatusOK, "ok", s.Health(r.Context())
	for _, state := range parts {
		if state != "ok" {
			code, status = http.StatusServiceUnavailable, "degraded"
			w.Header().Set("Retry-After", "5")
		}
	}
	writeJSON(w, code, map[string]any{"status": status, "version": s.Version, "auth": "enabled", "rpc_reachable": parts["database"] == "ok", "parts": parts})
}
