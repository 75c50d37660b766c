package content

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
)

// A file of format version 2 is read block by block. Opening it fetches nothing: its lease is
// that of a Source, which lives in the cache like content does, so that all who open
// the file share one claim, and a purge ends it. The blocks lie in the cache each on its own.

// Blocks is an open file of format version 2, see [sdk.Blocks].
type Blocks interface {
	Layout() format.Layout
	Fee() sdk.Amount
	Footprint() int64 // memory that it occupies, in bytes
	Read(ctx context.Context, first int64, into []*mem.Buffer) error
	Close() error
}

// Origin is where the blocks of one version come from: it asks the service, pays, and remembers what was wrong.
type Origin interface {
	// Open has the service open the file, which costs one claim.
	Open(ctx context.Context, ahead ...int64) (Blocks, error)
	// Check returns why nothing may be fetched: what came was not what the ledger recorded. nil = it was.
	Check() error
	// Failed is told why blocks could not be read.
	Failed(err error)
	// Explain turns the error of a fetch into that of a read: [ErrTaken] for whoever may not read the file any more.
	Explain(ctx context.Context, err error) error
}

// Source is a file of format version 2 that is open. It is safe for concurrent use.
type Source struct {
	store  *Store
	origin Origin
	entry  *sdk.Entry
	key    cache.Key
	known  *Known // of the file that was opened first
	shape  *shape
	file   *blocks.File
	life   context.Context // ends when nothing may be fetched any more
	end    context.CancelFunc

	opening chan struct{} // one claim at a time
	mu      sync.Mutex
	blocks  Blocks // nil until the service was asked
	users   int    // requests under way
	gone    bool   // released
	// next is the same file as the service cuts it, where that is another way than shape told: the
	// content was saved here, and another client had recorded the same bytes. nil = as shape tells.
	next atomic.Pointer[Source]
}

// SourceBytes is the memory that counts for an open file, beside that of its [Blocks], in bytes.
const SourceBytes = 16 << 10

// Open opens e, whose bytes come from origin. It fetches nothing, and costs one claim: nothing where all blocks are in
// memory. opts say what the service may send with its answer. The result goes into the cache.
func (s *Store) Open(ctx context.Context, e *sdk.Entry, known *Known, origin Origin,
	ahead ...int64) (cache.Buffer, error) {
	if err := origin.Check(); err != nil {
		return nil, err
	}
	src := s.newSource(e, known, origin, known.shape.Load()) // also of an earlier open
	if known.hasAllBlocks(s, e) {
		return src, nil
	}
	blocks, err := origin.Open(ctx, ahead...)
	if err != nil {
		src.end()
		return nil, err
	}
	src.blocks = blocks
	if src.shape == nil || src.shape.key != src.key || src.shape.layout != blocks.Layout() {
		src.shape = &shape{key: src.key, layout: blocks.Layout()}
	}
	return src, nil
}

// newSource returns e as an open file, which asks the service when that is needed.
func (s *Store) newSource(e *sdk.Entry, known *Known, origin Origin, as *shape) *Source {
	src := &Source{store: s, origin: origin, entry: e, key: KeyOf(e), known: known, shape: as,
		opening: make(chan struct{}, 1)}
	src.file = &blocks.File{Memory: &s.reading, Key: src.key, Source: src, Passed: src.pass}
	src.life, src.end = context.WithCancel(context.Background())
	return src
}

// Bytes returns nothing: the content is in the blocks.
func (s *Source) Bytes() []byte { return nil }

// Footprint is the memory for layout, keys and parts.
func (s *Source) Footprint() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks == nil {
		return SourceBytes
	}
	return SourceBytes + s.blocks.Footprint()
}

// Release ends the requests under way, and wipes the keys after the last.
func (s *Source) Release() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.closeUnused()
	if next := s.next.Load(); next != nil {
		next.Release()
	}
}

