package call

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
)

// idleConn is a connection whose end its user sees when the test says so.
type idleConn struct {
	net.Conn
	end, closed chan struct{}
	close       func() error
}

func (c *idleConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		<-c.end
	}
	return n, err
}

func (c *idleConn) Close() error { return c.close() }

// A service that restarts closes idle connections. The error that net/http makes of a
// request at that moment is a lost connection.
func TestClosedIdleConnectionIsLost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	conn := &idleConn{end: make(chan struct{}), closed: make(chan struct{})}
	conn.close = sync.OnceValue(func() error { close(conn.closed); return conn.Conn.Close() })
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		conn.Conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return conn, err
	}}
	post := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("body"))
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return err
	}
	if err := post(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Config.SetKeepAlivesEnabled(false) // closes the idle connection
	err := post(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		close(conn.end)
		<-conn.closed
	}}))
	if err == nil || !isClosedIdle(err) || !IsLost(err) {
		t.Errorf("%v: not known as the error of a connection that was closed while idle", err)
	}
}
