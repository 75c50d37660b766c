// Package blob keeps ciphertext: blobs that are written once under random names
// and never changed, in a directory or in an S3 bucket.
package blob

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

var (
	// ErrFull means that the disk, the bucket or the quota has no room.
	ErrFull = errors.New("no room for the file")
	// ErrTooLarge means that more bytes came than were allowed.
	ErrTooLarge = errors.New("more bytes than allowed")
	// ErrSize means that a blob does not have the size it should have.
	ErrSize = errors.New("the blob has another size")
	// ErrUnavailable means that the store does not answer, or refuses a normal request.
	// The state of the blob is unknown; the same call may succeed later.
	ErrUnavailable = errors.New("blob store unavailable")
)

// Info describes one stored blob.
type Info struct {
	ID   string            // 32 hex digits, made here
	Size int64             // bytes
	Sum  [sha256.Size]byte // SHA-256; zero after PutProved
}

// Store keeps blobs. Both kinds pass the suite in suite_test.go. It is safe for
// concurrent use, also by several processes over one directory or bucket.
type Store interface {
	// Put stores the bytes of r, at most limit, under a new name. When it returns, the
	// blob is as durable as the store makes it. After an error nothing is left, or only
	// leftovers without a name, which Sweep removes. An error of r is returned
	// unchanged.
	Put(ctx context.Context, r io.Reader, limit int64) (Info, error)
	// PutProved is Put of bytes that the caller proves by hashes of its own: Sum stays
	// zero. An [io.WriterTo] may write to the store itself.
	PutProved(ctx context.Context, r io.Reader, limit int64) (Info, error)
	// PutMemory bounds the memory of a Put of so many bytes; -1 is an unknown size.
	PutMemory(size int64) int64
	// Open opens a blob for reading until ctx ends; the caller closes it. A
	// missing one is fs.ErrNotExist.
	Open(ctx context.Context, id string) (io.ReadSeekCloser, int64, error)
	// Read returns a whole blob, with one request less than Open. A missing blob is
	// fs.ErrNotExist, a blob of another size ErrSize.
	Read(ctx context.Context, id string, size int64) ([]byte, error)
	// Delete removes a blob; a missing blob is no error.
	Delete(ctx context.Context, id string) error
	// List calls visit with every blob older than age, and its size in bytes.
	List(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error
	// Sweep removes the leftovers of interrupted Puts and calls visit with every blob
	// older than age that was stored under the mark of this store, and its size in bytes.
	Sweep(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error
	// Check reports whether the store can be used now.
	Check(ctx context.Context) error
	// Where names the place of a blob for an operator.
	Where(id string) string
	Close() error
}

// Open opens the store at location: a directory, which it makes, or
// s3://BUCKET[/PREFIX]?endpoint=…, see [OpenS3]. mark, of [NewMark], ends the ids of new blobs. Sweep shows no other
// blob: another service may have stored it here.
func Open(ctx context.Context, location, mark string) (Store, error) {
	if strings.HasPrefix(location, s3Scheme) {
		return OpenS3(ctx, location, mark)
	}
	if scheme, _, ok := strings.Cut(location, "://"); ok {
		return nil, fmt.Errorf("blob store %q: want a directory or s3://BUCKET", scheme+"://…")
	}
	return OpenDir(location, mark)
}

// atMost is a size, or the most when it is larger or not known.
func atMost(size, most int64) int64 {
	if size < 0 {
		return most
	}
	return min(size, most)
}

// NewMark returns a mark that no other service has. It leaves 80 random bits of an id.
func NewMark() string { return newID("")[:12] }

func newID(mark string) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])[len(mark):] + mark
}

// checkID accepts only names this package makes.
func checkID(id string) error {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 || strings.ToLower(id) != id {
		return fmt.Errorf("blob id of %d characters: want 32 hex digits", len(id))
	}
	return nil
}

// place is the path of a blob below the directory or prefix. It is the same in both, so
// that one can be copied to the other file by file.
func place(id string) string { return path.Join(id[:2], id) }

// contextReader ends with its context and remembers the error of its source.
type contextReader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		c.err = err
		return 0, err
	}
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
