package files

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

const (
	// releaseAtOnce is how many blobs of parts a deletion or a record removes itself; the sweep removes
	// the rest, and as many rows in one write. A file of 8 GiB has as many.
	releaseAtOnce = 1000
	// releaseWorkers is how many of them it removes at a time.
	releaseWorkers = 8
)

const (
	loosenParts = "UPDATE parts SET loose = ? WHERE id IN (SELECT part FROM part_uses WHERE ref = ?)"
	removeLoose = "DELETE FROM parts WHERE loose = ? AND upload_id IS NULL AND NOT EXISTS (SELECT 1 FROM " +
		"part_uses WHERE part = parts.id) RETURNING blob_id"
)

// endUses ends what a file of format version 2 uses, since the record of a sequence ended the
// file. It returns the blobs of the parts that no file uses any more. Parts that another
// file uses are loose from then on, see [Files.tighten].
func endUses(ctx context.Context, tx *store.Tx, ref string, seq int64) (blobs []string, err error) {
	for _, step := range []struct {
		query store.Query
		args  []any
	}{
		{loosenParts, []any{seq, ref}},
		{"DELETE FROM part_uses WHERE ref = ?", []any{ref}},
		{"DELETE FROM contents WHERE ref = ?", []any{ref}},
	} {
		if err := tx.Do(ctx, "end the use of parts", step.query, step.args...); err != nil {
			return nil, err
		}
	}
	return store.Values[string](ctx, tx, "remove parts", removeLoose, seq)
}

// release removes blobs that nothing refers to, some at a time, even when the caller has
// left. The sweep repeats what fails, and removes what is more than a request waits for.
func (f *Files) release(ctx context.Context, blobs []string) {
	ctx = context.WithoutCancel(ctx)
	next := make(chan string)
	var workers sync.WaitGroup
	for range min(releaseWorkers, len(blobs)) {
		workers.Go(func() {
			for id := range next {
				_ = f.blobs.Delete(ctx, id)
			}
		})
	}
	for _, id := range blobs[:min(len(blobs), releaseAtOnce)] {
		next <- id
	}
	close(next)
	workers.Wait()
}

// discard removes a blob without an owner, even when the caller has left.
func (f *Files) discard(ctx context.Context, id string) {
	_ = f.blobs.Delete(context.WithoutCancel(ctx), id)
}

// removeBlobs removes ciphertext whose key is destroyed. The sweep repeats what fails.
func (f *Files) removeBlobs(ctx context.Context, shredded ...target) {
	f.traces.Store(true)
	for _, t := range shredded {
		_ = f.blobs.Delete(context.WithoutCancel(ctx), t.blobID)
		f.release(ctx, t.freed)
	}
}

// cleaning is one of the database's files after deletions, for all who asked for it before it began.
type cleaning struct {
	once sync.Once
	err  error
}

// scrub cleans the database's files after deletions; calls that meet share one
// cleaning, and its failure.
func (f *Files) scrub(ctx context.Context) error {
	mine := f.cleaning.Load()
	mine.once.Do(func() { mine.err = f.clean(ctx, store.ScrubShort) })
	return mine.err
}

// clean cleans the database's files if keys were destroyed, and waits so long for another cleaning, and for readers.
func (f *Files) clean(ctx context.Context, patience time.Duration) error {
	var err error
	select {
	case f.scrubbing <- struct{}{}:
		defer func() { <-f.scrubbing }()
	case <-time.After(patience):
		err = errors.New("another cleaning of the database's files is under way: the next sweep repeats it")
	}
	f.cleaning.Store(new(cleaning)) // of those who come from now on
	if err != nil {
		return err
	}
	if !f.traces.Swap(false) {
		return nil
	}
	if err = f.store.Scrub(ctx, patience); err != nil {
		f.traces.Store(true)
	}
	return err
}
