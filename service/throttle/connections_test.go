package throttle

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// end is a connection of which only the other end's address is known.
type end struct {
	net.Conn
	from string
}

func (e *end) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(e.from), 1234))
}

// Threat 31: which connection is given up at a bound.
func TestThreat31WhichConnectionGoes(t *testing.T) {
	t.Parallel()
	proxy := netip.MustParseAddr("10.0.0.1")
	c := NewConnections(6, 3, []netip.Prefix{netip.PrefixFrom(proxy, 32)})
	open := func(from string) *end {
		t.Helper()
		conn := &end{from: from}
		if gone := c.note(conn, http.StateNew); gone != nil {
			t.Fatalf("a connection from %s makes one go", from)
		}
		return conn
	}
	instead := func(from string, want *end) *end {
		t.Helper()
		conn := &end{from: from}
		gone := c.note(conn, http.StateNew)
		if want == nil {
			want = conn
		}
		if gone != want {
			t.Fatalf("for %s another one goes than expected: %+v", from, gone)
		}
		return conn
	}
	busy := func(list ...*end) {
		for _, conn := range list {
			c.note(conn, http.StateActive)
		}
	}
	signIn := func(conn *end) (over func()) { return c.SignedIn(c.Context(context.Background(), conn)) }
	t.Run("idle before busy, and of strangers before those who signed in", func(t *testing.T) {
		a1, a2, a3 := open("192.0.2.1"), open("192.0.2.1"), open("192.0.2.1")
		busy(a1, a3)
		a4 := instead("192.0.2.1", a2) // idle, of the same address
		busy(a4)
		instead("192.0.2.1", nil) // all of the address are busy
		b1 := open("2001:db8::1")
		b2 := open("2001:db8::2") // the same 64 bits
		b3 := open("2001:db8::3")
		busy(b1, b2, b3)
		instead("2001:db8::4", nil)
		signIn(a1)
		d1 := instead("192.0.2.4", a3) // busy longest and not signed in
		signIn(d1)
		busy(d1)
		c.note(b1, http.StateIdle)
		instead("192.0.2.5", b1) // idle goes first
		c.note(a1, http.StateClosed)
		open("192.0.2.6")
		if len(c.all) != 6 || c.ofAddress[netip.MustParseAddr("192.0.2.1")] != 1 {
			t.Errorf("%d are open, %v", len(c.all), c.ofAddress)
		}
	})
	t.Run("a new one stays for the time in which all others would go", func(t *testing.T) {
		c = NewConnections(6, 6, nil)
		var busyOnes []*end
		for range 6 {
			busyOnes = append(busyOnes, open("192.0.2.1"))
			busy(busyOnes[len(busyOnes)-1])
		}
		honest := instead("192.0.2.2", busyOnes[0])
		for i := range 5 {
			busy(instead("192.0.2.3", busyOnes[i+1]))
		}
		instead("192.0.2.4", honest)
	})
	t.Run("one whose request of an account is over", func(t *testing.T) {
		c = NewConnections(2, 2, nil)
		a, b := open("192.0.2.1"), open("192.0.2.1")
		busy(a, b)
		over, overToo, overOfB := signIn(a), signIn(a), signIn(b)
		over()
		instead("192.0.2.2", nil) // HTTP/2 has another
		overToo()
		d := instead("192.0.2.2", a) // the rest of its body has not come
		signIn(d)
		c.note(b, http.StateClosed)
		overOfB()
		if len(c.all) != 1 || c.strangers.Len() != 0 {
			t.Errorf("%d are open, and %d may go", len(c.all), c.strangers.Len())
		}
	})
	t.Run("clients behind a proxy are many", func(t *testing.T) {
		c = NewConnections(6, 3, []netip.Prefix{netip.PrefixFrom(proxy, 32)})
		for range 6 { // many clients
			conn := open("10.0.0.1")
			busy(conn)
			signIn(conn)
		}
		instead("192.0.2.1", nil)
	})
}

// The kernel holds little of an answer that it cannot send, also behind TLS: with megabytes there, a
// client on a slow line makes no room for minutes, and is taken for one that stands still.
func TestAnswersFillNoKernelBuffers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = NewConnections(1, 1, nil).Context(t.Context(), tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS12}))
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	failed := raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	})
	if failed != nil || err != nil || got != unsentBytes {
		t.Errorf("the kernel may hold %d bytes, %v, %v", got, err, failed)
	}
}
