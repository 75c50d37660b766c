package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
)

// A file of format version 2 is read block by block. Opening it fetches nothing: its lease is
// that of a blockSource, which lives in the cache like content does, so that all who open
// the file share one claim, and a purge ends it. The blocks lie in the cache each on its own.

// isCut reports whether e is a file of format version 2.
func isCut(e *sdk.Entry) bool { return e.Content != (sdk.Digest{}) }

// hasBlocks reports whether the committed content is of format version 2.
func (f *File) hasBlocks() bool {
	e := f.entry.Load()
	return e != nil && isCut(e)
}

// readsBlocks reports whether reads may have to fetch blocks.
func (f *File) readsBlocks() bool { return !f.isStaged() && f.hasBlocks() }

// shape is what stays known of an upload while it is not open.
type shape struct {
	ref    sdk.Ref
	layout format.Layout

	mu     sync.Mutex
	passed []int64 // blocks in memory that readers read in order, see pass; the last one last
}

// Who reads a film leaves the memory to others.
const (
	// passedBytes is how much memory the blocks of a file take that readers went through in order,
	// in bytes, of a file that is larger than its share of the cache.
	passedBytes = 32 << 20
	// aheadShare is the part of the cache that all readers together may fill ahead.
	aheadShare = 4
	// keptShare is the part of the cache that a file may have which is kept as a whole.
	keptShare = 2
)

// pass notes that a reader in order came to a block, and drops the block that was passed
// longest ago when there are too many.
func (s *blockSource) pass(i int64) {
	if s.Layout().Size <= s.t.cfg.CacheBytes/keptShare {
		return
	}
	most := int(max(1, passedBytes/mem.FootprintOf(s.Layout().BlockBytes)))
	oldest := int64(-1)
	s.shape.mu.Lock()
	passed := s.shape.passed
	if at := slices.Index(passed, i); at >= 0 {
		passed = slices.Delete(passed, at, at+1)
	} else if len(passed) >= most {
		oldest = passed[0]
		passed = slices.Delete(passed, 0, 1)
	}
	s.shape.passed = append(passed, i)
	s.shape.mu.Unlock()
	if oldest >= 0 {
		s.t.cache.Drop(s.file.BlockKey(oldest))
	}
}

// blockSource is a file of format version 2 that is open. It is safe for concurrent use.
type blockSource struct {
	t     *Tree
	f     *File // that was opened first, for messages
	entry *sdk.Entry
	key   cache.Key
	shape *shape
	file  *blocks.File
	life  context.Context // ends when nothing may be fetched any more
	end   context.CancelFunc

	opening gate // one claim at a time
	mu      sync.Mutex
	blocks  Blocks // nil until the service was asked
	users   int    // requests under way
	gone    bool   // released
	// next is the same file as the service cuts it, where that is another way than shape told: the
	// content was saved here, and another client had recorded the same bytes. nil = as shape tells.
	next atomic.Pointer[blockSource]
}

// sourceBytes is the memory that counts for an open file, in bytes.
const sourceBytes = 16 << 10

// errSourceEnded means that the file shows other content, or none, by now.
var errSourceEnded = errors.New("the open file ended")

// Bytes returns nothing: the content is in the blocks.
func (s *blockSource) Bytes() []byte { return nil }

// Footprint is the memory for layout and keys.
func (s *blockSource) Footprint() int64 { return sourceBytes }

