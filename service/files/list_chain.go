package files

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// records returns a piece of the ledger records of a group for a member, with everything
// that their hashes cover, and whether there may be more. The owner of the group also
// sees the retrievals of others; other members see only their own.
func (f *Files) records(ctx context.Context, account string, req wire.TransactionsRequest, after int64,
	limit int) (list []wire.TransactionRow, more bool, err error) {
	list = []wire.TransactionRow{}
	if err := f.log.Settle(ctx); err != nil { // whoever knows of a record finds it in the list
		return nil, false, fmt.Errorf("wait for the places of records: %w", err)
	}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		g, err := groups.RequireMember(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		key, err := f.committedListKey(ctx, tx, req.GroupID)
		if err != nil {
			return err
		}
		who := ledger.Viewer{Account: account, IsOwner: g.Owner == account}
		size := 0
		for row, err := range ledger.OfGroup(ctx, tx, req.GroupID, who, after, limit) {
			if err != nil {
				return fmt.Errorf("list records: %w", err)
			}
			list = append(list, committed(row, key))
			if size += recordBytes(&row.TransactionRow); size >= pieceBytes {
				break
			}
		}
		more = len(list) == limit || size >= pieceBytes
		return nil
	})
	return list, more, err
}

// mustRead refuses records to a client that does not read their layout: it would call them forged.
func mustRead(req wire.TransactionsRequest) error {
	if slices.Contains(req.Layouts, chain.Layout) {
		return nil
	}
	return fault.New(wire.CodeValidation, "these records have the layout %s: update svcfs", chain.Layout)
}

// recordRow is a record that was just made, with the hash before it and its group.
func recordRow(r *chain.Record) *wire.TransactionRow {
	row := wire.RowOf(r)
	row.GroupID, row.PrevHash = r.Group, hex.EncodeToString(r.Prev[:])
	return &row
}

// ListChain passes the records of a group's own chain to each and returns their proof.
// Access is as in [Files.List].
func (f *Files) ListChain(ctx context.Context, account string, req wire.TransactionsRequest,
	each func([]wire.TransactionRow) error) (proof wire.ChainProof, err error) {
	if err := mustRead(req); err != nil {
		return proof, err
	}
	question := checkpoint.Question{Group: req.GroupID, Nonce: req.Nonce, KnownSize: req.KnownSize}
	named := question
	named.Names = func(context.Context, *store.Tx, *chain.Names) error { return nil }
	var list []wire.TransactionRow // of the piece; each is done with it before the next
	read := func(ctx context.Context, after int64, limit int) (_ []wire.TransactionRow, more bool, err error) {
		piece := func(tx *store.Tx) error {
			list, more, err = f.chainRows(ctx, tx, list[:0], account, question, after, limit)
			return err
		}
		proof, err = f.log.Prove(ctx, question, piece)
		if err == nil && req.Names && !more { // only the proof of the last piece is kept, and the root is dear
			proof, err = f.log.Prove(ctx, named, piece)
		}
		return list, more, err
	}
	err = inPieces(ctx, req, read, each)
	return proof, err
}

// chainRows appends a piece of the chain to list. It signs the end of each page, and of a
// piece that another one follows.
func (f *Files) chainRows(ctx context.Context, tx *store.Tx, list []wire.TransactionRow, account string,
	q checkpoint.Question, after int64, limit int) (_ []wire.TransactionRow, more bool, err error) {
	l, err := f.lister(ctx, tx, q.Group, account)
	if err != nil {
		return nil, false, err
	}
	size := 0
	ends := map[int]chain.Place{} // of pages, by the place in list
	err = ledger.OfChain(ctx, tx, q.Group, after, limit, func(row ledger.Listed) (bool, error) {
		size += recordBytes(&row.TransactionRow)
		more = len(list)+1 == limit || size >= pieceBytes
		if len(row.Sum) == len(chain.Hash{}) && (more || wire.IsPageEnd(row.Number)) {
			ends[len(list)] = chain.Place{Number: row.Number, Hash: chain.Hash(row.Sum)}
		}
		list = append(list, committed(row, l.key))
		return size < pieceBytes, nil
	})
	if err != nil {
		return nil, false, err
	}
	for i, end := range ends { // after the query: a connection to PostgreSQL has one at a time
		if list[i].Page, err = f.log.SignPage(ctx, tx, q, end); err != nil {
			return nil, false, err
		}
	}
	return list, more, nil
}

// committed is the row of a record as it is listed: with the sequence of the upload that it is about, and with
// what it commits to, where key opens that, instead of the commitment.
func committed(row ledger.Listed, key keys.ListKey) wire.TransactionRow {
	if o, ok := key.Open(row.Upload, row.Sealed); ok && row.FileHash != "" { // retrievals have none
		row.Opening, row.FileHash = o.String(), ""
	}
	if row.Kind != chain.KindRecord {
		row.UploadSeq = row.Upload
	}
	return row.TransactionRow
}

// recordBytes is about the memory of a record.
func recordBytes(row *wire.TransactionRow) int {
	n := rowBytes + len(row.Detail) + lengthOf(row.Filename)
	for _, text := range row.Tags {
		n += len(text)
	}
	return n
}
