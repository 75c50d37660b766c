package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// entries lists the files of a group.
func (c *Client) entries(ctx context.Context, g GroupID, o listing) ([]Entry, error) {
	speaks, err := c.caps.dialect(ctx)
	if err != nil {
		return nil, err
	}
	all, err := speaks.list(ctx, g, o)
	return slices.DeleteFunc(all, func(e Entry) bool { return e.Folder && !o.folders }), err
}

func footprints(rows []wire.TransactionRow) (bytes int64) {
	for i := range rows {
		bytes += footprint(&rows[i])
	}
	return bytes
}

// footprint returns about how much memory a row takes, in bytes.
func footprint(row *wire.TransactionRow) int64 {
	n := rowBytes + len(row.TransID) + len(row.UserID) + len(row.FileHash) + len(row.IPFSHash) + len(row.Detail) +
		len(row.Request)
	for _, text := range row.Tags {
		n += textHead + len(text)
	}
	for _, text := range []*string{row.Filename, row.ContentType, row.Attributes} {
		if text != nil {
			n += len(*text)
		}
	}
	if row.Deleted != nil {
		n += len(row.Deleted.DeletedBy) + len(row.Deleted.Reason)
	}
	return int64(n)
}

// page is some records of a group. From a service with proofs it holds the proof of the
// records.
type page struct {
	rows  recordList
	proof wire.ChainProof
}

// UnmarshalJSON reads the records if the fast path did not.
func (p *page) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &p.rows) }

func (p *page) readBeside(e envelope) error {
	if e.Proof == nil {
		return nil
	}
	return call.Decode(e.Proof, &p.proof)
}

// shortPage is how many records fit into one answer, even with long names.
const shortPage = 500

// page asks for the next records, and reports whether more may follow. It sets the limit of
// the request.
func (h *chains) page(ctx context.Context, request *wire.TransactionsRequest) (p page, more bool, err error) {
	request.Limit = cmp.Or(request.Limit, wire.MaxPageRows)
	err = h.c.read(ctx, wire.OpGetGroupTransactions, *request, &p)
	if errors.Is(err, call.ErrTooMuch) && request.Limit > shortPage {
		request.Limit = shortPage
		err = h.c.read(ctx, wire.OpGetGroupTransactions, *request, &p)
	}
	return p, len(p.rows) >= request.Limit, err
}

func appendEntries(to []Entry, g GroupID, rows []wire.TransactionRow) []Entry {
	to = slices.Grow(to, len(rows))
	for _, row := range rows {
		if row.IPFSHash != "" {
			to = append(to, entryOf(g, row))
		}
	}
	return to
}

func entryOf(g GroupID, row wire.TransactionRow) Entry {
	e := Entry{Group: g, Ref: Ref(row.IPFSHash), Tx: strings.Trim(row.TransID, `"`), Uploader: AccountID(row.UserID),
		Seq: Seq(max(row.Seq, 0)), ChangedSeq: Seq(max(row.ChangedSeq, row.Seq, 0)), Size: SizeUnknown}
	e.Hash, _ = parseDigest(row.FileHash)
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
	if row.Content != nil {
		e.Content, _ = parseDigest(*row.Content)
	}
	if row.Attributes != nil {
		e.Attributes = attributesOf(*row.Attributes, &e)
	}
	if row.Deleted != nil {
		e.Deleted = &Deletion{Time: parseTime(row.Deleted.DeletedAt), By: AccountID(row.Deleted.DeletedBy),
			Reason:  row.Deleted.Reason,
			InTrash: row.Deleted.Trash, Until: parseTime(row.Deleted.Until)}
	}
	return e
}

// parseTime reads ns since the epoch. It returns the zero time for anything else.
func parseTime(ns string) time.Time {
	n, err := strconv.ParseInt(ns, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Named returns what names.List needs of e. Local, free. The age of a name counts from the
// record that gave it: the upload, the newest rename or the return from the trash. New
// attributes do not make a name younger: it would be lost to any other file. A version
// that was deleted or removed by request makes no name old: an account would keep a name so,
// out of sight, and take it later from the file of another. A version that retention or a
// newer version ended still does, because they take old versions from every name: its age is
// that from before its end, or that of its upload where no record tells.
func (e *Entry) Named() names.File {
	f := names.File{Recorded: names.Recorded(e.Name, e.ContentType, cmp.Or(e.Hash, e.Commitment)), Ref: string(e.Ref),
		Seq: int64(e.Seq), Age: cmp.Or(e.NamedNumber, e.Number, int64(e.ChangedSeq)), Deleted: e.Deleted != nil}
	switch {
	case !f.Deleted:
	case e.Deleted.isPolicy():
		f.Age = cmp.Or(e.NamedNumber, int64(e.Seq))
	default:
		f.Age = math.MaxInt64
	}
	return f
}
