package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// trace holds the facts of a request that is being answered.
type trace struct {
	id      string
	client  netip.Addr
	account string // once authenticated
	code    string // of a refusal
	held    int64  // bytes of the memory, see [server.holdMemory]
	ahead   int64  // bytes of the memory that the call of an agent took for it
	request *pace
	release []func() // when the request is answered
}

// atEnd has release called when the request is answered.
func (t *trace) atEnd(release func()) { t.release = append(t.release, release) }

// until sets when the whole body of the request must have come; the zero time sets no
// end, only the pace.
func (t *trace) until(end time.Time) {
	if t.request != nil {
		t.request.end = end
	}
}

type traceKey struct{}

// traceOf returns the trace of a request, or an empty one outside of any.
func traceOf(ctx context.Context) *trace {
	if t, ok := ctx.Value(traceKey{}).(*trace); ok {
		return t
	}
	return &trace{}
}

// observed gives every request an id for the log and the ledger, counts the request,
// ends it when the client stands still, and turns a panic into an answer.
func (s *server) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		t := &trace{id: ledger.NewRequestID(""), client: s.clients.address(r)}
		if r.Context().Value(outerKey{}) != nil {
			t.ahead = toolMemory
		}
		ctx := auth.WithClient(context.WithValue(r.Context(), traceKey{}, t), t.client)
		r = r.WithContext(store.WithGuard(ledger.WithRequestID(ctx, t.id)))
		body := &countedBody{ReadCloser: r.Body, pace: s.pace(http.NewResponseController(w).SetReadDeadline)}
		body.pace.end = start.Add(s.ClientTimeout)
		r.Body, t.request = body, &body.pace
		answer := &countedWriter{ResponseWriter: w, status: http.StatusOK, trace: t, plain: r.TLS == nil, body: body,
			old:  r.ProtoMajor == 1 && r.ContentLength != 0 && r.Header.Get("Expect") == "",
			pace: s.pace(http.NewResponseController(w).SetWriteDeadline)}
		answer.pace.end = start.Add(openAnswerTimes * s.ClientTimeout)
		_ = answer.pace.set(time.Time{}) // the connection may carry that of an earlier request
		s.Metrics.InFlight.Inc()
		defer func() {
			p := recover()
			switch {
			case p == http.ErrAbortHandler: // on purpose
				defer panic(p)
			case p != nil:
				s.logPanic(t, p)
				s.refuse(answer, r, errors.New("panic"))
			}
			// they may be over, and another request may follow
			body.pace.end, answer.pace.end = time.Time{}, time.Time{}
			answer.pace.deadline(s.ClientTimeout) // for the buffered rest of the answer
			if !answer.closes {
				body.pace.deadline(s.ClientTimeout) // for the unread rest of the request
			}
			s.Metrics.InFlight.Dec()
			for _, release := range t.release {
				release()
			}
			s.finish(r, t, start, body.pace.n, answer)
		}()
		w.Header().Set(wire.HeaderRequestID, t.id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		s.admit(answer, r, next)
	})
}

func (s *server) logPanic(t *trace, p any) {
	s.Logger.Error("panic", "request", t.id, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
}

// admit refuses headers that are too long, and encodings that no operation takes.
func (s *server) admit(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		w.Header().Set("Connection", "close")
		writeJSON(w, http.StatusUnsupportedMediaType,
			wire.Error{Error: "compressed requests are not taken: send the body as it is", Code: wire.CodeValidation})
		return
	}
	if err := checkHeaders(r); err != nil {
		s.refuse(w, r, err)
		return
	}
	next.ServeHTTP(w, r)
}

// finish counts and logs an answered request.
func (s *server) finish(r *http.Request, t *trace, start time.Time, in int64, answer *countedWriter) {
	took := time.Since(start)
	operation := s.operationOf(r)
	if answer.status == http.StatusUnauthorized || t.code == wire.CodeAccountUnknown ||
		t.code == wire.CodeInvite {
		s.clients.failed(t.client)
	}
	s.Metrics.Request(operation, answer.status, took, in, answer.pace.n)
	level := slog.LevelInfo
	if answer.status >= http.StatusInternalServerError && r.Context().Err() == nil {
		level = slog.LevelWarn
	}
	s.Logger.LogAttrs(r.Context(), level, "request", slog.String("request", t.id),
		slog.String("operation", operation), slog.String("account", t.account),
		slog.Int("status", answer.status), slog.String("code", t.code), slog.Int64("bytes_in", in),
		slog.Int64("bytes_out", answer.pace.n),
		slog.Int64("ms", took.Milliseconds()), slog.String("client", t.client.String()),
		slog.String("method", r.Method))
}

// operationOf names an operation, else the route, never the path: there are
// few of them, and a path may hold a ticket.
func (s *server) operationOf(r *http.Request) string {
	op := r.PathValue("op")
	if s.tools[op] != nil {
		return op
	}
	_, route, _ := strings.Cut(r.Pattern, " ")
	if route == "" || op != "" {
		return "unknown"
	}
	return route
}
