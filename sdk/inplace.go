package sdk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/svcfs/svcfs/format"
)

// A file is sealed in its buffer, sent from there, and opened there again while the service
// works. BenchmarkWrite measured this with 256 MiB on two busy cores, both builds in turns.
// Sealing into a second buffer takes 529 MiB instead of 273, and at least a tenth longer.
// Opening after the answer takes 1.03 s instead of 0.76 s at best, and 1.26 s instead of
// 1.19 s in the median of six runs.

// blob is content that is sealed in place while it is sent. The memory of the content holds
// ciphertext and tag; the nonce is beside it, so that the large part does not move.
type blob struct {
	key   *format.Key
	nonce [format.NonceBytes]byte
	tag   [format.TagBytes]byte

	mu      sync.Mutex
	mem     []byte // ciphertext and tag, or the content if plain
	plain   bool
	err     error // why the content is lost
	readers int   // how many reader has made
}

// seal encrypts content in place. The caller must call restore at the end.
func seal(key *format.Key, content []byte) (*blob, error) {
	b := &blob{key: key}
	nonce, sealed, err := format.Seal(key, content)
	if err != nil {
		return nil, err
	}
	b.nonce, b.mem = nonce, sealed
	copy(b.tag[:], sealed[len(content):])
	return b, nil
}

func (b *blob) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.plain {
		return int64(len(b.mem)) + format.Overhead
	}
	return int64(len(b.mem)) + format.NonceBytes
}

// restore decrypts the memory in place. No reader may be read any more.
func (b *blob) restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open()
}

// restoreAhead decrypts in the background while the service works, unless a repeated
// request has asked for a new reader first. The readers made so far may not be read any
// more.
func (b *blob) restoreAhead() {
	b.mu.Lock()
	made := b.readers
	b.mu.Unlock()
	go func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.readers == made {
			_ = b.open() // restore returns the error
		}
	}()
}

// open decrypts the memory in place. The caller holds mu.
func (b *blob) open() error {
	if b.plain || b.err != nil {
		return b.err
	}
	content, err := format.Open(b.key, b.nonce[:], b.mem)
	if err != nil {
		b.err = err
		return err
	}
	b.mem, b.plain = content, true
	return nil
}

// reader returns a reader of the whole blob. If the memory is plain, reader seals it again.
func (b *blob) reader() io.Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers++
	if b.plain {
		sealed, err := format.Reseal(b.key, b.nonce[:], b.tag[:], b.mem)
		if err != nil {
			return failingReader{fmt.Errorf("send again: %w", err)}
		}
		b.mem, b.plain = sealed, false
	}
	if b.err != nil {
		return failingReader{b.err}
	}
	return io.MultiReader(bytes.NewReader(b.nonce[:]), bytes.NewReader(b.mem))
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// errEnded is what net/http reads after the end of a lease. No caller sees it.
var errEnded = errors.New("the request has ended")

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
		return 0, errEnded
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
