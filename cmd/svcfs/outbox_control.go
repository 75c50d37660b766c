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

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// A mount serves the commands about its outbox at a socket in the folder of the outbox, which its
// user alone may enter: one request and one answer in JSON.

const (
	controlName     = "control"
	maxControlBytes = 64 << 20
	controlPatience = 2 * time.Minute
)

type outboxRequest struct {
	Op    string      `json:"op"` // list, retry, move, discard
	ID    string      `json:"id,omitempty"`
	Group sdk.GroupID `json:"group,omitempty"`
}

type outboxAnswer struct {
	Items []outbox.Item `json:"items,omitempty"`
	Error string        `json:"error,omitempty"`
	Gone  bool          `json:"gone,omitempty"` // there is no such item
}

type outboxControl struct {
	listener *net.UnixListener
	box      *outbox.Outbox
	life     context.Context
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// inFolder names a file in a folder by a path of few bytes: the address of a socket has at most 107.
func inFolder(dir string) (path string, end func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), controlName), func() { _ = d.Close() }, nil
}

func serveOutbox(dir string, box *outbox.Outbox) (*outboxControl, error) {
	path, end, err := inFolder(dir)
	if err != nil {
		return nil, err
	}
	defer end()
	_ = os.Remove(path) // of a process that was killed: this one has the lock
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("serve the outbox: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	c := &outboxControl{listener: listener, box: box}
	c.life, c.stop = context.WithCancel(context.Background())
	c.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.done.Go(func() { c.serve(conn) })
		}
	})
	return c, nil
}

func (c *outboxControl) close() {
	c.stop()
	_ = c.listener.Close()
	c.done.Wait()
}

func (c *outboxControl) serve(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(c.life, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(controlPatience))
	var request outboxRequest
	if json.NewDecoder(io.LimitReader(conn, 1<<16)).Decode(&request) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.life, controlPatience)
	defer cancel()
	var answer outboxAnswer
	var err error
	switch request.Op {
	case "list":
		answer.Items = c.box.Items()
	case "retry":
		err = c.box.Retry(request.ID)
	case "move":
		err = c.box.Move(ctx, request.ID, request.Group)
	case "discard":
		err = c.box.Discard(ctx, request.ID)
	default:
		err = fmt.Errorf("no such request: %q", request.Op)
	}
	if err != nil {
		answer.Error, answer.Gone = err.Error(), errors.Is(err, outbox.ErrGone)
	}
	_ = json.NewEncoder(conn).Encode(answer)
}

// errNoMount: no mount has the outbox.
var errNoMount = errors.New("no mount has the outbox")

// dialOutbox connects with the mount that has the outbox in a folder.
func dialOutbox(ctx context.Context, dir string) (net.Conn, error) {
	path, end, err := inFolder(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoMount
	}
	if err != nil {
		return nil, err
	}
	defer end()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, errNoMount
	}
	return conn, nil
}

// askOutbox asks the mount that has the outbox in a folder.
func askOutbox(ctx context.Context, dir string, request outboxRequest) (answer outboxAnswer, err error) {
	conn, err := dialOutbox(ctx, dir)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return answer, fmt.Errorf("ask the mount: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(conn, maxControlBytes)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("the mount does not answer: %w", err)
	}
	return answer, nil
}
