package vaultwire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/sdk/locked"
)

const (
	// maxLines is how many connections a client has: more questions at once wait for one.
	maxLines = 16
	// patience bounds one question, where the caller does not, and longPatience one for which the vault may run the
	// command of the master key, a minute long.
	patience     = 10 * time.Second
	longPatience = 70 * time.Second
	// greeting bounds the wait for a vault to take a connection. After that the vault counts as away for awayFor: who
	// asks meanwhile does not wait, and holds up no others.
	greeting = 2 * time.Second
	awayFor  = 500 * time.Millisecond
)

// Client calls a vault behind a Unix socket. It implements [Vault], connects anew when it must, and is safe for
// concurrent use. A vault that was started anew gets the wrapped keys again that the one before had. It prints as
// "redacted".
type Client struct {
	locked.Redacted

	socket string
	away   func(error) error
	turn   chan struct{} // of those that have a connection
	idle   chan *line

	mu    sync.Mutex // guards the rest
	kept  []Row      // what a vault took last
	by    string     // its instance
	renew func(context.Context) ([]Row, error)
	until time.Time // when the vault does not count as away any more
	cause error     // why it does
}

// line is a connection.
type line struct {
	net.Conn
	r        *bufio.Reader
	instance string // of the vault at its other end
}

// NewClient returns a client of the vault at a socket. away makes the error of a vault that does not answer.
func NewClient(socket string, away func(error) error) *Client {
	return &Client{socket: socket, away: away, turn: make(chan struct{}, maxLines), idle: make(chan *line, maxLines)}
}

// Renew gives the client a way to read the wrapped keys of the database: for a vault that was started anew with another
// master key than wraps those that the one before took.
func (c *Client) Renew(read func(context.Context) ([]Row, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renew = read
}

// Close closes the connections that wait.
func (c *Client) Close() error {
	for {
		select {
		case l := <-c.idle:
			_ = l.Close()
		default:
			return nil
		}
	}
}

// call asks one question. Where the connection was closed while it waited, another one is tried: so a question is run
// twice only where the vault failed at it, or ended, and has forgotten it. The end of a rotation, which stays, is run
// again like an interrupted one.
func call[A any](ctx context.Context, c *Client, name string, q any) (a A, err error) {
	bound := patience
	if name == "keep" || name == "read-next" {
		bound = longPatience
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return a, c.away(ctx.Err())
	}
	for {
		l, waited, err := c.line(ctx, name != "keep")
		if err != nil {
			return a, c.away(errors.Join(err, over(ctx)))
		}
		kind, raw, err := l.exchange(ctx, name, q)
		if err != nil {
			_ = l.Close()
			if waited && over(ctx) == nil && !errors.Is(err, errFrame) {
				continue
			}
			return a, c.away(errors.Join(err, over(ctx)))
		}
		defer clear(raw)
		if kind != "" {
			var f failure
			if err = json.Unmarshal(raw, &f); err == nil {
				err = errorOf(kind, f)
			}
		} else {
			err = json.Unmarshal(raw, &a)
			if keep, ok := q.(Keep); ok && name == "keep" && err == nil {
				c.keptBy(l, keep.Rows)
			}
		}
		if errors.Is(err, errFrame) {
			_ = l.Close()
			return a, c.away(err)
		}
		c.wait(l)
		return a, err
	}
}

// over is why ctx ended. A connection notices the end of its time a little earlier.
func over(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// line returns a connection, and whether it waited. With give a vault that was started anew gets the wrapped keys
// first.
func (c *Client) line(ctx context.Context, give bool) (l *line, waited bool, err error) {
	select {
	case l := <-c.idle:
		return l, true, nil
	default:
	}
	c.mu.Lock()
	cause := c.cause
	if !time.Now().Before(c.until) {
		cause = nil
	}
	c.mu.Unlock()
	if cause != nil {
		return nil, false, cause
	}
	if l, err = c.greeted(ctx); err != nil {
		err = fmt.Errorf("connect to the vault: %w", err)
		if over(ctx) == nil && errors.Is(err, os.ErrDeadlineExceeded) { // others would wait as long
			c.mu.Lock()
			c.until, c.cause = time.Now().Add(awayFor), err
			c.mu.Unlock()
		}
		return nil, false, err
	}
	if give {
		if err := c.give(ctx, l); err != nil {
			_ = l.Close()
			return nil, false, fmt.Errorf("give the vault the keys again: %w", err)
		}
	}
	return l, false, nil
}

// greeted makes a connection, and reads the name of the instance.
func (c *Client) greeted(ctx context.Context) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, r: bufio.NewReader(conn)}
	defer l.bound(ctx)()
	_, raw, err := readFrame(l.r, nil)
	var h hello
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	if err == nil && h.Protocol != protocol {
		err = fmt.Errorf("svcvault is of another version: install it and svcd from one release, and restart both")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	l.instance = h.Instance
	return l, nil
}

// dial connects. Where as many wait already as the machine lets, it tries again.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", c.socket)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, os.ErrDeadlineExceeded)
		case <-time.After(acceptPause):
		}
	}
}

// give gives a new instance of the vault the wrapped keys that the one before took, or has read them again, where
// another master key wraps them by now.
func (c *Client) give(ctx context.Context, l *line) error {
	c.mu.Lock()
	rows, by, renew := c.kept, c.by, c.renew
	c.mu.Unlock()
	if by == "" || by == l.instance {
		return nil
	}
	err := c.giveRows(ctx, l, rows)
	if errors.Is(err, ErrOtherMaster) && renew != nil {
		if rows, err = renew(ctx); err == nil {
			err = c.giveRows(ctx, l, rows)
		}
	}
	return err
}

func (c *Client) giveRows(ctx context.Context, l *line, rows []Row) error {
	kind, raw, err := l.exchange(ctx, "keep", Keep{Rows: rows, Begins: true})
	if err != nil {
		return err
	}
	defer clear(raw)
	if kind != "" {
		var f failure
		if err := json.Unmarshal(raw, &f); err != nil {
			return err
		}
		return errorOf(kind, f)
	}
	c.keptBy(l, rows)
	return nil
}

// keptBy notes what the vault of a connection took.
func (c *Client) keptBy(l *line, rows []Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.by = rows, l.instance
}

// bound has a connection end with ctx. One that began to end is closed: or its next question would end instead.
func (l *line) bound(ctx context.Context) (end func()) {
	if at, ok := ctx.Deadline(); ok {
		_ = l.SetDeadline(at)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if !stop() {
			_ = l.Close()
		}
	}
}

// wait keeps a connection for the next question.
func (c *Client) wait(l *line) {
	select {
	case c.idle <- l:
	default:
		_ = l.Close()
	}
}

// exchange sends a question and reads the answer. The caller clears raw.
func (l *line) exchange(ctx context.Context, name string, q any) (kind string, raw []byte, err error) {
	defer l.bound(ctx)()
	if err := writeFrame(l, name, q); err != nil {
		return "", nil, fmt.Errorf("ask the vault: %w", err)
	}
	if kind, raw, err = readFrame(l.r, nil); err != nil {
		return "", nil, fmt.Errorf("read the answer of the vault: %w", err)
	}
	return kind, raw, nil
}
