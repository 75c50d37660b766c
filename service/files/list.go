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

const (
	// pieceRows and pieceBytes bound what of a list is in memory at a time: so many
	// rows, and no more once their names have so many bytes.
	pieceRows  = 1000
	pieceBytes = 256 << 10
	// rowBytes is about what a row takes beside its names.
	rowBytes = 512
)

// ListMemory is how much memory a list takes, at most, in bytes: a piece, the one
// before it, and the text of a row.
const ListMemory = 2*pieceBytes + 64<<10

// List passes the file records of a group to each, for a member, or for anybody
// when the group is open: all in upload order, or a page in order of change. A
// list of any length goes in pieces, so that it is never in memory as a whole;
// every piece looks again who asks.
func (f *Files) List(ctx context.Context, account string, req wire.TransactionsRequest, each func([]wire.TransactionRow) error) error {
	read, upTo := f.byChange, func(last wire.TransactionRow) int64 { return last.ChangedSeq }
	switch {
	case req.Kinds == wire.KindsAll:
		read = f.records
	case req.Kinds != "":
		return fault.New(wire.CodeValidation, "kinds %.60q: want %q, %q, or none for the files of the group", req.Kinds, wire.KindsChain, wire.KindsAll)
	case req.Limit <= 0 && req.AfterSeq <= 0:
		read, upTo = f.byUpload, func(last wire.TransactionRow) int64 { return last.Seq }
	}
	return inPieces(ctx, req, func(ctx context.Context, after int64, limit int) ([]wire.TransactionRow, bool, error) {
		return read(ctx, account, req, after, limit)
	}, upTo, each)
}

// inPieces reads what was asked for, a page or all. read also tells whether there
// may be more, and upTo where the next piece begins.
func inPieces(ctx context.Context, req wire.TransactionsRequest, read func(ctx context.Context, after int64, limit int) ([]wire.TransactionRow, bool, error),
	upTo func(last wire.TransactionRow) int64, each func([]wire.TransactionRow) error) error {
	after, left := max(req.AfterSeq, 0), math.MaxInt
	if req.Limit > 0 {
		left = min(req.Limit, wire.MaxPageRows)
	}
	for {
		rows, more, err := read(ctx, after, min(left, pieceRows))
		if err != nil {
			return err
		}
		left -= len(rows)
		if err := each(rows); err != nil || !more || left <= 0 {
			return err
		}
		after = upTo(rows[len(rows)-1])
	}
}

func (f *Files) byUpload(ctx context.Context, account string, req wire.TransactionsRequest, after int64, limit int) ([]wire.TransactionRow, bool, error) {
	return f.rows(ctx, account, req.GroupID, pieceBytes, limit, selectRows+" AND seq > ? ORDER BY seq LIMIT ?", after)
}

func (f *Files) byChange(ctx context.Context, account string, req wire.TransactionsRequest, after int64, limit int) ([]wire.TransactionRow, bool, error) {
	return f.rows(ctx, account, req.GroupID, pieceBytes, limit, selectRows+" AND changed_seq > ? ORDER BY changed_seq LIMIT ?", after)
}

// Newest returns a page of the file records of a group, the newest first: at
// most limit with a sequence below before, which is 0 for the first page. It
// may be read by whom [Files.List] answers.
func (f *Files) Newest(ctx context.Context, account, group string, before int64, limit int) ([]wire.TransactionRow, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, _, err := f.rows(ctx, account, group, math.MaxInt, limit, selectRows+" AND seq < ? ORDER BY seq DESC LIMIT ?", before)
	return rows, err
}

// rows runs a query that begins with selectRows for one who may list the group, and
// tells whether there may be more.
func (f *Files) rows(ctx context.Context, account, group string, maxBytes, limit int, query store.Query, bound int64) (list []wire.TransactionRow, more bool, err error) {
	list = []wire.TransactionRow{}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if err := mayList(ctx, tx, group, account); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, query, group, bound, limit)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		defer rows.Close()
		for size := 0; rows.Next() && size < maxBytes; {
			row, err := scanRow(rows, group)
			if err != nil {
				return fmt.Errorf("list files: %w", err)
			}
			list = append(list, row)
			size += rowBytes + lengthOf(row.Filename) + lengthOf(row.ContentType)
			more = len(list) == limit || size >= maxBytes
		}
		return rows.Err()
	})
	return list, more, err
}

func lengthOf(text *string) int {
	if text == nil {
		return 0
	}
	return len(*text)
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
	fileFacts(&row, name, size, contentType)
	row.Deleted = deletion(deletedNS, deletedBy, deletedWhy)
	return row, nil
}

// fileFacts adds what is known of a file.
func fileFacts(row *wire.TransactionRow, name string, size sql.NullInt64, contentType string) {
	if name != "" {
		row.Filename = &name
	}
	if contentType != "" {
		row.ContentType = &contentType
	}
	if size.Valid {
		row.OriginalSize = &size.Int64
	}
}

// Sweep removes what nobody owns: expired uploads and claims, blobs without a
// record, and what is left of destroyed keys.
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
		f.discard(ctx, id) // what fails, a later sweep finds
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

// deleteUploads deletes what expired before now, and returns the blobs nobody owns
// any more.
func deleteUploads(ctx context.Context, tx *store.Tx, now time.Time) (blobs []string, err error) {
	if err := destroyKeys(ctx, tx, "SELECT key_id FROM uploads WHERE expires_ns < ?", now.UnixNano()); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "DELETE FROM uploads WHERE expires_ns < ? RETURNING COALESCE(blob_id, '')", now.UnixNano())
	if err != nil {
		return nil, fmt.Errorf("delete expired uploads: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("delete expired uploads: %w", err)
		}
		if id != "" {
			blobs = append(blobs, id)
		}
	}
	return blobs, rows.Err()
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

// Orphans calls visit with every blob that belongs to nothing, and its size in bytes.
// [Files.Sweep] removes those. Younger ones may be of uploads that just arrive.
func (f *Files) Orphans(ctx context.Context, visit func(id string, size int64)) error {
	return f.blobs.List(ctx, orphanAge, func(id string, size int64) error {
		owned, err := f.isOwned(ctx, id)
		if err == nil && !owned {
			visit(id, size)
		}
		return err
	})
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
	err := f.store.Look(ctx, func(tx *store.Tx) error {
		_, _, err := f.vault.Unwrap(ctx, tx, vault.Binding{Group: group, Ref: ref, Version: row.keyVersion}, row.wrapped)
		return err
	})
	if err != nil {
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
