package content

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Errors of this package. Others are those of an [Origin] and of a context.
var (
	// ErrTaken means that the key of recorded content was taken away from this account.
	ErrTaken = errors.New("the key of this file is no longer available to this account")
	// ErrEnded means that the file shows other content, or none, by now: who reads looks again.
	ErrEnded = errors.New("the open file ended")
)

// NoRoom is the error of content for which there is no memory, or no disk that works. What it was to change is as it
// was.
type NoRoom struct{ Err error }

// Error says what is full.
func (e *NoRoom) Error() string { return e.Err.Error() }

// Unwrap returns the cause, such as [staging.Full] and [staging.ErrSpool].
func (e *NoRoom) Unwrap() error { return e.Err }

// noRoom wraps an error of memory or disk; nil stays nil.
func noRoom(err error) error {
	if err == nil {
		return nil
	}
	return &NoRoom{err}
}

// Damaged is the error of bytes that are not as long as what was recorded.
type Damaged struct{ error }

// Options are the limits of a [Store].
type Options struct {
	CacheBytes int64           // budget of decrypted recorded content
	Staging    staging.Options // of content that programs change; its pool is that of all contents
	Reopen     time.Duration   // how long content in blocks stays open after programs closed it; negative = not at all
	// Line and Wait are those of [blocks.Memory].
	Line func() int64
	Wait func(ctx context.Context, bytes int64, take func(context.Context, int64) error) error
	// Guard does work in a goroutine of the cache: a panic becomes an error.
	Guard func(work func() error) error
}

// Store is what the contents of all files share. It is safe for concurrent use.
type Store struct {
	Cache   *cache.Store   // of recorded content
	Pool    *mem.Pool      // memory of all content
	Staging *staging.Store // of stages
	opt     Options
	reading blocks.Memory

	mu     sync.Mutex
	closed []closed // content in blocks that programs closed a moment ago, oldest first
}

// closed is content that stays open for a while.
type closed struct {
	lease *cache.Lease
	bytes int64 // it occupies
}

const (
	// AheadShare is the part of the cache that all readers together may fill ahead.
	AheadShare = 4
	// MostReopened is how many files stay open after programs closed them.
	MostReopened = 64
	// MostReopenedBytes bounds what they occupy but for the last one, in bytes.
	MostReopenedBytes = format.MaxManifestBytes
)

// NewStore returns a store without contents. The caller closes its cache.
func NewStore(o Options) *Store {
	s := &Store{Cache: cache.New(o.CacheBytes), Pool: o.Staging.Pool, Staging: staging.NewStore(o.Staging), opt: o}
	s.reading = blocks.Memory{Store: s.Cache, Ahead: o.CacheBytes / AheadShare, Line: o.Line, Wait: o.Wait}
	return s
}

// AheadNow returns how many bytes were fetched ahead of readers and not read yet.
func (s *Store) AheadNow() int64 { return s.reading.AheadNow() }

// StartAhead is [blocks.Memory.StartAhead].
func (s *Store) StartAhead() int64 { return s.reading.StartAhead() }

// KeyOf names the content of e in the cache.
func KeyOf(e *sdk.Entry) cache.Key { return cache.Key{Group: string(e.Group), Ref: string(e.Ref)} }

// IsCut reports whether e is a file of format version 2.
func IsCut(e *sdk.Entry) bool { return e.Content != (sdk.Digest{}) }

// Rename keeps in memory what is there of a version that is recorded now, and had another reference while it waited.
// Content that is whole has BlockBytes 0.
func (s *Store) Rename(was, now *sdk.Entry, l format.Layout) {
	from, to := KeyOf(was), KeyOf(now)
	s.Cache.Move(from, to)
	if l.BlockBytes == 0 {
		return
	}
	for i := range l.Blocks() {
		s.Cache.Move(from.BlockOf(i, l.BlockBytes), to.BlockOf(i, l.BlockBytes))
	}
}

// keep releases a lease in a while, or when there are too many: many open a file twice, and pay once.
func (s *Store) keep(lease *cache.Lease, bytes int64) {
	if s.opt.Reopen < 0 {
		lease.Release()
		return
	}
	s.mu.Lock()
	s.closed = append(s.closed, closed{lease, bytes})
	var held int64
	for _, c := range s.closed {
		held += c.bytes
	}
	n := 0 // of the oldest
	for ; n < len(s.closed)-1 && (len(s.closed)-n > MostReopened || held > MostReopenedBytes); n++ {
		held -= s.closed[n].bytes
	}
	over := slices.Clone(s.closed[:n])
	s.closed = slices.Delete(s.closed, 0, n)
	s.mu.Unlock()
	for _, c := range over {
		c.lease.Release()
	}
	time.AfterFunc(s.opt.Reopen, func() {
		s.mu.Lock()
		s.closed = slices.DeleteFunc(s.closed, func(c closed) bool { return c.lease == lease })
		s.mu.Unlock()
		lease.Release()
	})
}
