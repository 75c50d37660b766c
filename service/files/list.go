package files

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// Backends of files: those of this service, and references from before it.
const (
	backendFastFS = "FastFS"
	backendLegacy = "Ipfs"
)

const selectRows = `SELECT ref, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, original_size, content_type,
	backend, deleted_ns, deleted_by, deleted_why FROM files WHERE group_id = ?`

// partRows is how many rows [Files.ListAll] reads in one transaction.
const partRows = 2000

// List returns a page of the file records of a group in order of change, for a
// member, or for anybody when the group is open; or of all its records, for a
// member.
func (f *Files) List(ctx context.Context, account string, req wire.TransactionsRequest) (list []wire.TransactionRow, err error) {
	limit := min(req.Limit, wire.MaxPageRows)
	switch req.Kinds {
	case "":
	case wire.KindsAll:
		return f.records(ctx, account, req.GroupID, req.AfterSeq, math.MaxInt64, limit)
	default:
		return nil, fault.New(wire.CodeValidation, "kinds %.60q: want %q, or none for the files of the group", req.Kinds, wire.KindsAll)
	}
	return f.page(ctx, account, req.GroupID, selectRows+" AND changed_seq > ? ORDER BY changed_seq LIMIT ?", req.AfterSeq, limit)
}

// ListAll calls visit with the records that [Files.List] would return without a
// limit, in parts, and tells the last one: files in upload order or, after a
// sequence, in order of change. What is recorded meanwhile is left out, and no row
// is said to be newer than the ledger was at the beginning: whoever asks again
// after the highest sequence misses nothing.
func (f *Files) ListAll(ctx context.Context, account string, req wire.TransactionsRequest, visit func(part []wire.TransactionRow, last bool) error) error {
	var head int64
	if err := f.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT COALESCE(max(seq), 0) FROM ledger").Scan(&head)
	}); err != nil {
		return fmt.Errorf("read end of the ledger: %w", err)
	}
	byUpload := req.Kinds == "" && req.AfterSeq <= 0
	after := req.AfterSeq
	for {
		list, err := f.part(ctx, account, req, after, head, byUpload)
		if err != nil {
			return err
		}
		last := len(list) < partRows
		if !last && byUpload {
			after = list[len(list)-1].Seq
		} else if !last {
			after = list[len(list)-1].ChangedSeq
		}
		for i := range list {
			list[i].ChangedSeq = min(list[i].ChangedSeq, head)
		}
		if err := visit(list, last); err != nil || last {
			return err
		}
	}
}

func (f *Files) part(ctx context.Context, account string, req wire.TransactionsRequest, after, head int64, byUpload bool) ([]wire.TransactionRow, error) {
	switch {
	case req.Kinds == wire.KindsAll:
		return f.records(ctx, account, req.GroupID, after, head, partRows)
	case byUpload:
		return f.page(ctx, account, req.GroupID, selectRows+" AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?", after, head, partRows)
	case req.Kinds == "":
		return f.page(ctx, account, req.GroupID, selectRows+" AND changed_seq > ? AND changed_seq <= ? ORDER BY changed_seq LIMIT ?", after, head, partRows)
	default:
		return f.List(ctx, account, req) // refuses
	}
}

// page runs a query of selectRows that continues with args.
func (f *Files) page(ctx context.Context, account, group, query string, args ...any) ([]wire.TransactionRow, error) {
	list := []wire.TransactionRow{}
	err := f.store.Read(ctx, func(tx *store.Tx) error {
		if err := mayList(ctx, tx, group, account); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, query, append([]any{group}, args...)...)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			row, err := scanRow(rows, group)
			if err != nil {
				return fmt.Errorf("list files: %w", err)
			}
			list = append(list, row)
		}
		return rows.Err()
	})
	return list, err
}

func mayList(ctx context.Context, tx *store.Tx, group, account string) error {
	g, err := groups.RequireMember(ctx, tx, group, account)
	if g.Joinable {
		return nil // to anybody
	}
	return err
}

