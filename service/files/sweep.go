package files

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// Sweep removes expired uploads and claims, blobs without a record, and old copies of
// destroyed keys.
func (f *Files) Sweep(ctx context.Context) error {
	now := f.ledger.Now()
	var useless []string
	err := f.store.Write(ctx, func(tx *store.Tx) (err error) {
		if useless, err = deleteUploads(ctx, tx, now); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM claims WHERE time_ns < ?", now.Add(-claimLife).UnixNano()); err != nil {
			return fmt.Errorf("delete old claims: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range useless {
		f.discard(ctx, id) // a later sweep repeats what fails
	}
	if err := f.scrub(ctx); err != nil {
		return err
	}
	return f.blobs.Sweep(ctx, orphanAge, func(id string) error {
		owned, err := f.isOwned(ctx, id)
		if err != nil || owned {
			return err
		}
		return f.blobs.Delete(ctx, id)
	})
}

// deleteUploads deletes uploads that expired before now, and returns their blobs.
func deleteUploads(ctx context.Context, tx *store.Tx, now time.Time) (blobs []string, err error) {
	if err := destroyKeys(ctx, tx, "SELECT key_id FROM uploads WHERE expires_ns < ?", now.UnixNano()); err != nil {
		return nil, err
	}
	for rows, err := range tx.Rows(ctx, "DELETE FROM uploads WHERE expires_ns < ? RETURNING COALESCE(blob_id, '')", now.UnixNano()) {
		var id string
		if err == nil {
			err = rows.Scan(&id)
		}
		if err != nil {
			return nil, fmt.Errorf("delete expired uploads: %w", err)
		}
		if id != "" {
			blobs = append(blobs, id)
		}
	}
	return blobs, nil
}

func (f *Files) isOwned(ctx context.Context, blobID string) (owned bool, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM files WHERE blob_id = ? AND deleted_ns IS NULL UNION ALL SELECT 1 FROM uploads WHERE blob_id = ?)",
			blobID, blobID).Scan(&owned)
	})
	return owned, err
}

// Orphans calls visit with the id and the size in bytes of every blob without a file and
// without an upload. [Files.Sweep] removes them. Young blobs are left out: their uploads
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
