package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
)

const (
	// slowestTransfer is the slowest transfer that is waited for, in bytes per
	// second.
	slowestTransfer = 16 << 10
	// transferPatience times Config.Timeout is how long a transfer may take to
	// move on, or to be answered once all is sent.
	transferPatience = 4
)

// errTooSlow ends a transfer that stands still.
var errTooSlow = fmt.Errorf("the transfer stands still: %w", context.DeadlineExceeded)

// pace watches a transfer: it may take as long as it needs, but it has to move.
type pace struct {
	timer    *time.Timer
	patience time.Duration
	outer    func() // of [WithPatience]; may be nil

	mu    sync.Mutex
	moved int64 // bytes since the timer was set
}

// paced returns a context that ends when nothing moves for patience. The caller must
// call stop.
func paced(ctx context.Context, patience time.Duration) (context.Context, *pace, func()) {
	outer, _ := ctx.Value(patienceKey{}).(func())
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pace{patience: patience, outer: outer}
	p.timer = time.AfterFunc(p.patience, func() { cancel(errTooSlow) })
	return ctx, p, func() { p.timer.Stop(); cancel(nil) }
}

// advance reports n bytes moved, or with ended the end of a phase.
func (p *pace) advance(n int, ended bool) {
	if p == nil {
		return
	}
	if p.outer != nil {
		p.outer()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved += int64(n)
	if ended || p.moved >= int64(p.patience.Seconds()*slowestTransfer) {
		p.moved = 0
		p.timer.Reset(p.patience)
	}
}

type patienceKey struct{}

// WithPatience returns a context for calls that are given up, as [ErrTimeout], once
// nothing has moved for d. A call that moves may take longer than d: a long list, or
// a large file. It only shortens what [Config].Timeout allows. Call cancel in the end.
func WithPatience(ctx context.Context, d time.Duration) (patient context.Context, cancel context.CancelFunc) {
	outer, _ := ctx.Value(patienceKey{}).(func())
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { end(errTooSlow) })
	patient = context.WithValue(ctx, patienceKey{}, func() {
		timer.Reset(d)
		if outer != nil {
			outer()
		}
	})
	return patient, func() { timer.Stop(); end(nil) }
}

// pacedReader reads the body of an answer.
type pacedReader struct {
	ctx  context.Context
	r    io.Reader
	pace *pace
	read *meter
}

// reporter is told how far a transfer is, see [Progress]; nil is told nothing.
type reporter func(done, total int64)

// progressFloor is the smallest body that is reported, in bytes.
const progressFloor = 64 << 10

// meter counts one body; nil counts nothing.
type meter struct {
	done, total int64
	report      reporter
}

func newMeter(report reporter, total int64) *meter {
	if report == nil || total >= 0 && total < progressFloor {
		return nil
	}
	return &meter{total: total, report: report}
}

func (m *meter) add(n int) {
	if m == nil || n == 0 {
		return
	}
	m.done += int64(n)
	m.report(m.done, m.total)
}

func (r *pacedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.pace.advance(n, false)
	r.read.add(n)
	if err != nil && err != io.EOF {
		err = whyEnded(r.ctx, err)
	}
	return n, err
}

// whyEnded prefers the reason for ending a request over its consequence.
func whyEnded(ctx context.Context, err error) error {
	if context.Cause(ctx) == ctx.Err() { // also when it has not ended
		return err
	}
	return ended(ctx)
}

// ended is the error of a context that has ended. A cause that the caller gave is text
// in it and no more: it may be the error of another call, whose kind is not of this one.
func ended(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if cause == errTooSlow || cause == err {
		return cause
	}
	return fmt.Errorf("%w: %v", err, cause)
}

// outgoing is a request body that can be produced again.
type outgoing struct {
	kind   string // content type
	length int64
	open   func() io.Reader
	read   func() // see [lease]; may be nil

	sent, received reporter // of the request's body, and of the answer's
}

func jsonBody(raw []byte) outgoing {
	return outgoing{kind: "application/json", length: int64(len(raw)), open: func() io.Reader { return bytes.NewReader(raw) }}
}

// transfer sends a request that carries file content to a path on the MCP
// address, and hands the answer's body to receive. When it returns, nothing
// reads the body's memory any more. token is one try: see [Client.authorized].
func (c *Client) transfer(ctx context.Context, method, target string, token Secret, body outgoing, receive func(*http.Response, io.Reader) error) error {
	address, err := c.onService(target)
	if err != nil {
		return err
	}
	ctx, pace, stop := paced(ctx, transferPatience*c.cfg.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return malformed(fmt.Errorf("transfer address %s is not a path on the service", quote(target)))
	}
	for k, v := range c.bearer(token) {
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
	pace.advance(0, true)
	return receive(resp, &pacedReader{ctx, resp.Body, pace, newMeter(body.received, resp.ContentLength)})
}

// onService resolves a path that the service named. Only a path on the MCP
// address is accepted: a ticket must not lead elsewhere.
func (c *Client) onService(target string) (string, error) {
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\?#\r\n") || strings.Contains(target, "/../") {
		return "", malformed(fmt.Errorf("transfer address %s is not a path on the service", quote(target)))
	}
	return c.cfg.MCPURL + target, nil
}

