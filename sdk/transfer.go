package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// outgoing is a request body that can be sent again.
type outgoing struct {
	kind   string // content type
	length int64
	open   func() io.Reader
	read   func()      // see [lease]; may be nil
	header http.Header // more headers; may be nil
	query  string      // of the address; "" = none

	sent, received reporter // of the request's body, and of the answer's
}

func jsonBody(raw []byte) outgoing {
	return outgoing{kind: "application/json", length: int64(len(raw)), open: func() io.Reader { return bytes.NewReader(raw) }}
}

// transfer sends a request with file content to a path on the MCP address, and gives the
// body of the answer to receive. When transfer returns, nothing reads the memory of the
// request's body any more. It sends the request once, with token; [Client.authorized]
// repeats.
func (c *Client) transfer(ctx context.Context, method, target string, token Secret, body outgoing, receive func(*http.Response, io.Reader) error) error {
	address, err := c.onService(target)
	if err != nil {
		return err
	}
	if body.query != "" {
		address += "?" + body.query
	}
	wait := answerTimes * c.cfg.Timeout
	if method == http.MethodGet {
		wait = stallTimes * c.cfg.Timeout
	}
	ctx, pace, stop := c.paced(ctx, wait)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return malformed(fmt.Errorf("transfer address %s is not a path on the service", quote(target)))
	}
	for k, v := range c.bearer(token) {
		req.Header[k] = v
	}
	for k, v := range body.header {
		req.Header[k] = v
	}
	if body.open != nil {
		memory := &lease{pace: pace, read: body.read}
		defer memory.end()
		open := func() io.ReadCloser { return memory.body(body.open, newMeter(body.sent, body.length)) }
		req.Body, req.ContentLength = open(), body.length
		req.GetBody = func() (io.ReadCloser, error) { return open(), nil }
		req.Header.Set("Content-Type", body.kind)
	}
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	pace.enter(receiving)
	return receive(resp, &pacedReader{ctx, resp.Body, pace, newMeter(body.received, resp.ContentLength)})
}

// onService returns the address of a path that the service named. It refuses anything but a
// path on the MCP address: a ticket must not lead elsewhere.
func (c *Client) onService(target string) (string, error) {
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\?#\r\n") || strings.Contains(target, "/../") {
		return "", malformed(fmt.Errorf("transfer address %s is not a path on the service", quote(target)))
	}
	return c.cfg.MCPURL + target, nil
}

// base64Reader encodes src while it is read.
type base64Reader struct {
	src     []byte
	pending []byte
	chunk   [64 << 10]byte
}

func (r *base64Reader) Read(p []byte) (int, error) {
	if len(r.pending) == 0 {
		if len(r.src) == 0 {
			return 0, io.EOF
		}
		n := min(len(r.src), len(r.chunk)/4*3)
		base64.StdEncoding.Encode(r.chunk[:], r.src[:n])
		r.pending = r.chunk[:base64.StdEncoding.EncodedLen(n)]
		r.src = r.src[n:]
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}
