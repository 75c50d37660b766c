package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		status, raw = http.StatusInternalServerError,
			[]byte(`{"error":"internal error","code":"`+wire.CodeInternal+`"}`)
	}
	writeRaw(w, status, raw)
}

func writeRaw(w http.ResponseWriter, status int, parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.WriteHeader(status)
	for _, p := range parts {
		_, _ = w.Write(p) // the caller may be gone
	}
}

// refuse answers an error and logs its cause.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e, closes := refusal(err)
	if closes {
		w.Header().Set("Connection", "close") // the rest of the request is not read
	}
	if e == nil {
		writeJSON(w, http.StatusRequestTimeout, wire.Error{Error: "the request came too slowly: send it again",
			Code: wire.CodeUnavailable})
		return
	}
	t, level := traceOf(r.Context()), slog.LevelError
	if r.Context().Err() != nil { // a caller that left is no failure
		level = slog.LevelDebug
		given := &fault.Error{Code: wire.CodeUnavailable, Text: "the request was given up"}
		if !errors.Is(err, context.Canceled) {
			given.Err = e
		}
		e = given
	}
	if isFailedSignIn(e) && !s.clients.mayFail(t.client) {
		e = &fault.Error{Code: wire.CodeRateLimited,
			Text:       "too many requests: too many failed sign-ins from your address, try again in a minute",
			RetryAfter: time.Minute}
	}
	t.code = e.Code
	if e.Err != nil {
		s.Logger.Log(r.Context(), level, "failed", "request", ledger.RequestID(r.Context()), "code", e.Code, "cause",
			e.Err.Error())
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	writeJSON(w, e.Status(), wire.Error{Error: e.Text, Code: e.Code})
}

// refusal is the answer to a caller for an error, nil when the caller was too slow;
// closes reports that the rest of the request is not read.
func refusal(err error) (e *fault.Error, closes bool) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fault.New(wire.CodeTooLarge, "request too large: at most %d bytes here; use the raw transfer for "+
			"large files", tooLarge.Limit), true
	case errors.Is(err, store.ErrInvalidText):
		return fault.New(wire.CodeValidation, "a name or id holds a NUL character"), false
	case errors.Is(err, blob.ErrUnavailable):
		return &fault.Error{Code: wire.CodeUnavailable,
			Text: "the service's file store is unavailable: nothing was recorded or charged; " +
				"try again in a moment",
			RetryAfter: 2 * time.Second, Err: err}, false
	case errors.Is(err, store.ErrUnavailable):
		return &fault.Error{Code: wire.CodeUnavailable,
			Text: "the service's database is unavailable: try again in a moment", RetryAfter: time.Second,
			Err: err}, false
	case errors.Is(err, blob.ErrFull), errors.Is(err, store.ErrFull):
		return &fault.Error{Code: wire.CodeStorageFull,
			Text: "the service's storage is full: nothing was recorded or charged", Err: err}, false
	case errors.As(err, &e):
		return e, false
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, true
	}
	return fault.Of(err), false
}

// isFailedSignIn reports whether a refusal is one of a failed sign-in.
func isFailedSignIn(e *fault.Error) bool {
	return e.Status() == http.StatusUnauthorized || e.Code == wire.CodeAccountUnknown || e.Code == wire.CodeInvite
}

// result answers the result of an operation in the form that both generations read: an
// object as {"result": {…}, …}, a sentence as {"result": s, "message": s}, a list as
// {"result": […]}. What only our dialect has is in fields of its own beside it.
func result(w http.ResponseWriter, v any) {
	switch v := v.(type) {
	case groups.Listing:
		answer := map[string]any{"result": v.Names, "roles": v.Roles}
		if v.More {
			answer["more"] = true
		}
		writeJSON(w, http.StatusOK, answer)
		return
	case groups.Added:
		writeJSON(w, http.StatusOK, map[string]any{"result": v.Text, "message": v.Text, "exists": v.Exists})
		return
	case files.Changed:
		writeJSON(w, http.StatusOK, struct {
			Result  string `json:"result"`
			Message string `json:"message"`
			wire.Recorded
		}{v.Text, v.Text, v.Recorded})
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, wire.Error{Error: "internal error", Code: wire.CodeInternal})
		return
	}
	writeRaw(w, http.StatusOK, bothForms(raw)...)
}

// resultAlone answers the result of an operation that clients of the hosted service do not have, as
// {"result": …}: half as long as [result].
func resultAlone(w http.ResponseWriter, v any) {
	writeJSON(w, http.StatusOK, struct {
		Result any `json:"result"`
	}{v})
}

// bothForms writes a result as [result] answers it.
func bothForms(raw []byte) [][]byte {
	switch {
	case raw[0] == '"':
		return [][]byte{[]byte(`{"result":`), raw, []byte(`,"message":`), raw, []byte(`}`)}
	case raw[0] == '{' && len(raw) > 2:
		return [][]byte{[]byte(`{"result":`), raw, []byte(`,`), raw[1:]}
	default:
		return [][]byte{[]byte(`{"result":`), raw, []byte(`}`)}
	}
}
