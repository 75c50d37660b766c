package store

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel gives up a connection whose other machine acknowledges nothing any more.
func TestSilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := (&net.Dialer{Control: giveUpSilent}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	if failed := raw.Control(func(fd uintptr) {
		ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); failed != nil || err != nil || ms != 15_000 {
		t.Errorf("it waits %d ms: %v, %v", ms, failed, err)
	}
	if err := giveUpSilent("unix", "", nil); err != nil {
		t.Errorf("a socket of this machine: %v", err)
	}
}
