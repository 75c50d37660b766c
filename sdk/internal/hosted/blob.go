package hosted

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
)

// A file is sealed in its buffer, sent from there, and opened there again while the service
// works. BenchmarkWrite measured this with 256 MiB on two busy cores, both builds in turns.
// Sealing into a second buffer takes 529 MiB instead of 273, and at least a tenth longer.
// Opening after the answer takes 1.03 s instead of 0.76 s at best, and 1.26 s instead of
// 1.19 s in the median of six runs.

// Blob is content that is sealed in place while it is sent. The memory of the content holds
// ciphertext and tag; the nonce is beside it, so that the large part does not move.
type Blob struct {
	key   *format.Key
	nonce [format.NonceBytes]byte
	tag   [format.TagBytes]byte

	mu      sync.Mutex
	mem     []byte // ciphertext and tag, or the content if plain
	plain   bool
	err     error // why the content is lost
	readers int   // how many Reader has made
}

// Seal encrypts content in place. The caller must call Restore at the end.
func Seal(key *format.Key, content []byte) (*Blob, error) {
	b := &Blob{key: key}
	nonce, sealed, err := format.Seal(key, content)
	if err != nil {
		return nil, err
	}
	b.nonce, b.mem = nonce, sealed
	copy(b.tag[:], sealed[len(content):])
	return b, nil
}

// Size returns the size of the whole blob, in bytes.
func (b *Blob) Size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.plain {
		return int64(len(b.mem)) + format.Overhead
	}
	return int64(len(b.mem)) + format.NonceBytes
}

// Restore decrypts the memory in place. No reader may be read any more.
func (b *Blob) Restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open()
}

// RestoreAhead decrypts in the background while the service works, unless a repeated
// request has asked for a new reader first. The readers made so far may not be read any
// more.
func (b *Blob) RestoreAhead() {
	b.mu.Lock()
	made := b.readers
	b.mu.Unlock()
	go func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.readers == made {
			_ = b.open() // Restore returns the error
		}
	}()
}

// open decrypts the memory in place. The caller holds mu.
func (b *Blob) open() error {
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

// Reader returns a reader of the whole blob. If the memory is plain, Reader seals it again.
func (b *Blob) Reader() io.Reader {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers++
	if b.plain {
		sealed, err := format.Reseal(b.key, b.nonce[:], b.tag[:], b.mem)
		if err != nil {
			return call.FailingReader{Err: fmt.Errorf("send again: %w", err)}
		}
		b.mem, b.plain = sealed, false
	}
	if b.err != nil {
		return call.FailingReader{Err: b.err}
	}
	return io.MultiReader(bytes.NewReader(b.nonce[:]), bytes.NewReader(b.mem))
}
