package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/svcfs/svcfs/service/space"
)

// healthy is the state of the service: of each part "ok" or "down", and in words of what there is more to tell.
type healthy struct {
	parts              map[string]string
	checkpoints, clock string // "ok", or why not
	files              string
	space              space.State
}

func (s *server) state(ctx context.Context) healthy {
	h := healthy{parts: maps.Clone(s.Health(ctx)), checkpoints: "ok", clock: "ok", files: "ok", space: s.Space.State()}
	if err := s.Checkpoints.Problem(); err != nil {
		h.checkpoints = err.Error()
	} else if s.Checkpoints.Behind() {
		h.checkpoints = "the newest records are not signed: the log tells why"
	}
	if err := s.Tokens.Problem(); err != nil {
		h.clock = err.Error()
	}
	for name, text := range map[string]string{"checkpoints": h.checkpoints, "clock": h.clock} {
		h.parts[name] = "ok"
		if text != "ok" {
			h.parts[name] = "down"
		}
	}
	if n := s.Files.Unreadable(); n > 0 {
		h.files = fmt.Sprintf("%d reads failed within the last hour: the log names the files", n)
	}
	return h
}

// partsWait bounds the look at the parts for one scrape.
const partsWait = time.Second

// partsUp is the state for the metrics: also of the files, and of the room, which is up until uploads are refused.
func (s *server) partsUp() map[string]bool {
	ctx, cancel := context.WithTimeout(context.Background(), partsWait)
	defer cancel()
	h := s.state(ctx)
	up := map[string]bool{"files": h.files == "ok", "space": h.space != space.Full}
	for name, state := range h.parts {
		up[name] = state == "ok"
	}
	return up
}

// health answers as the hosted service does, and adds the state of each part, with the reason where there is one to
// tell. The status is 503 while something cannot be kept that was promised: files are served, the ledger is signed,
// people can sign in. It is only "degraded" when uploads have no room, or single files cannot be read. Low
// room is reported before that. A process that is about to end says so: a load balancer goes to the others.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	h := s.state(r.Context())
	code, status := http.StatusOK, "ok"
	if h.space == space.Full || h.files != "ok" {
		status = "degraded"
	}
	for _, state := range h.parts {
		if state != "ok" {
			code, status = http.StatusServiceUnavailable, "degraded"
			w.Header().Set("Retry-After", "5")
		}
	}
	if s.Ending() {
		code, status = http.StatusServiceUnavailable, "ending"
	}
	writeJSON(w, code, map[string]any{"status": status, "version": s.Version, "auth": "enabled",
		"rpc_reachable": h.parts["database"] == "ok",
		"checkpoints":   h.checkpoints, "clock": h.clock, "files": h.files, "space": h.space, "parts": h.parts})
}
