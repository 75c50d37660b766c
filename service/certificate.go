package service

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// certificateAge is how often the files are checked, at most.
const certificateAge = time.Second

// maxKeyBytes bounds the file of a certificate's key, in bytes.
const maxKeyBytes = 1 << 20

// certificate is a certificate with its key, read again when the files change.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  [2]time.Time // of the files that were read
	looked time.Time
}

func loadCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads the files.
func (c *certificate) load() error {
	stamp, err := c.stamps()
	if err != nil {
		return fmt.Errorf("look at TLS certificate: %w", err)
	}
	chain, err := os.ReadFile(c.cert)
	if err != nil {
		return fmt.Errorf("load TLS certificate: %w", err)
	}
	key, err := ownfile.Read(c.key, ownfile.Managed, maxKeyBytes)
	if err != nil {
		return fmt.Errorf("load TLS key: %w", err)
	}
	defer clear(key)
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("load TLS certificate: %w", err)
	}
	c.pair, c.stamp, c.looked = &pair, stamp, time.Now()
	return nil
}

func (c *certificate) stamps() (stamp [2]time.Time, err error) {
	cert, err1 := os.Stat(c.cert)
	key, err2 := os.Stat(c.key)
	if err := errors.Join(err1, err2); err != nil {
		return stamp, err
	}
	return [2]time.Time{cert.ModTime(), key.ModTime()}, nil
}

// get is the TLS server's GetCertificate. A pair that cannot be read, or is half
// replaced, leaves the one before in use.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificateAge {
		return c.pair, nil
	}
	c.looked = time.Now()
	if stamp, err := c.stamps(); err == nil && stamp == c.stamp {
		return c.pair, nil
	}
	if err := c.load(); err != nil {
		c.log.Error("certificate not replaced", "cause", err.Error(), "do", ownfile.MendOf(err))
		return c.pair, nil
	}
	c.log.Info("certificate replaced")
	return c.pair, nil
}

// forget makes the next connection read the files again.
func (c *certificate) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked, c.stamp = time.Time{}, [2]time.Time{}
}
