package files

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Sweep removes expired uploads and claims, blocks that no file uses, and old copies of destroyed keys.
func (f *Files) Sweep(ctx context.Context) error {
	now := f.ledger.Now()
	for more := true; more; {
		var useless []string
		err := f.store.Write(ctx, store.Everything(), func(tx *store.Tx) (err error) {
			if err := f.keys.EndEpochs(ctx, tx, now); err != nil {
				return err
			}
			useless, more, err = removeOld(ctx, tx, now)
			return err
		})
		if err != nil {
			return err
		}
		f.release(ctx, useless)
	}
	return errors.Join(f.clean(ctx, store.ScrubLong), f.tighten(ctx)) // where one fails, the other goes on
}

// What [removeOld] removes. Each statement takes at most so many rows as its last argument says, and returns their
// blobs, ” without any.
const (
	removeOfUploads = "DELETE FROM parts WHERE id IN (SELECT parts.id FROM part_uploads JOIN parts ON " +
		"parts.upload_id = part_uploads.id WHERE expires_ns < ? LIMIT ?) RETURNING blob_id"
	removePartUploads = "DELETE FROM part_uploads WHERE id IN (SELECT id FROM part_uploads WHERE expires_ns < ? " +
		"LIMIT ?) RETURNING ''"
	expiredUploads = " FROM uploads WHERE expires_ns < ? ORDER BY expires_ns, id LIMIT ?"
	removeUploads  = "DELETE FROM uploads WHERE id IN (SELECT id" + expiredUploads + ") RETURNING COALESCE(blob_id, '')"
	removeClaims   = "DELETE FROM claims WHERE (account, claim_id, ref) IN (SELECT account, claim_id, ref " +
		"FROM claims WHERE time_ns < ? LIMIT ?) RETURNING ''"
	// Of journals whose keys no epoch opens any more.
	removeJournals = "DELETE FROM ended_journals WHERE id IN (SELECT id FROM ended_journals WHERE epoch < " +
		"(SELECT min(version) FROM service_keys WHERE purpose = ?) LIMIT ?) RETURNING ''"
)

// removeOld removes rows that are out of date, at most releaseAtOnce: all writers wait meanwhile. It returns the blobs
// of these; while more is true, there may be others.
func removeOld(ctx context.Context, tx *store.Tx, now time.Time) (blobs []string, more bool, err error) {
	left, ns := releaseAtOnce, now.UnixNano()
	for _, old := range []struct {
		what  string
		query store.Query
		arg   any
	}{
		{"remove parts of expired uploads", removeOfUploads, ns}, // parts that a file uses belong to no upload any more
		{"delete expired uploads in parts", removePartUploads, ns},
		{"delete expired uploads", removeUploads, ns},
		{"delete old claims", removeClaims, now.Add(-claimLife).UnixNano()},
		{"forget old counts", ledger.RemoveCounts, ledger.Day(now)},
		{"forget ended journals", removeJournals, vaultwire.PurposeUploads},
	} {
		if old.query == removeUploads { // with them: the row of a destroyed key may be that of another key soon
			if err := destroyKeys(ctx, tx, "SELECT key_id"+expiredUploads, ns, left); err != nil {
				return nil, false, err
			}
		}
		gone, err := store.Values[string](ctx, tx, old.what, old.query, old.arg, left)
		if err != nil {
			return nil, false, err
		}
		blobs = append(blobs, gone...)
		if left -= len(gone); left == 0 {
			more = true
			break
		}
	}
	return slices.DeleteFunc(blobs, func(id string) bool { return id == "" }), more, nil
}
