//go:build !linux

package call

import (
	"net"
	"syscall"
	"time"
)

// unackedOf returns nil: only Linux is asked for what a peer acknowledged.
func unackedOf(net.Conn) func() int64 { return nil }

// endUnacked returns nil: elsewhere only probes tell that a connection died.
func endUnacked(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
