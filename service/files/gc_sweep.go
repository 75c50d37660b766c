package files

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// Sweep removes expired uploads and claims, blocks that no file uses, blobs of this service without a
// record, and old copies of destroyed keys.
func (f *Files) Sweep(ctx context.Context) error {
	now := f.ledger.Now()
	for more := true; more; {
		var useless []string
		err := f.store.Write(ctx, store.Everything(), func(tx *store.Tx) (err error) {
			useless, more, err = deleteUploads(ctx, tx, now)
			return err
		})
		if err != nil {
			return err
		}
		f.release(ctx, useless)
	}
	err := f.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		if err := tx.Do(ctx, "delete old claims", "DELETE FROM claims WHERE time_ns < ?",
			now.Add(-claimLife).UnixNano()); err != nil {
			return err
		}
		if err := f.ledger.ForgetCounts(ctx, tx); err != nil {
			return err
		}
		if err := f.keys.EndEpochs(ctx, tx, now); err != nil {
			return err
		}
		return f.forgetJournals(ctx, tx)
	})
	if err != nil {
		return err
	}
	if err := f.scrub(ctx); err != nil {
		return err
	}
	tightened := f.tighten(ctx) // where that fails, the rest goes on
	return errors.Join(tightened, f.blobs.Sweep(ctx, orphanAge, func(id string) error {
		owned, err := f.isOwned(ctx, id)
		if err != nil || owned {
			return err
		}
		return f.blobs.Delete(ctx, id)
	}))
}

// deleteUploads deletes uploads that expired before now with their parts, and returns
// their blobs. While more is true they have parts yet.
func deleteUploads(ctx context.Context, tx *store.Tx, now time.Time) (blobs []string, more bool, err error) {
	if blobs, err = endUploads(ctx, tx, now); err != nil || len(blobs) == releaseAtOnce {
		return blobs, true, err
	}
	if err := tx.Do(ctx, "delete expired uploads", "DELETE FROM part_uploads WHERE expires_ns < ?",
		now.UnixNano()); err != nil {
		return nil, false, err
	}
	// With their uploads: the row of a destroyed key may be that of another key soon.
	if err := destroyKeys(ctx, tx, "SELECT key_id FROM uploads WHERE expires_ns < ?", now.UnixNano()); err != nil {
		return nil, false, err
	}
	ended, err := store.Values[string](ctx, tx, "delete expired uploads",
		"DELETE FROM uploads WHERE expires_ns < ? RETURNING COALESCE(blob_id, '')", now.UnixNano())
	ended = slices.DeleteFunc(ended, func(id string) bool { return id == "" })
	return append(blobs, ended...), false, err
}

func (f *Files) isOwned(ctx context.Context, blobID string) (owned bool, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM files WHERE blob_id = ?
			AND substr(blob_id, 1, 4) <> 'row:' AND deleted_ns IS NULL UNION ALL SELECT 1 FROM uploads WHERE blob_id = ?
			UNION ALL SELECT 1 FROM parts WHERE blob_id = ?)`,
			blobID, blobID, blobID).Scan(&owned)
	})
	return owned, err
}

// Orphans calls visit with the id and the size in bytes of every blob without a file and
// without an upload. [Files.Sweep] removes those that this service stored. Young blobs are left out: their uploads
// may be arriving.
func (f *Files) Orphans(ctx context.Context, visit func(id string, size int64)) error {
	return f.blobs.List(ctx, orphanAge, func(id string, size int64) error {
		owned, err := f.isOwned(ctx, id)
		if err == nil && !owned {
			visit(id, size)
		}
		return err
	})
}
