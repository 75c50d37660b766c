package files

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
)

// Backends of files: those of this service, and references from before it.
const (
	backendFastFS = "FastFS"
	backendLegacy = "Ipfs"
)

const selectRows = `SELECT ref, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, content_type,
	backend, attributes, content, blob_id, blob_size, ` + selectOpening + ", " + selectGone + ` FROM files
	WHERE group_id = ?`

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
func (f *Files) List(ctx context.Context, account string, req wire.TransactionsRequest,
	each func([]wire.TransactionRow) error) error {
	read := f.byUpload
	switch {
	case req.Kinds == wire.KindsAll:
		if err := mustRead(req); err != nil {
			return err
		}
		read = f.records
	case req.Kinds != "":
		return fault.New(wire.CodeValidation, "kinds %.60q: want %q, %q, or none for the files of the group",
			req.Kinds, wire.KindsChain, wire.KindsAll)
	case req.Limit > 0 || req.AfterSeq > 0:
		return f.listByChange(ctx, account, req, each)
	}
	return inPieces(ctx, req, func(ctx context.Context, after int64, limit int) ([]wire.TransactionRow, bool, error) {
		return read(ctx, account, req, after, limit)
	}, each)
}

// pageOf is how many rows a request asks for.
func pageOf(req wire.TransactionsRequest) int {
	if req.Limit > 0 {
		return min(req.Limit, wire.MaxPageRows)
	}
	return math.MaxInt
}

// inPieces reads a page or the whole list, in the order of Seq. read also returns whether
// there may be more rows.
func inPieces(ctx context.Context, req wire.TransactionsRequest,
	read func(ctx context.Context, after int64, limit int) ([]wire.TransactionRow, bool, error),
	each func([]wire.TransactionRow) error) error {
	for after, left := max(req.AfterSeq, 0), pageOf(req); ; {
		rows, more, err := read(ctx, after, min(left, pieceRows))
		if err != nil {
			return err
		}
		left -= len(rows)
		if err := each(rows); err != nil || !more || left <= 0 {
			return err
		}
		after = rows[len(rows)-1].Seq
	}
}

// listByChange passes rows in the order of change to each. The files of a renamed folder
// have one ChangedSeq. A client that does not name the last row asks for what is behind it next: so a page ends with
// the last of them, and may be longer than its limit.
func (f *Files) listByChange(ctx context.Context, account string, req wire.TransactionsRequest,
	each func([]wire.TransactionRow) error) error {
	changed, seq := max(req.AfterSeq, 0), int64(math.MaxInt64) // of the row before
	if req.AfterUpload != nil && *req.AfterUpload > 0 {
		seq = *req.AfterUpload
	}
	for left := pageOf(req); ; {
		upTo, limit := int64(math.MaxInt64), min(left, pieceRows)
		if left <= 0 {
			if req.AfterUpload != nil {
				return nil
			}
			upTo, limit = changed, pieceRows
		}
		rows, more, err := f.rows(ctx, account, req.GroupID, pieceBytes, limit,
			selectRows+" AND (changed_seq, seq) > (?, ?) AND changed_seq <= ? ORDER BY changed_seq, seq LIMIT ?",
			changed, seq, upTo)
		if err != nil {
			return err
		}
		for i := range rows {
			if d := rows[i].Deleted; d != nil && d.Trash {
				rows[i].Deleted = nil // such a client knows no chains, and would call a file that comes back a rollback
			}
		}
		if len(rows) > 0 {
			changed, seq = rows[len(rows)-1].ChangedSeq, rows[len(rows)-1].Seq
		}
		left -= len(rows)
		if err := each(rows); err != nil || !more {
			return err
		}
	}
}

func (f *Files) byUpload(ctx context.Context, account string, req wire.TransactionsRequest, after int64,
	limit int) ([]wire.TransactionRow, bool, error) {
	return f.rows(ctx, account, req.GroupID, pieceBytes, limit, selectRows+" AND seq > ? ORDER BY seq LIMIT ?", after)
}

const selectTrash = selectRows + " AND trash_ns IS NOT NULL AND seq < ? ORDER BY seq DESC LIMIT ?"

// Trash returns a page of the files in the trash of a group, as [Files.Versions] does.
func (f *Files) Trash(ctx context.Context, account, group string, before int64,
	limit int) ([]wire.TransactionRow, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, _, err := f.rows(ctx, account, group, math.MaxInt, limit, selectTrash, before)
	return rows, err
}

// rows runs a query that begins with selectRows, for an account that may list the group,
// and returns whether there may be more rows. bounds are the arguments of the query between
// group and limit.
func (f *Files) rows(ctx context.Context, account, group string, maxBytes, limit int, query store.Query,
	bounds ...any) (list []wire.TransactionRow, more bool, err error) {
	list = []wire.TransactionRow{}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		l, err := f.lister(ctx, tx, group, account)
		if err != nil {
			return err
		}
		size := 0
		for rows, err := range tx.Rows(ctx, query, append(append([]any{group}, bounds...), limit)...) {
			var row wire.TransactionRow
			if err == nil {
				row, err = l.scan(rows)
			}
			if err != nil {
				return fmt.Errorf("list files: %w", err)
			}
			list = append(list, row)
			if size += rowBytes + lengthOf(row.Filename) + lengthOf(row.ContentType) +
				lengthOf(row.Attributes); size >= maxBytes {
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

// lister reads rows of a group for an account. Its key is zero for who is no member, in a group that is
// open: the rows say then neither hash nor size of a file.
type lister struct {
	group string
	key   keys.ListKey
}

// lister refuses an account that may not list the group.
func (f *Files) lister(ctx context.Context, tx *store.Tx, group, account string) (l lister, err error) {
	l.group = group
	isMember, err := groups.MayList(ctx, tx, group, account)
	if err == nil && isMember {
		l.key, err = f.committedListKey(ctx, tx, group)
	}
	return l, err
}

// scan reads a row of a query that begins with selectRows.
func (l lister) scan(rows store.Row) (wire.TransactionRow, error) {
	row := wire.TransactionRow{GroupID: l.group}
	var timeNS, blobSize int64
	var name, contentType, backend, attributes, content, blobID string
	var sealed []byte
	var gone goneColumns
	err := rows.Scan(append([]any{&row.IPFSHash, &row.Seq, &row.ChangedSeq, &row.TransID, &row.UserID,
		&row.FileHash, &timeNS, &name, &contentType,
		&backend, &attributes, &content, &blobID, &blobSize, &sealed}, gone.fields()...)...)
	if err != nil {
		return row, err
	}
	size := format.SizeUnknown
	if o, ok := l.key.Open(row.Seq, sealed); ok {
		row.FileHash, size = hashText(o.Hash), o.Size
		if size < 0 && backend == backendLegacy && blobID != row.IPFSHash { // the bytes came after the record
			size = blobSize - format.Overhead
		}
	}
	stamp := strconv.FormatInt(timeNS, 10)
	row.Backend, row.Timestamp = &backend, &stamp
	fileFacts(&row, name, size, contentType)
	if attributes != "" {
		row.Attributes = &attributes
	}
	if content != "" {
		row.Content = &content
	}
	row.Deleted = gone.deletion()
	return row, nil
}

// fileFacts adds name, size and type of a file where they are known.
func fileFacts(row *wire.TransactionRow, name string, size int64, contentType string) {
	if name != "" {
		row.Filename = &name
	}
	if contentType != "" {
		row.ContentType = &contentType
	}
	if size >= 0 {
		row.OriginalSize = &size
	}
}
