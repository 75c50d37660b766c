package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/svcfs/svcfs/sdk/wire"
)

// lies are what a proxy does to a service that is honest.
var lies = map[string]func(http.Handler) http.Handler{
	"clock":    func(next http.Handler) http.Handler { return dated(next, time.Now().Add(-time.Hour)) },
	"no-clock": func(next http.Handler) http.Handler { return dated(next, time.Time{}) },
	"capabilities": func(next http.Handler) http.Handler {
		return answering(next, "/capabilities", 503, `{"error":"starting"}`)
	},
	"health-once": healthyOnce,
	"names": func(next http.Handler) http.Handler {
		return replacing(next, wire.PathTools+wire.OpGetGroupTransactions, `"root":"`, `"root":"0`)
	},
	"receipt": func(next http.Handler) http.Handler {
		// finalize_uploads begins like the first
		for _, path := range []string{wire.PathTools + wire.OpFinalizeUpload, wire.PathSealed} {
			next = replacing(next, path, `"receipt"`, `"no_receipt"`)
		}
		return next
	},
}

// dated gives every answer another date, or none.
func dated(next http.Handler, date time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		if !date.IsZero() {
			w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		}
		next.ServeHTTP(w, r)
	})
}

// answering gives one answer of its own at path.
func answering(next http.Handler, path string, status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// replacing replaces a text in the answers at paths that begin with path.
func replacing(next http.Handler, path, before, after string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, path) {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(before), []byte(after)))
	})
}

// healthyOnce cuts the connection of whoever asks a second time.
func healthyOnce(next http.Handler) http.Handler {
	var asked atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathHealth && asked.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// lieCmd starts a proxy before the service of SVC_URL, which it becomes.
func lieCmd(t *testing.T, ts *testscript.TestScript, args []string) {
	if len(args) != 1 || lies[args[0]] == nil {
		ts.Fatalf("usage: lie %q", slices.Sorted(maps.Keys(lies)))
	}
	to, err := url.Parse(ts.Getenv(envURL))
	ts.Check(err)
	honest := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error { r.Header.Del("Date"); return nil },
	}
	proxy := httptest.NewServer(lies[args[0]](honest))
	t.Cleanup(proxy.Close)
	ts.Setenv(envURL, proxy.URL)
}