// Release ends the requests under way, and wipes the keys after the last.
func (s *blockSource) Release() {
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
func (s *blockSource) recut(blocks Blocks) {
	next := s.f.newSource(s.entry, &shape{ref: s.entry.Ref, layout: blocks.Layout()})
	next.blocks = blocks
	s.f.shape.Store(next.shape)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.Store(next)
	if s.gone {
		next.Release()
	}
	s.end()
}

// latest returns the source that reads the file now.
func (s *blockSource) latest() *blockSource {
	if next := s.next.Load(); next != nil {
		return next
	}
	return s
}

// closeUnused needs blockSource.mu.
func (s *blockSource) closeUnused() {
	if s.life.Err() != nil && s.users == 0 && s.blocks != nil {
		_ = s.blocks.Close() // it only wipes
		s.blocks = nil
	}
}

// Layout says how the file is cut.
func (s *blockSource) Layout() format.Layout { return s.shape.layout }

// openBlocks opens e. It runs once for all openers that wait for it. Where all blocks are in
// memory, it costs nothing.
func (f *File) openBlocks(ctx context.Context, e *sdk.Entry, opts ...sdk.FromStart) (cache.Buffer, error) {
	if err := f.t.knownWrong(f.groupNow(), e.Ref); err != nil {
		return nil, err
	}
	s := f.newSource(e, f.shape.Load()) // also of an earlier open
	if f.hasAllBlocks(e) {
		return s, nil
	}
	blocks, err := s.claim(ctx, opts...)
	if err != nil {
		s.end()
		return nil, err
	}
	s.blocks = blocks
	if s.shape == nil || s.shape.ref != e.Ref || s.shape.layout != blocks.Layout() {
		s.shape = &shape{ref: e.Ref, layout: blocks.Layout()}
	}
	return s, nil
}

// newSource returns e as an open file, which asks the service when that is needed.
func (f *File) newSource(e *sdk.Entry, known *shape) *blockSource {
	s := &blockSource{t: f.t, f: f, entry: e, key: f.key(e), shape: known, opening: newGate()}
	s.file = &blocks.File{Memory: f.t.reading, Key: s.key, Source: s, Passed: s.pass}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// claim has the service open the file, which costs one claim.
func (s *blockSource) claim(ctx context.Context, opts ...sdk.FromStart) (blocks Blocks, err error) {
	t, g := s.t, s.f.groupNow()
	if t.blocks == nil {
		return nil, &Error{Class: ClassUnsupported,
			Err: errors.New("the file is of format version 2, which this service does not have")}
	}
	entry := s.entry
	if isWaiting(entry) {
		if blocks, entry, err = g.openWaiting(entry, nil); blocks != nil || err != nil {
			return blocks, err
		}
	}
	err = t.spent.Spend("retrieve", func() (sdk.Amount, error) {
		blocks, err = t.blocks.OpenBlocks(ctx, *entry, opts...)
		if err != nil {
			return sdk.Amount{}, err
		}
		return blocks.Fee(), nil
	})
	if err != nil {
		t.noteWrong(g, s.entry.Ref, err)
		return nil, err
	}
	if l := blocks.Layout(); l.BlockBytes < 1 || l.Size < 1 || s.entry.Size != sdk.SizeUnknown &&
		l.Size != s.entry.Size {
		_ = blocks.Close()
		return nil, &Error{Class: ClassCorrupt, Err: fmt.Errorf("the file has %d bytes in blocks of %d, and the "+
			"ledger recorded %d", l.Size, l.BlockBytes, s.entry.Size)}
	}
	t.counts.retrieves.Add(1)
	t.mu.Lock()
	g.memberAt = t.now()
	t.mu.Unlock()
	return blocks, nil
}

// use returns the open file for a request. The caller calls done after the request.
func (s *blockSource) use(ctx context.Context) (blocks Blocks, done func(), err error) {
	if err := s.opening.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer s.opening.leave()
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
		return nil, nil, errSourceEnded
	}
	if blocks == nil { // what was in memory at open has left it
		if blocks, err = s.claim(ctx); err != nil {
			done()
			return nil, nil, err
		}
		if l := blocks.Layout(); l != s.Layout() {
			s.recut(blocks)
			done()
			return nil, nil, errSourceEnded
		}
		s.mu.Lock()
		s.blocks = blocks
		s.mu.Unlock()
	}
	return blocks, done, nil
}

const (
	// reopenTime is how long a file stays open at the service after programs closed it: many
	// open a file twice, and pay once.
	reopenTime = time.Minute
	// mostReopened is how many files stay open so.
	mostReopened = 64
)

// closedFiles are the files of format version 2 that programs closed a moment ago.
type closedFiles struct {
	mu     sync.Mutex
	leases []*cache.Lease // oldest first
}

// keep releases a lease in a while, or when there are too many.
func (c *closedFiles) keep(lease *cache.Lease, while time.Duration) {
	if while < 0 {
		lease.Release()
		return
	}
	c.mu.Lock()
	c.leases = append(c.leases, lease)
	var oldest *cache.Lease
	if len(c.leases) > mostReopened {
		oldest, c.leases = c.leases[0], slices.Delete(c.leases, 0, 1)
	}
	c.mu.Unlock()
	if oldest != nil {
		oldest.Release()
	}
	time.AfterFunc(while, func() {
		c.mu.Lock()
		c.leases = slices.DeleteFunc(c.leases, func(l *cache.Lease) bool { return l == lease })
		c.mu.Unlock()
		lease.Release()
	})
}

// hasAllBlocks reports whether every block of e is in memory.
func (f *File) hasAllBlocks(e *sdk.Entry) bool {
	s := f.shape.Load()
	if s == nil || s.ref != e.Ref {
		return false
	}
	key := f.key(e)
	for i := range s.layout.Blocks() {
		if !f.t.cache.Contains(key.BlockOf(i, s.layout.BlockBytes)) {
			return false
		}
	}
	return true
}

// reshape keeps what is known of an upload that is recorded now, and had another reference while it waited.
func (f *File) reshape(was, now sdk.Ref) {
	if s := f.shape.Load(); s != nil && s.ref == was {
		f.shape.CompareAndSwap(s, &shape{ref: now, layout: s.layout})
	}
}

// sourceOf returns the open file that a lease is of, nil for content that is whole. It
// leaves the cache when nobody has it open: the next open is a claim of its own. Needs content.mu.
func (f *File) sourceOf(lease *cache.Lease) *blockSource {
	buf, _ := lease.Buffer()
	s, ok := buf.(*blockSource)
	if !ok {
		return nil
	}
	f.t.cache.Retire(func(k cache.Key) bool { return k == s.key })
	f.shape.Store(s.shape)
	return s
}

// view returns at most len(p) bytes from off: those of one block as they lie in the cache, else
// a copy in p. It fetches blocks that are not in memory. r follows the reader; it may be nil.
func (s *blockSource) view(ctx context.Context, r *blocks.Reader, p []byte, off int64) (cache.View, error) {
	now := s.latest()
	v, err := now.file.View(ctx, r, p, off)
	if next := s.latest(); next != now && errors.Is(err, errSourceEnded) {
		now = next
		v, err = now.file.View(ctx, r, p, off)
	}
	return v, now.readError(ctx, err)
}

// line is what the line from the service holds, in bytes, see [network.Traffic]; 0 where the service is near.
func (t *Tree) line() int64 {
	if t.cfg.Traffic == nil {
		return 0
	}
	return t.cfg.Traffic().Line
}

// readError turns the error of a fetch into that of a read: whoever has the file open and may
// not read it any more lost it (M5).
func (s *blockSource) readError(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errSourceEnded) {
		return err
	}
	if errors.Is(err, cache.ErrPurged) {
		return revoked()
	}
	switch wrapRemote("", "", err).Class {
	case ClassAccess:
		_ = s.t.failedInGroup(ctx, s.f.groupNow(), "read", s.f.Path(), err)
		return revoked()
	case ClassNotExist:
		return revoked()
	}
	return err
}

