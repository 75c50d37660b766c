package call

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// keptConnections is how many idle connections to one host stay open.
	keptConnections = 32
	// TransferBuffer is the size of the read buffer, and of the write buffer, of a
	// connection, in bytes.
	TransferBuffer = 64 << 10
	dialTimeout    = 10 * time.Second
	// heldDead is after which time a connection is dead whose other end acknowledges nothing, if the service holds a
	// call on it. Others have longer: what they carry is dear, and a line may come back. Only the kernel can tell.
	heldDead = 4 * time.Second
	// maxErrorBytes bounds the body of an answer that is not 2xx, or that does not count, in bytes.
	maxErrorBytes = 64 << 10
)

// heldDialer makes connections for calls that the service holds. While nothing else is on its way, the other end has to
// acknowledge probes.
func heldDialer() *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Control: endUnacked(heldDead),
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: heldDead / 2, Interval: heldDead / 4, Count: 2}}
}

// newTransport returns a transport of a caller without Config.Transport.
func newTransport(dialer *net.Dialer) http.RoundTripper {
	return &http.Transport{
		Proxy:                  proxyFor,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost:    keptConnections,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true, // so that the bounds of answers are bytes on the wire
		MaxResponseHeaderBytes: maxErrorBytes,
		ReadBufferSize:         TransferBuffer,
		WriteBufferSize:        TransferBuffer,
	}
}

// proxyFor returns the proxy of the environment. It returns none for loopback, and none for
// plain http, where the proxy would see the key.
func proxyFor(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" || IsLoopback(r.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// maxHeaderValue bounds the value of a header, in bytes.
const maxHeaderValue = 16 << 10

// FitsHeader reports whether s can be the value of a header. net/http would refuse other
// values later, with an obscure error.
func FitsHeader(s string) bool {
	return len(s) <= maxHeaderValue && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// authorize has a request be sent for the account. body is nil if it is read while it is sent.
func (c *Caller) authorize(req *http.Request, g grant, body []byte) {
	req.Header.Set("Authorization", "Bearer "+g.token.Reveal())
	req.Header.Set(wire.HeaderAccountID, c.cfg.Account)
	req.Header.Set(wire.HeaderWalletID, c.cfg.Account)
	if g.proof == nil {
		return
	}
	proven := wire.ProvenRequest{Method: req.Method, Target: req.URL.RequestURI(), Token: g.token.Reveal(),
		Time: g.issued.Add(time.Since(g.at)).UnixNano()}
	proven.Target = strings.TrimPrefix(proven.Target, c.base) // which a proxy may take off
	if req.Body == nil || body != nil {
		sum := sha256.Sum256(body)
		proven.Body = &sum
	}
	req.Header.Set(wire.HeaderProof, proven.Prove(*g.proof))
}

// onService returns the address of a path that the service named. It refuses anything but a
// path on the server of the operations: a ticket must not lead elsewhere.
func (c *Caller) onService(path string) (string, error) {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\?#\r\n") ||
		strings.Contains(path, "/../") {
		return "", notOnService(path)
	}
	return c.cfg.URL + path, nil
}

func notOnService(path string) error {
	return Malformed(fmt.Errorf("transfer address %.120q is not a path on the service", path))
}

// exchange sends one request, and has its answer read.
func (c *Caller) exchange(ctx context.Context, call *Call, address string, as grant) error {
	life, end := ctx, func() {}
	if call.Keep {
		var cancel context.CancelCauseFunc
		life, cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		end = func() { cancel(nil) }
	}
	c.noteSleep()
	life, pace, unpace := c.paced(life, c.waitFor(call))
	stop := func() { unpace(); end() }
	over := c.http
	if call.Held {
		over = c.held
		defer c.hold(pace)()
	}
	memory := lease{pace: pace}
	defer memory.end()
	req, err := c.newRequest(life, call, address, as, &memory)
	var resp *http.Response
	if err == nil {
		c.limitRequest(req, call.Body != nil)
		resp, err = c.send(over, req)
	}
	if err != nil {
		stop()
		return err
	}
	var arrived *meter
	if call.Body == nil {
		arrived = newMeter(call.Progress, resp.ContentLength)
	}
	if call.Long {
		pace.enter(receiving)
	} else {
		pace.advance(0, true)
		pace = nil // the answer ends with the wait, however it moves
	}
	body := resp.Body
	resp.Body = &answerBody{pacedReader{life, c.limitAnswer(life, resp, call.Long), pace, arrived}, func() error {
		stop() // ends a read, which Close would wait for
		return body.Close()
	}}
	if err = call.read(resp); err != nil || !call.Keep {
		_ = resp.Body.Close()
	}
	return err
}

// read has an answer read.
func (call *Call) read(resp *http.Response) error {
	if call.Answer != nil {
		return call.Answer(resp)
	}
	_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxErrorBytes))
	return err
}