// recut goes on with the file as the service cuts it, which blocks are.
func (s *Source) recut(blocks Blocks) {
	next := s.store.newSource(s.entry, s.known, s.origin, &shape{key: s.key, layout: blocks.Layout()})
	next.blocks = blocks
	s.known.shape.Store(next.shape)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.Store(next)
	if s.gone {
		next.Release()
	}
	s.end()
}

// latest returns the source that reads the file now.
func (s *Source) latest() *Source {
	if next := s.next.Load(); next != nil {
		return next
	}
	return s
}

// closeUnused needs Source.mu.
func (s *Source) closeUnused() {
	if s.life.Err() != nil && s.users == 0 && s.blocks != nil {
		_ = s.blocks.Close() // it only wipes
		s.blocks = nil
	}
}

// Layout says how the file is cut.
func (s *Source) Layout() format.Layout { return s.shape.layout }

// use returns the open file for a request. The caller calls done after the request.
func (s *Source) use(ctx context.Context) (blocks Blocks, done func(), err error) {
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	defer func() { <-s.opening }()
	s.mu.Lock()
	blocks = s.blocks
	s.users++ // it is not closed meanwhile
	s.mu.Unlock()
	done = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.users--
		s.closeUnused()
	}
	if s.life.Err() != nil {
		done()
		return nil, nil, ErrEnded
	}
	if blocks == nil { // what was in memory at open has left it
		if blocks, err = s.origin.Open(ctx); err != nil {
			done()
			return nil, nil, err
		}
		if l := blocks.Layout(); l != s.Layout() {
			s.recut(blocks)
			done()
			return nil, nil, ErrEnded
		}
		s.mu.Lock()
		s.blocks = blocks
		s.mu.Unlock()
	}
	return blocks, done, nil
}

// view returns at most len(p) bytes from off: those of one block as they lie in the cache, else
// a copy in p. It fetches blocks that are not in memory. r follows the reader; it may be nil.
func (s *Source) view(ctx context.Context, r *blocks.Reader, p []byte, off int64) (cache.View, error) {
	now := s.latest()
	v, err := now.file.View(ctx, r, p, off)
	if next := s.latest(); next != now && errors.Is(err, ErrEnded) {
		now = next
		v, err = now.file.View(ctx, r, p, off)
	}
	switch {
	case err == nil || errors.Is(err, ErrEnded):
		return v, err
	case errors.Is(err, cache.ErrPurged):
		return v, ErrTaken
	}
	return v, now.origin.Explain(ctx, err)
}

// Fetch fetches n blocks with one request.
func (s *Source) Fetch(ctx context.Context, first int64, n int) (got []cache.Buffer, err error) {
	err = s.store.opt.Guard(func() error { got, err = s.fetch(ctx, first, n); return err })
	return got, err
}

func (s *Source) fetch(ctx context.Context, first int64, n int) ([]cache.Buffer, error) {
	if err := s.origin.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	blocks, done, err := s.use(ctx)
	if err != nil {
		if s.life.Err() != nil { // which ends ctx, too
			return nil, ErrEnded
		}
		return nil, err
	}
	defer done()
	into := make([]*mem.Buffer, 0, n)
	got := make([]cache.Buffer, 0, n)
	drop := func() {
		for _, buf := range into {
			buf.Release()
		}
	}
	for range n {
		buf, err := s.store.Pool.Get(0)
		if err != nil {
			drop()
			return nil, noRoom(err)
		}
		into, got = append(into, buf), append(got, buf)
	}
	if err := blocks.Read(ctx, first, into); err != nil {
		drop()
		if s.life.Err() != nil {
			return nil, ErrEnded
		}
		s.origin.Failed(err)
		return nil, err
	}
	for i, buf := range into {
		if want := s.Layout().Plain(first + int64(i)); buf.Len() != want {
			drop()
			return nil, &Damaged{fmt.Errorf("block %d has %d bytes, want %d", first+int64(i), buf.Len(), want)}
		}
	}
	return got, nil
}
