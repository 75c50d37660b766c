package sdk

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// E7: the token expired while the network was gone: the first request fetches a new one, and the
// program notices nothing.
func TestE7TokenExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	var signIns, refused atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == wire.PathSessionToken:
			signIns.Add(1)
			_, _ = io.WriteString(w, `{"token":"token-`+string('0'+rune(signIns.Load()))+`","account_id":"a.svc","expires_in":"24h"}`)
		case r.URL.Path != wire.PathTools+wire.OpGetOwnedGroups:
			http.NotFound(w, r)
		case signIns.Load() == 1 && refused.Load() == 1: // the first token is over
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"the token has expired","code":"`+wire.CodeInvalidToken+`"}`)
		default:
			refused.CompareAndSwap(0, 1)
			_, _ = io.WriteString(w, `{"result":[]}`)
		}
	}))
	defer server.Close()
	c, err := New("a.svc", Config{URL: server.URL, APIKey: NewSecret("key")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3 {
		if _, err := c.OwnedGroups(t.Context()); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if signIns.Load() != 2 || refused.Load() != 2 {
		t.Errorf("%d sign-ins, %d steps", signIns.Load(), refused.Load())
	}
}

// closings counts how often idle connections are closed.
type closings struct {
	http.RoundTripper
	n int
}

func (c *closings) CloseIdleConnections() { c.n++ }

// E7: after the machine slept, no connection from before is used.
func TestE7ConnectionsAfterSleep(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer server.Close()
	transport := &closings{RoundTripper: http.DefaultTransport}
	c, err := New("a.svc", Config{URL: server.URL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.send(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if transport.n != want {
			t.Errorf("closed %d times, want %d", transport.n, want)
		}
	}
	ask(0)
	ask(0)
	c.made = c.made.Add(time.Hour) // as if the clock of the process had stood still for an hour
	ask(1)
	ask(1)
}
