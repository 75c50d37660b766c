package content

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
)

// Recorded is recorded content, for as long as it is held: also when its file shows other content by then. A purge
// ends it. A nil Recorded holds nothing.
type Recorded struct {
	store  *Store
	lease  *cache.Lease
	source *Source // nil = one block, whose bytes lease holds
}

// Hold holds what a lease is of, which it takes over. Content in blocks leaves the cache when nobody has it open: the
// next open is a claim of its own.
func (s *Store) Hold(lease *cache.Lease, known *Known) *Recorded {
	buf, _ := lease.Buffer()
	src, ok := buf.(*Source)
	if ok {
		s.Cache.Drop(src.key)
		known.shape.Store(src.shape)
	}
	return &Recorded{s, lease, src}
}

// Again holds the content once more; nil if it was taken away.
func (r *Recorded) Again() *Recorded {
	if r == nil {
		return nil
	}
	lease := r.lease.Again()
	if lease == nil {
		return nil
	}
	return &Recorded{r.store, lease, r.source}
}

// Release ends the hold.
func (r *Recorded) Release() {
	if r != nil {
		r.lease.Release()
	}
}

// Close is Release by the last program that had the content open: what is in blocks stays open for a while.
func (r *Recorded) Close() {
	if r != nil && r.source != nil {
		r.store.keep(r.lease, r.source.Footprint())
		return
	}
	r.Release()
}

// IsReadable reports whether something is held that was not taken away.
func (r *Recorded) IsReadable() bool {
	if r == nil {
		return false
	}
	_, err := r.lease.ReadAt(nil, 0)
	return err == nil
}

// IsCut reports whether the content is of format version 2, of which each block is fetched when it is read.
func (r *Recorded) IsCut() bool { return r != nil && r.source != nil }

// Layout says how the content is cut.
func (r *Recorded) Layout() format.Layout {
	if r.source == nil {
		return format.Layout{Size: r.lease.Len(), BlockBytes: r.lease.Len()}
	}
	return r.source.Layout()
}

// Latest returns which version content in blocks is, and how the service cuts it.
func (r *Recorded) Latest() (*sdk.Entry, format.Layout) {
	s := r.source.latest()
	return s.entry, s.Layout()
}

// View returns at most len(p) bytes from off: those of one block as they lie in the cache, else a copy in p. It waits
// for blocks that are not in memory. rd follows the reader; it may be nil. The caller calls Done of the result soon.
// Errors: [ErrTaken], [ErrEnded], those of the [Origin].
func (r *Recorded) View(ctx context.Context, rd *blocks.Reader, p []byte, off int64) (cache.View, error) {
	if r.source != nil {
		if !r.IsReadable() {
			return cache.View{}, ErrTaken
		}
		return r.source.view(ctx, rd, p, off)
	}
	v, err := r.lease.View(off, len(p))
	if errors.Is(err, cache.ErrPurged) {
		err = ErrTaken
	}
	return v, err
}

// ReadAt fills p from off; n < len(p) only at the end of the content, with err nil. It waits for
// blocks that are not in memory: no lock may be held. rd is that of View.
func (r *Recorded) ReadAt(ctx context.Context, rd *blocks.Reader, p []byte, off int64) (n int, err error) {
	v, err := r.View(ctx, rd, p, off)
	if err != nil {
		return 0, taken(err)
	}
	defer v.Done()
	return copy(p, v.Bytes), nil
}

// Use returns the open file for an upload that takes blocks over from it, nil for content that
// is not of format version 2. It may cost one claim. The caller calls done after the upload.
func (r *Recorded) Use(ctx context.Context) (blocks Blocks, done func(), err error) {
	if r.source == nil {
		return nil, func() {}, nil
	}
	now := r.source.latest()
	blocks, done, err = now.use(ctx)
	if next := r.source.latest(); next != now && errors.Is(err, ErrEnded) {
		blocks, done, err = next.use(ctx)
	}
	return blocks, done, taken(err)
}

// taken is what an open file that ended means for whoever cannot look again.
func taken(err error) error {
	if errors.Is(err, ErrEnded) {
		return ErrTaken
	}
	return err
}