// answerBody is the body of an answer, which may outlast its call.
type answerBody struct {
	pacedReader
	close func() error
}

// Close implements [io.Closer].
func (b *answerBody) Close() error { return b.close() }

// waitFor returns how long an answer may take to begin.
func (c *Caller) waitFor(call *Call) time.Duration {
	switch {
	case call.Wait > 0:
		return call.Wait
	case call.Body != nil:
		return AnswerTimes * c.cfg.Timeout
	case call.Long && call.Method == http.MethodGet:
		return stallTimes * c.cfg.Timeout
	default:
		return c.cfg.Timeout
	}
}

// newRequest makes the request of a call. Its body is read while the lease lasts.
func (c *Caller) newRequest(ctx context.Context, call *Call, address string, as grant,
	memory *lease) (*http.Request, error) {
	var document io.Reader
	var raw []byte
	if call.Request != nil {
		var err error
		if raw, err = json.Marshal(call.Request); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		document = bytes.NewReader(raw)
	}
	if call.Query != "" {
		address += "?" + call.Query
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(call.Method, http.MethodPost), address, document)
	if err != nil {
		return nil, notOnService(call.Path)
	}
	maps.Copy(req.Header, call.Header)
	if document != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if b := call.Body; b != nil {
		memory.read = b.Read
		open := func() io.ReadCloser { return memory.body(b.Open, newMeter(call.Progress, b.Length)) }
		req.Body, req.ContentLength = open(), b.Length
		req.GetBody = func() (io.ReadCloser, error) { return open(), nil }
		req.Header.Set("Content-Type", cmp.Or(b.Type, "application/octet-stream"))
	}
	if !as.token.IsZero() {
		c.authorize(req, as, raw)
	}
	return req, nil
}

// send sends a request. It returns a [*Refusal] for an answer that is not 2xx.
func (c *Caller) send(over *http.Client, req *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := over.Do(req)
	if err == nil {
		c.distance.note(time.Since(began))
	}
	if err == nil && isPage(resp) {
		_ = resp.Body.Close()
		err = ErrPage
	}
	if isUnproven(err) {
		err = fmt.Errorf("%w: %w", ErrUnproven, WithoutURL(err))
	}
	if err != nil {
		if err = whyEnded(req.Context(), err); IsLost(err) {
			c.outage.failed(time.Now())
		}
		if errors.Is(err, errTooSlow) { // by WithPatience
			c.closeIdle()
		}
		return nil, err
	}
	c.outage.over()
	c.traffic.answer(time.Now())
	network.Moved(req.Context())
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	refused := c.cfg.ReadError(resp, body)
	refused.RetryAfter, refused.Text = retryAfter(resp.Header), c.Scrub(refused.Text)
	return nil, refused
}

// isPage reports whether an answer is for people, or leads to one on another machine. A service at a new
// address would say that it moved for good.
func isPage(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch resp.StatusCode {
	case http.StatusNetworkAuthenticationRequired:
		return true
	case http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect:
		to, err := resp.Location()
		return err == nil && resp.Request != nil && to.Hostname() != resp.Request.URL.Hostname()
	case http.StatusUnauthorized, http.StatusForbidden: // the service refuses in JSON
	default:
		if resp.StatusCode/100 != 2 {
			return false
		}
	}
	return strings.EqualFold(strings.TrimSpace(kind), "text/html")
}
