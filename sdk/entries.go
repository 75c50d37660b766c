package sdk

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Entries lists the file records of g whose ChangedSeq is larger than after, in
// that order, deleted ones included. A service without paging answers all of
// them every time; the caller merges by Ref. A row whose hash cannot be read is
// returned with a zero Hash, which no content matches.
//
// Free. Needs membership in g, or an open group. Source: wire protocol 4.4.
func (c *Client) Entries(ctx context.Context, g GroupID, after Seq) ([]Entry, error) {
	paging, err := c.offers(ctx, wire.CapPaging)
	if err != nil {
		return nil, c.wrap("list", g, "", err)
	}
	if !paging {
		entries, err := c.page(ctx, wire.TransactionsRequest{GroupID: string(g)})
		return entries, c.wrap("list", g, "", err)
	}
	var all []Entry
	for {
		request := wire.TransactionsRequest{GroupID: string(g), AfterSeq: int64(after), Limit: wire.MaxPageRows}
		page, err := c.page(ctx, request)
		if err != nil {
			return nil, c.wrap("list", g, "", err)
		}
		all = append(all, page...)
		if len(page) < wire.MaxPageRows {
			return all, nil
		}
		last := page[len(page)-1].ChangedSeq
		if last <= after {
			return nil, c.wrap("list", g, "", malformed(errors.New("pages do not advance")))
		}
		after = last
	}
}

func (c *Client) page(ctx context.Context, request wire.TransactionsRequest) ([]Entry, error) {
	var rows []wire.TransactionRow
	if err := c.read(ctx, wire.OpGetGroupTransactions, request, &rows); err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(rows))
	for _, row := range rows {
		if row.IPFSHash == "" {
			continue // a record without a reference cannot be retrieved
		}
		entries = append(entries, entryOf(GroupID(request.GroupID), row))
	}
	return entries, nil
}

func entryOf(g GroupID, row wire.TransactionRow) Entry {
	e := Entry{Group: g, Ref: Ref(row.IPFSHash), Tx: TxID(strings.Trim(row.TransID, `"`)), Uploader: AccountID(row.UserID),
		Seq: Seq(max(row.Seq, 0)), ChangedSeq: Seq(max(row.ChangedSeq, row.Seq, 0)), Size: SizeUnknown}
	e.Hash, _ = ParseDigest(row.FileHash)
	if row.Timestamp != nil {
		e.Time = parseTime(*row.Timestamp)
	}
	if row.Filename != nil {
		e.Name = *row.Filename
	}
	if row.OriginalSize != nil && *row.OriginalSize >= 0 {
		e.Size = *row.OriginalSize
	}
	if row.ContentType != nil {
		e.ContentType = *row.ContentType
	}
	if row.Deleted != nil {
		e.Deleted = &Deletion{Time: parseTime(row.Deleted.DeletedAt), By: AccountID(row.Deleted.DeletedBy), Reason: row.Deleted.Reason}
	}
	return e
}

// parseTime reads ns since the epoch; anything else is the zero time.
func parseTime(ns string) time.Time {
	n, err := strconv.ParseInt(ns, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Find returns what nameOrRef means in g: the file of exactly that reference,
// else the newest living upload of that name, else the one whose hash starts
// with it (12 digits at least). Free.
func (c *Client) Find(ctx context.Context, g GroupID, nameOrRef string) (Entry, error) {
	entries, err := c.Entries(ctx, g, 0)
	if err != nil {
		return Entry{}, err
	}
	best, rank := -1, 0
	for i, e := range entries {
		r := match(e, nameOrRef)
		if r == 0 || r < rank || r == rank && best >= 0 && entries[best].Seq > e.Seq {
			continue
		}
		best, rank = i, r
	}
	if best < 0 {
		return Entry{}, &Error{Op: "find " + quote(nameOrRef), Group: g, Kind: KindNotFound, Err: errors.New("not found: no file of this name or reference"),
			Hint: "See what there is with: svcfs ls " + string(g)}
	}
	return entries[best], nil
}

const shortHashDigits = 12

func match(e Entry, wanted string) int {
	switch {
	case string(e.Ref) == wanted:
		return 3
	case e.Deleted == nil && e.Name != "" && e.Name == wanted:
		return 2
	case e.Deleted == nil && len(wanted) >= shortHashDigits && strings.HasPrefix(e.Hash.String(), strings.ToLower(wanted)):
		return 1
	default:
		return 0
	}
}
