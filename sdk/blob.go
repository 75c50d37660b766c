package sdk

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/svcfs/svcfs/format"
)

// blob is content that is sealed in place while it is sent: ciphertext and tag in
// the content's memory, the nonce beside it, so that the large part is not moved.
type blob struct {
	key   *format.Key
	nonce [format.NonceBytes]byte
	tag   [format.TagBytes]byte

	mu      sync.Mutex
	mem     []byte // ciphertext and tag; the content while plain
	plain   bool
	err     error // the content is lost
	readers int   // made so far
}

// seal encrypts content in place. The caller must call restore in the end.
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

// restore makes the memory the content again. Nobody may read from a reader any
// more.
func (b *blob) restore() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open()
}

// restoreAhead is restore beside what the service still does with a blob that it
// has received, unless it is to be sent once more before that began. Nobody may read
// from the readers there are.
func (b *blob) restoreAhead() {
	b.mu.Lock()
	made := b.readers
	b.mu.Unlock()
	go func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.readers == made {
			_ = b.open() // who asks in the end is told
		}
	}()
}

// open needs mu.
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

// reader returns the whole blob, sealed again where it has to be sent once more.
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
