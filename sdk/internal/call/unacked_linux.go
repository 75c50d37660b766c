package call

import (
	"cmp"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unackedOf returns a function that tells how many bytes written to a connection the peer has
// not acknowledged, TLS included; nil if nobody can tell. Without it a slow line looks like
// one that stands still: the kernel takes megabytes at once, and they take minutes.
func unackedOf(c net.Conn) func() int64 {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	conn, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	return func() (left int64) {
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil { //#nosec G115 -- a descriptor
				left = int64(n)
			}
		})
		return left
	}
}

// endUnacked returns what has the kernel end a connection on which the other end acknowledges nothing for d, for
// [net.Dialer].Control.
func endUnacked(d time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, //#nosec G115 -- a descriptor
				int(d.Milliseconds()))
		})
		return cmp.Or(failed, err)
	}
}
