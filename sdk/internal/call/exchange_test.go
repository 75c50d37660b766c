package call

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// closings counts how often idle connections are closed.
type closings struct {
	http.RoundTripper
	n int
}

func (c *closings) CloseIdleConnections() { c.n++ }

// E7: after the machine slept, no connection from before is used.
func TestE7ConnectionsAfterSleep(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	transport := &closings{RoundTripper: http.DefaultTransport}
	c := New(Config{URL: server.URL, Timeout: DefaultTimeout, Transport: transport})
	ask := func(want int) {
		t.Helper()
		if err := c.Do(t.Context(), Call{Method: http.MethodGet, URL: server.URL}); err != nil {
			t.Fatal(err)
		}
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

// E7, M5: a call that the service holds ends when the machine slept, and whoever asks knows at once that nothing was
// heard meanwhile. The next one that is answered changes that.
func TestM5HeldCallEndsAfterSleep(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	c := New(Config{Timeout: time.Hour})
	t.Cleanup(c.Close)
	ask := Call{Kind: Once, Method: http.MethodGet, URL: server.URL, Held: true}
	if !c.Hears() {
		t.Error("hears nothing though the machine did not sleep")
	}
	done := make(chan error, 1)
	go func() { done <- c.Do(t.Context(), ask) }()
	<-arrived
	c.made = c.made.Add(time.Hour) // as if the clock of the process had stood still for an hour
	for range 2 {                  // also when asked again
		if c.Hears() {
			t.Error("hears the service though the machine slept")
		}
	}
	if err := <-done; !errors.Is(err, errStill) {
		t.Errorf("the call ends with %v", err)
	}
	close(hold)
	if err := c.Do(t.Context(), ask); err != nil || !c.Hears() {
		t.Errorf("%v: does not hear the service that answers", err)
	}
}

// Threat 9: a service that speaks only what was broken long ago is refused; the
// same one with TLS 1.2 is not.
func TestThreat9OldTLS(t *testing.T) {
	t.Parallel()
	versions := map[uint16]bool{tls.VersionTLS11: true, tls.VersionTLS12: false, tls.VersionTLS13: false}
	for version, refused := range versions {
		h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{}`))
		}))
		h.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		h.Config.ErrorLog = log.New(io.Discard, "", 0)
		h.StartTLS()
		t.Cleanup(h.Close)
		c := New(Config{Timeout: DefaultTimeout})
		t.Cleanup(c.Close)
		roots := x509.NewCertPool()
		roots.AddCert(h.Certificate())
		c.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = roots
		err := c.Do(t.Context(), Call{Method: http.MethodGet, URL: h.URL})
		if (err != nil) != refused || refused && !errors.As(err, new(*url.Error)) {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

// A connection is used again after an answer that was read to its end, whatever its length is told by.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{}")
		if r.Method == http.MethodPost {
			w.(http.Flusher).Flush() // without a length
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := New(Config{Timeout: DefaultTimeout})
	t.Cleanup(c.Close)
	for i := range 50 {
		call := Call{Method: http.MethodGet, URL: server.URL, Long: i%2 == 0, Answer: Document(new(struct{}))}
		if i%3 == 0 {
			call.Method = http.MethodPost
		}
		if err := c.Do(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	if made.Load() != 1 {
		t.Errorf("%d connections", made.Load())
	}
}

// A call that may outlast its context ends with it until it has its answer, and says how the context ended.
func TestKeptCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	c := New(Config{Timeout: time.Hour})
	t.Cleanup(c.Close)
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for want, ctx := range map[error]context.Context{context.DeadlineExceeded: late, context.Canceled: gone} {
		err := c.Do(ctx, Call{Kind: Once, URL: server.URL, Keep: true, Long: true})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
