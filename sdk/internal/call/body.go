package call

import (
	"errors"
	"io"
	"sync"
)

// ErrEnded is what net/http reads after the end of a lease. No caller sees it.
var ErrEnded = errors.New("the request has ended")

// lease limits how long net/http may read the memory of a request's body. net/http may go
// on reading after it has returned (see http.RoundTripper), when the memory holds plaintext
// again. After the end of the lease, no read and no write to the network touches the
// memory. Only the newest body may be read.
type lease struct {
	mu     sync.Mutex
	newest int    // number of the newest body
	read   func() // called after a body was read to its end; the body is then revoked. Must not block; may be nil
	pace   *pace
	ended  bool
}

// body returns a request body that reads from the reader of open while the lease lasts. The
// body has no other method than Read and Close, so that net/http copies under the lock.
// body revokes the previous body first.
func (l *lease) body(open func() io.Reader, sent *meter) io.ReadCloser {
	l.mu.Lock()
	l.newest++
	b := &leased{lease: l, number: l.newest, sent: sent}
	l.mu.Unlock()
	b.r = open()
	return b
}

func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

type leased struct {
	lease  *lease
	number int
	r      io.Reader
	sent   *meter
}

func (b *leased) Read(p []byte) (int, error) {
	l := b.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || b.number != l.newest {
		return 0, ErrEnded
	}
	n, err := b.r.Read(p)
	l.pace.reading(n, err != nil)
	b.sent.add(n)
	if err == io.EOF && l.read != nil {
		l.newest++
		l.read()
	}
	return n, err
}

func (b *leased) Close() error { return nil }

// FailingReader is the body of a request that cannot be made.
type FailingReader struct{ Err error }

func (r FailingReader) Read([]byte) (int, error) { return 0, r.Err }
