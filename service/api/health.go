package api

import (
	"fmt"
	"maps"
	"net/http"

	"github.com/svcfs/svcfs/service/space"
)

// health answers as the hosted service does, and adds the state of each part, with the reason where there is one to
// tell. The status is 503 while something cannot be kept that was promised: files are served, the ledger is signed,
// people can sign in. It is only "degraded" when uploads have no room, or single files cannot be read. Low
// room is reported before that.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	parts, told := maps.Clone(s.Health(r.Context())), map[string]string{"checkpoints": "ok", "clock": "ok"}
	if err := s.Checkpoints.Problem(); err != nil {
		told["checkpoints"] = err.Error()
	} else if s.Checkpoints.Behind() {
		told["checkpoints"] = "the newest records are not signed: the log tells why"
	}
	if err := s.Tokens.Problem(); err != nil {
		told["clock"] = err.Error()
	}
	for name, text := range told {
		parts[name] = "ok"
		if text != "ok" {
			parts[name] = "down"
		}
	}
	code, status, room := http.StatusOK, "ok", s.Space.State()
	unread := "ok"
	if n := s.Files.Unreadable(); n > 0 {
		unread = fmt.Sprintf("%d reads failed within the last hour: the log names the files", n)
	}
	if room == space.Full || unread != "ok" {
		status = "degraded"
	}
	for _, state := range parts {
		if state != "ok" {
			code, status = http.StatusServiceUnavailable, "degraded"
			w.Header().Set("Retry-After", "5")
		}
	}
	writeJSON(w, code, map[string]any{"status": status, "version": s.Version, "auth": "enabled",
		"rpc_reachable": parts["database"] == "ok",
		"checkpoints":   told["checkpoints"], "clock": told["clock"], "files": unread, "space": room, "parts": parts})
}