// base64Reader encodes src as it is read.
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

// blobSink takes the parts of a blob as they arrive: the nonce, then the rest
// straight into a buffer, which grows with it.
type blobSink struct {
	nonce [format.NonceBytes]byte
	buf   *mem.Buffer
	limit int64 // of the sealed bytes
	// recorded: the limit is what a file of the size in the ledger can have.
	recorded bool
	report   reporter

	text []byte // base64 that does not make a whole group yet
	have int    // bytes of the nonce
	end  bool   // padding was seen
}

func (s *blobSink) reset() error {
	*s = blobSink{buf: s.buf, limit: s.limit, recorded: s.recorded, report: s.report, text: s.text[:0]}
	return s.buf.Resize(0)
}

// room returns n more bytes at the end of the buffer.
func (s *blobSink) room(n int) ([]byte, error) {
	old := s.buf.Len()
	switch {
	case old+int64(n) <= s.limit:
	case s.recorded:
		return nil, malformed(fmt.Errorf("encrypted data of more than %d bytes, which the recorded size excludes", s.limit))
	default:
		return nil, fmt.Errorf("encrypted data of more than %d bytes: %w", s.limit, format.ErrTooLarge)
	}
	if err := s.buf.Resize(old + int64(n)); err != nil {
		return nil, err
	}
	return s.buf.Bytes()[old:], nil
}

var errNotBase64 = errors.New("encrypted data is not base64")

// decode takes a piece of strict base64 text of any length.
func (s *blobSink) decode(piece []byte) error {
	if len(s.text) > 0 {
		n := min(4-len(s.text), len(piece))
		s.text = append(s.text, piece[:n]...)
		piece = piece[n:]
		if len(s.text) < 4 {
			return nil
		}
		if err := s.groups(s.text); err != nil {
			return err
		}
		s.text = s.text[:0]
	}
	whole := len(piece) / 4 * 4
	s.text = append(s.text, piece[whole:]...)
	if s.have < len(s.nonce) {
		first := min(whole, (len(s.nonce)-s.have)/3*4)
		if err := s.groups(piece[:first]); err != nil {
			return err
		}
		piece, whole = piece[first:], whole-first
	}
	return s.groups(piece[:whole])
}

// groups decodes whole groups of four that lie entirely in the nonce or behind.
func (s *blobSink) groups(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if s.end || bytes.ContainsAny(text, "\r\n") {
		return malformed(errNotBase64)
	}
	s.end = text[len(text)-1] == '='
	into := s.nonce[s.have:]
	if s.have == len(s.nonce) {
		var err error
		if into, err = s.room(base64.StdEncoding.DecodedLen(len(text))); err != nil {
			return err
		}
	}
	n, err := base64.StdEncoding.Strict().Decode(into, text)
	if err != nil {
		return malformed(errNotBase64)
	}
	if s.have < len(s.nonce) {
		s.have += n
		return nil
	}
	return s.buf.Resize(s.buf.Len() - int64(len(into)-n))
}

// finish checks that a whole blob arrived.
func (s *blobSink) finish() error {
	if len(s.text) > 0 {
		return malformed(errNotBase64)
	}
	if s.have < len(s.nonce) || s.buf.Len() < format.TagBytes {
		return malformed(errors.New("encrypted data is missing, or too short to be any"))
	}
	return nil
}

// read takes a raw transfer of exactly size bytes.
func (s *blobSink) read(r io.Reader, size int64) error {
	if err := fill(s.nonce[:], r); err != nil {
		return err
	}
	s.have = len(s.nonce)
	for rest := size - format.NonceBytes; rest > 0; {
		// Memory is taken as bytes arrive, whatever was announced.
		into, err := s.room(int(min(rest, max(firstChunk, s.buf.Len()))))
		if err != nil {
			return err
		}
		if err := fill(into, r); err != nil {
			return err
		}
		rest -= int64(len(into))
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n != 0 {
		return malformed(errors.New("more data than announced"))
	}
	return nil
}

// fill reads exactly len(p) bytes. A body that was sent whole and is too short
// is malformed; one that broke off is not, and may be asked for again.
func fill(p []byte, r io.Reader) error {
	for len(p) > 0 {
		n, err := r.Read(p)
		p = p[n:]
		if err == io.EOF && len(p) > 0 {
			return malformed(errors.New("less data than announced"))
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}
