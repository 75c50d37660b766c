package store

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long a server may acknowledge nothing that was sent to it. A machine that lost its power says
// nothing; by default the kernel would try for a quarter of an hour, and each connection of the pool would hold up a
// request.
const silence = 15 * time.Second

// giveUpSilent ends a connection to another machine after its silence.
func giveUpSilent(network, _ string, c syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(failed, err)
}
