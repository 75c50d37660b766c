package legacy

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ipfs/go-cid"
)

const (
	dialTimeout = 5 * time.Second
	// answerTimeout is how long a gateway may look for a file.
	answerTimeout = 30 * time.Second
)

// ErrNotThere means that the gateway does not have the file.
var ErrNotThere = errors.New("the gateway does not have the file")

// Gateway fetches files by content id from the one address that the operator gave. It
// follows no redirect and sends no credentials. Its answers are not trusted: the reader
// bounds each and checks it with a [Verifier].
type Gateway struct {
	base   string
	client *http.Client
}

// NewGateway returns the gateway at an address like https://HOST/ipfs/.
func NewGateway(address string) (*Gateway, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New("gateway: want an address like https://HOST/ipfs/, without credentials")
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  answerTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true, // the id names the uncompressed bytes
	}
	return &Gateway{base: strings.TrimRight(u.String(), "/") + "/", client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Close closes the connections.
func (g *Gateway) Close() { g.client.CloseIdleConnections() }

// Open requests a file; the caller closes it. ErrNotThere means that the gateway does
// not have it; any other error may be an outage.
func (g *Gateway) Open(ctx context.Context, id cid.Cid) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.base+id.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask gateway: %w", err)
	}
	req.Header.Set("Accept", "application/octet-stream")
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask gateway: %w", err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.Body, nil
	case http.StatusNotFound, http.StatusGone:
		err = ErrNotThere
	default:
		err = fmt.Errorf("ask gateway: it answers %s; redirects are not followed", resp.Status)
	}
	return nil, errors.Join(err, resp.Body.Close())
}

// sniffed is how many bytes show whether a file is base64: the shortest blob, 28 bytes,
// is 40 characters.
const sniffed = 40

// Decoded returns the blob in r: as it is, or decoded if it was stored as standard
// base64. Ciphertext looks like base64 by chance once in 10^24.
func Decoded(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	head, err := b.Peek(sniffed)
	if err != nil || strings.Trim(string(head),
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") != "" {
		return b
	}
	return base64.NewDecoder(base64.StdEncoding, b)
}