func scanRow(rows *sql.Rows, group string) (wire.TransactionRow, error) {
	row := wire.TransactionRow{GroupID: group}
	var timeNS int64
	var name, contentType, backend string
	var size, deletedNS sql.NullInt64
	var deletedBy, deletedWhy sql.NullString
	err := rows.Scan(&row.IPFSHash, &row.Seq, &row.ChangedSeq, &row.TransID, &row.UserID, &row.FileHash, &timeNS, &name, &size, &contentType,
		&backend, &deletedNS, &deletedBy, &deletedWhy)
	if err != nil {
		return row, err
	}
	stamp := strconv.FormatInt(timeNS, 10)
	row.Backend, row.Timestamp = &backend, &stamp
	if name != "" {
		row.Filename = &name
	}
	if contentType != "" {
		row.ContentType = &contentType
	}
	if size.Valid {
		row.OriginalSize = &size.Int64
	}
	row.Deleted = deletion(deletedNS, deletedBy, deletedWhy)
	return row, nil
}

// Sweep removes what nobody owns: expired uploads and claims, blobs without a
// record, and what is left of destroyed keys.
func (f *Files) Sweep(ctx context.Context) error {
	now := time.Now()
	err := f.store.Write(ctx, func(tx *store.Tx) error {
		if err := destroyKeys(ctx, tx, "SELECT key_id FROM uploads WHERE expires_ns < ?", now.UnixNano()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM uploads WHERE expires_ns < ?", now.UnixNano()); err != nil {
			return fmt.Errorf("delete expired uploads: %w", err)
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM claims WHERE time_ns < ?", now.Add(-claimLife).UnixNano()); err != nil {
			return fmt.Errorf("delete old claims: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
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

func (f *Files) isOwned(ctx context.Context, blobID string) (owned bool, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM files WHERE blob_id = ? AND deleted_ns IS NULL UNION ALL SELECT 1 FROM uploads WHERE blob_id = ?)",
			blobID, blobID).Scan(&owned)
	})
	return owned, err
}

// Verify checks every living file: the blob is there with the right size, the
// key unwraps, and with readData the bytes fit their checksum. report is called
// with each file that is not good.
func (f *Files) Verify(ctx context.Context, readData bool, report func(ref string, err error)) (checked int, err error) {
	type row struct {
		ref, group string
		file
	}
	var all []row
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT ref, group_id, blob_id, blob_size, blob_sum, key_version, wrapped_key
			FROM files LEFT JOIN file_keys ON file_keys.id = files.key_id WHERE deleted_ns IS NULL ORDER BY seq`)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			var sum []byte
			if err := rows.Scan(&r.ref, &r.group, &r.blob.ID, &r.blob.Size, &sum, &r.keyVersion, &r.wrapped); err != nil {
				return fmt.Errorf("list files: %w", err)
			}
			copy(r.blob.Sum[:], sum)
			all = append(all, r)
		}
		return rows.Err()
	})
	for _, r := range all {
		if err := ctx.Err(); err != nil {
			return checked, err
		}
		checked++
		if err := f.verify(ctx, r.group, r.ref, r.file, readData); err != nil && f.lives(ctx, r.ref) {
			report(r.ref, err)
		}
	}
	return checked, err
}

// lives tells whether a file was not deleted meanwhile.
func (f *Files) lives(ctx context.Context, ref string) bool {
	lives := true
	err := f.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT deleted_ns IS NULL FROM files WHERE ref = ?", ref).Scan(&lives)
	})
	return err != nil || lives
}

func (f *Files) verify(ctx context.Context, group, ref string, row file, readData bool) error {
	if _, err := f.vault.Unwrap(vault.Binding{Group: group, Ref: ref, Version: row.keyVersion}, row.wrapped); err != nil {
		return err
	}
	if row.blob.ID == ref {
		return nil // a legacy reference whose bytes were not asked for yet
	}
	if _, err := f.readBlob(ctx, row.blob, -1); err != nil || !readData {
		return err
	}
	r, _, err := f.blobs.Open(ctx, row.blob.ID)
	if err != nil {
		return damaged("missing or unreadable", err)
	}
	defer r.Close()
	return checkSum(r, row.blob)
}

func checkSum(r io.Reader, want blob.Info) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		return damaged("unreadable", err)
	}
	if [sha256.Size]byte(hash.Sum(nil)) != want.Sum {
		return damaged("changed", nil)
	}
	return nil
}
