package files

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
)

// QuotaShare is the default bound: one account, and one group, may fill one
// QuotaShare-th of the disk, as large as it is now. A bucket has no size.
const QuotaShare = 2

// quota is the bound of the operator, or else the share of the disk; 0 means any number.
func (f *Files) quota(set int64) int64 {
	if set != 0 {
		return max(set, 0)
	}
	return max(f.config.Space.Size(space.Files), 0) / QuotaShare
}

func askStored(account, group string) store.Ask {
	return store.Ask{Query: `SELECT COALESCE((SELECT bytes FROM stored_bytes WHERE kind = 'account'
		AND name = ?), 0),
		COALESCE((SELECT bytes FROM stored_bytes WHERE kind = 'group'
		AND name = ?), 0)`, Args: []any{account, group}}
}

// stored returns the bytes that are kept for an account and for a group, "" for none.
// Triggers of the database count them, see the table stored_bytes.
func (f *Files) stored(ctx context.Context, tx *store.Tx, account, group string) (byAccount,
	byGroup wire.StoredBytes, err error) {
	byAccount.Max, byGroup.Max = f.quota(f.config.MaxAccountBytes), f.quota(f.config.MaxGroupBytes)
	err = tx.Ask(ctx, askStored(account, group)).Scan(&byAccount.Bytes, &byGroup.Bytes)
	if err != nil {
		return byAccount, byGroup, fmt.Errorf("read stored bytes: %w", err)
	}
	return byAccount, byGroup, nil
}

// MayKeep refuses more bytes when an account or a group would keep too many.
func (f *Files) MayKeep(ctx context.Context, tx *store.Tx, account, group string, more int64) error {
	byAccount, byGroup, err := f.stored(ctx, tx, account, group)
	if err != nil {
		return err
	}
	for _, b := range keepBounds(account, group, byAccount, byGroup) {
		if more > b.left {
			return b.refused
		}
	}
	return nil
}

// freeFormat is how many bytes of a format count for no bound. The triggers
// formats_counted count the others, and so does CheckStored.
const freeFormat = 1 << 10

// formatBytes are the bytes of a format that count as bytes of its file.
func formatBytes(raw json.RawMessage) int64 { return max(0, int64(len(raw))-freeFormat) }

// keepBounds are how many more bytes an account and a group may keep.
func keepBounds(account, group string, byAccount, byGroup wire.StoredBytes) (bounds []bound) {
	if byAccount.Max > 0 {
		bounds = append(bounds, bound{"account " + account, byAccount.Max - byAccount.Bytes,
			fault.New(wire.CodeStorageFull, "the storage of account %s is full: "+
				"it keeps %d bytes and may keep %d, with what is being sent; delete files or old versions, or ask the "+
				"operator for a higher --max-account-bytes",
				account, byAccount.Bytes, byAccount.Max)})
	}
	if byGroup.Max > 0 {
		bounds = append(bounds, bound{"group " + group, byGroup.Max - byGroup.Bytes,
			fault.New(wire.CodeStorageFull, "the storage of group %q is full: "+
				"it keeps %d bytes and may keep %d, with what is being sent; delete files or old versions, or ask the "+
				"operator for a higher --max-group-bytes",
				group, byGroup.Bytes, byGroup.Max)})
	}
	return bounds
}

// Storage returns how many bytes are kept, and how large the next upload may be. When
// the request names a group, the caller must be a member.
func (f *Files) Storage(ctx context.Context, account string,
	req wire.GroupRequest) (out wire.StorageResult, err error) {
	var byGroup wire.StoredBytes
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if req.GroupID != "" {
			if _, err := groups.RequireMember(ctx, tx, req.GroupID, account); err != nil {
				return err
			}
			out.Group = &byGroup
		}
		out.Account, byGroup, err = f.stored(ctx, tx, account, req.GroupID)
		return err
	})
	if err != nil {
		return out, err
	}
	left := f.config.Space.Left()
	for _, s := range []*wire.StoredBytes{&out.Account, out.Group} {
		if s != nil && s.Max > 0 && (left < 0 || s.Max-s.Bytes < left) {
			left = max(0, s.Max-s.Bytes)
		}
	}
	if left >= 0 {
		out.Left = &left
	}
	return out, nil
}

// CheckStored compares the counted bytes with the files and uploads there are, and
// reports each difference.
func (f *Files) CheckStored(ctx context.Context, report func(what string, err error)) error {
	return f.store.Read(ctx, func(tx *store.Tx) error {
		type differs struct {
			kind, name    string
			counted, kept int64
		}
		for d, err := range store.Each(ctx, tx, "compare stored bytes",
			func(d *differs) []any { return []any{&d.kind, &d.name, &d.counted, &d.kept} },
			`SELECT kind, name, CAST(sum(counted) AS BIGINT), CAST(sum(kept) AS BIGINT) FROM (
			SELECT kind, name, bytes AS counted, 0 AS kept FROM stored_bytes
			UNION ALL SELECT 'account', uploader, 0, blob_size FROM files WHERE deleted_ns IS NULL AND blob_id <> ref
			UNION ALL SELECT 'group', group_id, 0, blob_size FROM files WHERE deleted_ns IS NULL AND blob_id <> ref
			UNION ALL SELECT 'account', uploader, 0, octet_length(format) - 1024 FROM files WHERE deleted_ns IS NULL
			AND octet_length(format) > 1024
			UNION ALL SELECT 'group', group_id, 0, octet_length(format) - 1024 FROM files WHERE deleted_ns IS NULL
			AND octet_length(format) > 1024
			`+ledger.FreeBytesKept+`
			UNION ALL SELECT 'account', account, 0, blob_size FROM uploads WHERE blob_id IS NOT NULL
			UNION ALL SELECT 'group', group_id, 0, blob_size FROM uploads WHERE blob_id IS NOT NULL
			UNION ALL SELECT 'account', account, 0, blob_size FROM parts
			UNION ALL SELECT 'group', group_id, 0, blob_size FROM parts
			) compared GROUP BY kind, name HAVING sum(counted) <> sum(kept) ORDER BY kind, name`) {
			if err != nil {
				return err
			}
			report(d.kind+" "+d.name, fmt.Errorf("%d bytes are counted, %d are kept", d.counted, d.kept))
		}
		var rows, owners int64
		if err := tx.QueryRowContext(ctx, selectSmallOwners).Scan(&rows, &owners); err != nil {
			return fmt.Errorf("count small contents: %w", err)
		}
		if rows != owners {
			report("small contents", fmt.Errorf("%d rows are in use, and %d files and uploads have one: svcd verify "+
				"--read-data names files that lack theirs", rows, owners))
		}
		return nil
	})
}

// selectSmallOwners counts the small contents, and who owns one.
const selectSmallOwners = `SELECT (SELECT count(*) FROM small_contents WHERE NOT free),
	(SELECT count(*) FROM files WHERE deleted_ns IS NULL AND substr(blob_id, 1, 4) = '` + SmallPrefix + `') +
	(SELECT count(*) FROM uploads WHERE blob_id IS NOT NULL AND substr(blob_id, 1, 4) = '` + SmallPrefix + "')"
