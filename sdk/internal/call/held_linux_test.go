package call

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// M5: a connection on which the service holds a call dies silently: before the request, so that nobody acknowledges it,
// or after it, so that nothing is on its way. The kernel notices both. The other end here takes no packet any more.
func TestM5HeldCallEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before the request": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/held" {
					forget(t, r.Context().Value(connKey{}).(*net.TCPConn))
					<-hold
				}
			}))
			server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, c)
			}
			conns := make(chan net.Conn, 1)
			server.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateIdle {
					conns <- c
				}
			}
			server.Start()
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(hold) })
			c := New(Config{Timeout: time.Hour})
			t.Cleanup(c.Close)
			ask := Call{Kind: Once, Method: http.MethodGet, URL: server.URL, Held: true}
			if before {
				if err := c.Do(t.Context(), ask); err != nil {
					t.Fatal(err)
				}
				forget(t, (<-conns).(*net.TCPConn))
			}
			ask.URL += "/held"
			if err := c.Do(t.Context(), ask); !errors.Is(err, syscall.ETIMEDOUT) || c.Hears() {
				t.Errorf("ends with %v; hears the service: %v", err, c.Hears())
			}
		})
	}
}

// M5: how long that takes the kernel.
func TestM5ProbesOfHeldCalls(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	conn, err := heldDialer().DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	get := func(option int) (is time.Duration) {
		t.Helper()
		failed := raw.Control(func(fd uintptr) {
			var n int
			n, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
			is = time.Duration(n)
		})
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return is
	}
	silent := (get(unix.TCP_KEEPIDLE) + get(unix.TCP_KEEPINTVL)*get(unix.TCP_KEEPCNT)) * time.Second
	unacked := get(unix.TCP_USER_TIMEOUT) * time.Millisecond
	if silent != heldDead || unacked != heldDead || heldDead >= 5*time.Second {
		t.Errorf("a silent connection is dead after %s, one with something to send after %s", silent, unacked)
	}
}

type connKey struct{}

// forget has the kernel drop all that arrives on a connection, without a word to the other end.
func forget(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		failed := raw.Control(func(fd uintptr) {
			none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
				&unix.SockFprog{Len: 1, Filter: &none[0]})
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		t.Error(err)
	}
}
