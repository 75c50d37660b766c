package files

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// Backends of files: those of this service, and references from before it.
const (
	backendFastFS = "FastFS"
	backendLegacy = "Ipfs"
)

const selectRows = `SELECT ref, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, original_size, content_type,
	backend, ` + selectGone + ` FROM files WHERE group_id = ?`

const (
	// pieceRows and pieceBytes bound the part of a list that is in memory at a time: the
	// number of rows, and the bytes of their names.
	pieceRows  = 1000
	pieceBytes = 256 << 10
	// rowBytes is about the memory of a row without its names.
	rowBytes = 512
)

// ListMemory is how much memory a list takes, at most, in bytes: a piece, the one
// before it, and the text of a row.
const ListMemory = 2*pieceBytes + 64<<10

// List passes the file records of a group to each, for a member, or for any caller when
// the group is open: all in upload order, or a page in order of change. A list of any
// length is read in pieces, so that it is never in memory as a whole; every piece checks
// the rights of the caller again.
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

// inPieces reads a page or the whole list. read also returns whether there may be more
// rows, and upTo where the next piece begins.
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
	rows, more, err := f.rows(ctx, account, req.GroupID, pieceBytes, limit, selectRows+" AND changed_seq > ? ORDER BY changed_seq LIMIT ?", after)
	for i := range rows {
		if d := rows[i].Deleted; d != nil && d.Trash {
			rows[i].Deleted = nil // such a client knows no chains, and would call a file that comes back a rollback
		}
	}
	return rows, more, err
}

// Newest returns a page of the file records of a group, the newest first: at most limit
// with a sequence below before, which is 0 for the first page. Access is as in
// [Files.List].
func (f *Files) Newest(ctx context.Context, account, group string, before int64, limit int) ([]wire.TransactionRow, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, _, err := f.rows(ctx, account, group, math.MaxInt, limit, selectRows+" AND seq < ? ORDER BY seq DESC LIMIT ?", before)
	return rows, err
}

// Trash returns a page of the files in the trash of a group, as [Files.Newest] does.
func (f *Files) Trash(ctx context.Context, account, group string, before int64, limit int) ([]wire.TransactionRow, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, _, err := f.rows(ctx, account, group, math.MaxInt, limit, selectRows+" AND trash_ns IS NOT NULL AND seq < ? ORDER BY seq DESC LIMIT ?", before)
	return rows, err
}

// rows runs a query that begins with selectRows, for an account that may list the group,
// and returns whether there may be more rows.
func (f *Files) rows(ctx context.Context, account, group string, maxBytes, limit int, query store.Query, bound int64) (list []wire.TransactionRow, more bool, err error) {
	list = []wire.TransactionRow{}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if err := groups.MayList(ctx, tx, group, account); err != nil {
			return err
		}
		size := 0
		for rows, err := range tx.Rows(ctx, query, group, bound, limit) {
			var row wire.TransactionRow
			if err == nil {
				row, err = scanRow(rows, group)
			}
			if err != nil {
				return fmt.Errorf("list files: %w", err)
			}
			list = append(list, row)
			if size += rowBytes + lengthOf(row.Filename) + lengthOf(row.ContentType); size >= maxBytes {
				break
			}
		}
		more = len(list) > 0 && (len(list) == limit || size >= maxBytes)
		return nil
	})
	return list, more, err
}

func lengthOf(text *string) int {
	if text == nil {
		return 0
	}
	return len(*text)
}

func scanRow(rows *sql.Rows, group string) (wire.TransactionRow, error) {
	row := wire.TransactionRow{GroupID: group}
	var timeNS int64
	var name, contentType, backend string
	var size sql.NullInt64
	var gone goneColumns
	err := rows.Scan(append([]any{&row.IPFSHash, &row.Seq, &row.ChangedSeq, &row.TransID, &row.UserID, &row.FileHash, &timeNS, &name, &size, &contentType,
		&backend}, gone.fields()...)...)
	if err != nil {
		return row, err
	}
	stamp := strconv.FormatInt(timeNS, 10)
	row.Backend, row.Timestamp = &backend, &stamp
	fileFacts(&row, name, size, contentType)
	row.Deleted = gone.deletion()
	return row, nil
}

// fileFacts adds name, size and type of a file where they are known.
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