// Fetch fetches n blocks with one request.
func (s *blockSource) Fetch(ctx context.Context, first int64, n int) ([]cache.Buffer, error) {
	return guarded(func() ([]cache.Buffer, error) { return s.fetch(ctx, first, n) })
}

func (s *blockSource) fetch(ctx context.Context, first int64, n int) ([]cache.Buffer, error) {
	if err := s.t.knownWrong(s.f.groupNow(), s.entry.Ref); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	blocks, done, err := s.use(ctx)
	if err != nil {
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
		buf, err := s.t.pool.Get(0)
		if err != nil {
			drop()
			return nil, &Error{Class: ClassNoMemory, Err: err}
		}
		into, got = append(into, buf), append(got, buf)
	}
	if err := blocks.Read(ctx, first, into); err != nil {
		drop()
		if s.life.Err() != nil {
			return nil, errSourceEnded
		}
		s.t.noteWrong(s.f.groupNow(), s.entry.Ref, err)
		return nil, err
	}
	for i, buf := range into {
		if want := s.Layout().Plain(first + int64(i)); buf.Len() != want {
			drop()
			return nil, &Error{Class: ClassCorrupt, Err: fmt.Errorf("block %d has %d bytes, want %d", first+int64(i),
				buf.Len(), want)}
		}
	}
	return got, nil
}

// committedContent is the recorded content of a file, for as long as it is held: also when the
// file shows other content by then. A purge ends it.
type committedContent struct {
	lease  *cache.Lease
	source *blockSource // nil = lease holds the bytes
}

// holdCommitted holds the recorded content that is loaded; nil if there is none, or
// it was taken away. The caller releases it. Needs content.mu.
func (f *File) holdCommitted() *committedContent {
	if f.lease == nil {
		return nil
	}
	lease := f.lease.Again()
	if lease == nil {
		return nil
	}
	return &committedContent{lease, f.remote}
}

func (c *committedContent) release() { c.lease.Release() }

// layout returns how the content is cut; ok is false for content that is not of format
// version 2.
func (c *committedContent) layout() (l format.Layout, ok bool) {
	if c.source == nil {
		return format.Layout{}, false
	}
	return c.source.Layout(), true
}

// use returns the open file for an upload that takes blocks over from it, nil for content that
// is not of format version 2. It may cost one claim. The caller calls done after the upload.
func (c *committedContent) use(ctx context.Context) (blocks Blocks, done func(), err error) {
	if c.source == nil {
		return nil, func() {}, nil
	}
	now := c.source.latest()
	blocks, done, err = now.use(ctx)
	if next := c.source.latest(); next != now && errors.Is(err, errSourceEnded) {
		blocks, done, err = next.use(ctx)
	}
	if errors.Is(err, errSourceEnded) {
		err = revoked()
	}
	return blocks, done, err
}

// readAt fills p from off; n < len(p) only at the end of the content, with err nil. It waits for
// blocks that are not in memory: no lock may be held.
func (c *committedContent) readAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	return c.readFor(ctx, nil, p, off)
}

// readFor is readAt for a program that reads, which r follows.
func (c *committedContent) readFor(ctx context.Context, r *blocks.Reader, p []byte, off int64) (n int, err error) {
	var v cache.View
	switch {
	case c.source == nil:
		v, err = viewOf(c.lease, off, len(p))
	case isPurged(c.lease):
		err = revoked()
	default:
		if v, err = c.source.view(ctx, r, p, off); errors.Is(err, errSourceEnded) {
			err = revoked()
		}
	}
	if err != nil {
		return 0, err
	}
	defer v.Done()
	return copy(p, v.Bytes), nil
}
