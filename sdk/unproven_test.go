package sdk

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
)

// unproven is a service whose connections a network takes over.
type unproven struct {
	*httptest.Server
	isTaken  atomic.Bool
	taken    chan struct{} // one for each connection that was
	requests atomic.Int64
}

// selfSigned returns a certificate that nobody trusts.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"portal.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// newUnproven returns a service, and a client that trusts its certificate alone.
func newUnproven(t *testing.T, config Config) (*unproven, *Client) {
	t.Helper()
	u := &unproven{taken: make(chan struct{}, 1000)}
	other := selfSigned(t)
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		u.requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	u.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if !u.isTaken.Load() {
			return nil, nil
		}
		u.taken <- struct{}{}
		return &tls.Config{Certificates: []tls.Certificate{other}}, nil
	}}
	u.Config.ErrorLog = log.New(io.Discard, "", 0)
	u.StartTLS()
	t.Cleanup(u.Close)
	roots := x509.NewCertPool()
	roots.AddCert(u.Certificate())
	config.URL = u.URL
	config.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	c, err := New("alice.svc.testnet", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return u, c
}

// E7: a network that wants a sign-in takes over connections to the service: it cannot prove to be the
// service. It gets no request, and the error says what may be the cause.
func TestE7CertificateOfANetwork(t *testing.T) {
	t.Parallel()
	u, c := newUnproven(t, Config{})
	u.isTaken.Store(true)
	err := c.Health(t.Context())
	var own *Error
	if !errors.As(err, &own) || own.Kind != ErrUnavailable || own.Code != wire.CodeCertificate {
		t.Fatalf("%v", err)
	}
	if text := err.Error(); !strings.Contains(text, "a network that wants a sign-in") || !strings.Contains(text, "certificate") {
		t.Errorf("it says %q", text)
	}
	if u.requests.Load() > 0 {
		t.Error("the network got a request")
	}
	u.isTaken.Store(false)
	if err := c.Health(t.Context()); err != nil {
		t.Errorf("after the sign-in: %v", err)
	}
}

// E5, E7: a call that waits for the service goes on by itself after the sign-in. Nothing was sent
// before, so that what must not be sent twice goes on, too.
func TestE7CertificateIsWaitedFor(t *testing.T) {
	t.Parallel()
	u, c := newUnproven(t, Config{Patience: time.Minute})
	u.isTaken.Store(true)
	ended := make(chan error, 1)
	ctx := call.Bridging(t.Context())
	go func() {
		ended <- c.Health(ctx)
	}()
	for range 2 {
		select {
		case <-u.taken:
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		}
	}
	if state := c.Connection(); state != network.Reconnecting {
		t.Errorf("the state is %v", state)
	}
	u.isTaken.Store(false)
	if err := <-ended; err != nil || u.requests.Load() != 1 {
		t.Errorf("%d requests, %v", u.requests.Load(), err)
	}
}

// E7: a network may also answer without TLS where the service speaks it.
func TestE7NoTLSAtAll(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(h.Close)
	c, err := New("alice.svc.testnet", Config{URL: strings.Replace(h.URL, "http:", "https:", 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	err = c.Health(t.Context())
	var own *Error
	if !errors.As(err, &own) || own.Kind != ErrUnavailable || own.Code != wire.CodeCertificate || !strings.Contains(err.Error(), "a network that wants a sign-in") {
		t.Errorf("%v", err)
	}
}
