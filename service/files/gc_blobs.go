package files

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// manyBlobs is how many blobs are looked for in one transaction.
const manyBlobs = 1000

// found is a blob in the store.
type found struct {
	id   string
	size int64 // bytes
}

// SweepBlobs removes blobs of this service without a record, and what interrupted uploads left in the store. It looks
// at all blobs, which takes long, and removes those that had no record the last time either: a bucket counts the age of
// a large blob from when its upload began, so that its record may come in this moment. It is for one goroutine.
func (f *Files) SweepBlobs(ctx context.Context) error {
	before := f.orphans
	f.orphans = make(map[string]bool)
	return f.unowned(ctx, f.blobs.Sweep, func(b found) error {
		if !before[b.id] {
			f.orphans[b.id] = true
			return nil
		}
		return f.blobs.Delete(ctx, b.id)
	})
}

// Orphans calls visit with the id and the size in bytes of every blob without a file and
// without an upload. [Files.SweepBlobs] removes those that this service stored. Young blobs are left out: their uploads
// may be arriving.
func (f *Files) Orphans(ctx context.Context, visit func(id string, size int64)) error {
	return f.unowned(ctx, f.blobs.List, func(b found) error {
		visit(b.id, b.size)
		return nil
	})
}

// unowned calls visit with every blob that list shows, and that has no record.
func (f *Files) unowned(ctx context.Context,
	list func(context.Context, time.Duration, func(string, int64) error) error, visit func(found) error) error {
	some := make([]found, 0, manyBlobs)
	look := func() (err error) {
		var without []found
		err = f.store.Read(ctx, func(tx *store.Tx) error {
			without = without[:0]
			for _, b := range some {
				owned, err := isOwned(ctx, tx, b.id)
				if err != nil {
					return err
				}
				if !owned {
					without = append(without, b)
				}
			}
			return nil
		})
		some = some[:0]
		for i := 0; i < len(without) && err == nil; i++ {
			err = visit(without[i])
		}
		return err
	}
	err := list(ctx, orphanAge, func(id string, size int64) error {
		if some = append(some, found{id, size}); len(some) < manyBlobs {
			return nil
		}
		return look()
	})
	if err != nil {
		return err
	}
	return look()
}

func isOwned(ctx context.Context, tx *store.Tx, blobID string) (owned bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM files WHERE blob_id = ?
		AND substr(blob_id, 1, 4) <> 'row:' AND deleted_ns IS NULL UNION ALL SELECT 1 FROM uploads WHERE blob_id = ?
		UNION ALL SELECT 1 FROM parts WHERE blob_id = ?)`,
		blobID, blobID, blobID).Scan(&owned)
	return owned, err
}
