package files

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// records returns a piece of the ledger records of a group for a member, with all
// that their hashes cover, and whether there may be more. Who read what is told to
// the owner of the group; others are told what they read themselves.
func (f *Files) records(ctx context.Context, account string, req wire.TransactionsRequest, after int64, limit int) (list []wire.TransactionRow, more bool, err error) {
	list = []wire.TransactionRow{}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		g, err := groups.RequireMember(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		which := []any{req.GroupID, after, chain.KindClaim, account, g.Owner == account}
		if err := understands(ctx, tx, req, after, which); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT seq, tx_id, kind, time_ns, account, ref, file_hash, detail, fee, request, chain, number, tags, prev_hash, hash
			FROM ledger WHERE `+mayBeTold+" ORDER BY seq LIMIT ?", append(which, limit)...)
		if err != nil {
			return fmt.Errorf("list records: %w", err)
		}
		defer rows.Close()
		var prev, hash []byte
		record := newRecordScan(&prev, &hash)
		for size := 0; rows.Next() && size < pieceBytes; {
			row, err := record.next(rows)
			if err != nil {
				return fmt.Errorf("list records: %w", err)
			}
			row.GroupID, row.PrevHash, row.Hash = req.GroupID, hex.EncodeToString(prev), hex.EncodeToString(hash)
			list = append(list, row)
			size += recordBytes(&row)
			more = len(list) == limit || size >= pieceBytes
		}
		return rows.Err()
	})
	return list, more, err
}

// mayBeTold selects the records of a group after a place that an account may see.
const mayBeTold = "group_id = ? AND seq > ? AND (kind <> ? OR account = ? OR ?)"

// understands refuses a client that would call records of a layout it does not
// know forged, before the first piece. Records of the old layout come before all
// others.
func understands(ctx context.Context, tx *store.Tx, req wire.TransactionsRequest, after int64, which []any) error {
	if slices.Contains(req.Layouts, chain.Layout2) || after > max(req.AfterSeq, 0) {
		return nil
	}
	var query store.Query = "SELECT COALESCE(max(seq), 0) FROM ledger WHERE " + mayBeTold
	args := slices.Clone(which)
	if req.Limit > 0 {
		query = "SELECT COALESCE(max(seq), 0) FROM (SELECT seq FROM ledger WHERE " + mayBeTold + " ORDER BY seq LIMIT ?) page"
		args = append(args, min(req.Limit, wire.MaxPageRows))
	}
	var inChain string
	err := tx.QueryRowContext(ctx, "SELECT COALESCE((SELECT chain FROM ledger WHERE seq = ("+query+")), '')", args...).Scan(&inChain)
	if err != nil {
		return fmt.Errorf("look at the newest record: %w", err)
	}
	if inChain != "" {
		return fault.New(wire.CodeValidation, "these records have the layout %s: update svcfs", chain.Layout2)
	}
	return nil
}

// recordScan reads records one by one, into memory that is taken once.
type recordScan struct {
	row    wire.TransactionRow
	timeNS int64
	tags   string
	into   []any
}

// newRecordScan reads more columns behind those of a record.
func newRecordScan(more ...any) *recordScan {
	s := &recordScan{}
	r := &s.row
	s.into = append([]any{&r.Seq, &r.TransID, &r.Kind, &s.timeNS, &r.UserID, &r.IPFSHash, &r.FileHash, &r.Detail, &r.Fee, &r.Request,
		&r.Chain, &r.Number, &s.tags}, more...)
	return s
}

func (s *recordScan) next(rows *sql.Rows) (row wire.TransactionRow, err error) {
	if err := rows.Scan(s.into...); err != nil {
		return row, err
	}
	row = s.row
	stamp := strconv.FormatInt(s.timeNS, 10)
	row.Timestamp, row.ChangedSeq = &stamp, row.Seq
	row.Tags, err = ledger.SplitTags(s.tags)
	return row, err
}

// recordRow is a record that was just made, with the hash before it and its group.
func recordRow(r *chain.Record) *wire.TransactionRow {
	row := wire.RowOf(r)
	row.GroupID, row.PrevHash = r.Group, hex.EncodeToString(r.Prev[:])
	return &row
}

// ListChain passes the records of a group's own chain to each, for whom
// [Files.List] answers, and returns what proves them.
func (f *Files) ListChain(ctx context.Context, account string, req wire.TransactionsRequest, each func([]wire.TransactionRow) error) (proof wire.ChainProof, err error) {
	question := checkpoint.Question{Group: req.GroupID, Nonce: req.Nonce, KnownSize: req.KnownSize}
	var list []wire.TransactionRow // of the piece; each is done with it before the next
	read := func(ctx context.Context, after int64, limit int) (_ []wire.TransactionRow, more bool, err error) {
		proof, err = f.log.Prove(ctx, question, func(tx *store.Tx) error {
			list, more, err = chainRows(ctx, tx, list[:0], account, req.GroupID, after, limit)
			return err
		})
		return list, more, err
	}
	err = inPieces(ctx, req, read, func(last wire.TransactionRow) int64 { return last.Seq }, each)
	return proof, err
}

// selectChain reads a page of a group's chain. What records of the old layout do
// not hold comes from the file's row; for others no file is looked for, as none has
// the reference NULL.
const selectChain = `SELECT ledger.seq, ledger.tx_id, kind, ledger.time_ns, account, ledger.ref, ledger.file_hash, detail, fee, request, chain, number, tags,
	CASE WHEN chain = '' THEN prev_hash END, filename, original_size, content_type
	FROM ledger LEFT JOIN files ON files.ref = CASE WHEN chain = '' AND kind = '` + chain.KindRecord + `' THEN ledger.ref END AND files.seq = ledger.seq
	WHERE ledger.group_id = ? AND kind <> '` + chain.KindClaim + `' AND ledger.seq > ? ORDER BY ledger.seq LIMIT ?`

// chainRows appends to list.
func chainRows(ctx context.Context, tx *store.Tx, list []wire.TransactionRow, account, group string, after int64, limit int) (_ []wire.TransactionRow, more bool, err error) {
	if err := mayList(ctx, tx, group, account); err != nil {
		return nil, false, err
	}
	rows, err := tx.QueryContext(ctx, selectChain, group, after, limit)
	if err != nil {
		return nil, false, fmt.Errorf("list the chain: %w", err)
	}
	defer rows.Close()
	var prev []byte
	var name, contentType sql.NullString
	var size sql.NullInt64
	record := newRecordScan(&prev, &name, &size, &contentType)
	for bytes := 0; rows.Next() && bytes < pieceBytes; {
		row, err := record.next(rows)
		if err != nil {
			return nil, false, fmt.Errorf("list the chain: %w", err)
		}
		if row.Chain == "" {
			row.PrevHash = hex.EncodeToString(prev)
			fileFacts(&row, name.String, size, contentType.String)
		}
		list = append(list, row)
		bytes += recordBytes(&row)
		more = len(list) == limit || bytes >= pieceBytes
	}
	return list, more, rows.Err()
}

// recordBytes is about what a record takes in memory.
func recordBytes(row *wire.TransactionRow) int {
	n := rowBytes + len(row.Detail) + lengthOf(row.Filename)
	for _, text := range row.Tags {
		n += len(text)
	}
	return n
}
