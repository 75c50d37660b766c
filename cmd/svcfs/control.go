package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A mount serves commands at sockets in the state folder of its user: one request and one answer in JSON.

const (
	maxControlRequest = 64 << 10 // bytes
	maxControlAnswer  = 64 << 20 // bytes
	controlPatience   = 2 * time.Minute
)

// control is a socket of a running mount.
type control struct {
	listener *net.UnixListener
	life     context.Context
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// inFolder names a file in a folder by a path of few bytes: the address of a socket has at most 107.
func inFolder(dir, name string) (path string, end func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), func() { _ = d.Close() }, nil
}

// serveControl answers at the socket of a name in a folder, in which no other process serves one of that name.
func serveControl[Q, A any](dir, name string, answer func(context.Context, Q) A) (*control, error) {
	path, end, err := inFolder(dir, name)
	if err != nil {
		return nil, err
	}
	defer end()
	_ = os.Remove(path) // of a process that was killed
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	c := &control{listener: listener}
	c.life, c.stop = context.WithCancel(context.Background())
	c.done.Go(func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			c.done.Go(func() { serveOne(c.life, conn, answer) })
		}
	})
	return c, nil
}

func (c *control) close() {
	if c == nil {
		return
	}
	c.stop()
	_ = c.listener.Close()
	c.done.Wait()
}

func serveOne[Q, A any](life context.Context, conn *net.UnixConn, answer func(context.Context, Q) A) {
	defer conn.Close()
	defer context.AfterFunc(life, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(controlPatience))
	var request Q
	if !isOfUser(conn) || json.NewDecoder(io.LimitReader(conn, maxControlRequest)).Decode(&request) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(life, controlPatience)
	defer cancel()
	_ = json.NewEncoder(conn).Encode(answer(ctx, request))
}

// isOfUser reports whether a process of this user, or of root, asks.
func isOfUser(conn *net.UnixConn) (is bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //#nosec G115 -- a descriptor
		is = err == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
	})
	return is
}

// errNoMount: no mount serves the socket.
var errNoMount = errors.New("no mount answers")

// dialControl connects with the mount that serves the socket of a name in a folder.
func dialControl(ctx context.Context, dir, name string) (net.Conn, error) {
	path, end, err := inFolder(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoMount
	}
	if err != nil {
		return nil, err
	}
	defer end()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
		return nil, errNoMount
	}
	if err != nil {
		return nil, fmt.Errorf("ask the mount: %w", err)
	}
	return conn, nil
}

// askControl asks the mount that serves the socket of a name in a folder.
func askControl[Q, A any](ctx context.Context, dir, name string, request Q) (answer A, err error) {
	conn, err := dialControl(ctx, dir, name)
	if err != nil {
		return answer, err
	}
	return askOver[Q, A](ctx, conn, request)
}

// askOver asks the mount at the other end of conn. One that is stopped takes a connection and never answers.
func askOver[Q, A any](ctx context.Context, conn net.Conn, request Q) (answer A, err error) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(controlPatience))
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return answer, fmt.Errorf("ask the mount: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(conn, maxControlAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("the mount does not answer: %w", err)
	}
	return answer, nil
}
