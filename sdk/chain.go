package sdk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/trust"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// layouts are the layouts of ledger records that this client reads.
var layouts = []string{chain.Layout}

// verified says how far the chain of a group was verified.
type verified struct {
	proof.Cursor
	newest Seq // of the records about files and folders
}

// chains read the records of groups, and remember how far the chain of each was verified.
type chains struct {
	c *Client

	mu       sync.Mutex
	verified map[GroupID]verified
}

// forget forgets what was verified.
func (h *chains) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.verified)
}

// entries lists the file records of g with a ChangedSeq above that of a list, from proven records. Where the
// list is the newest of this client, only what came since is read.
func (h *chains) entries(ctx context.Context, g GroupID, o listing) ([]Entry, error) {
	return retryWithNewKey(ctx, h.c, func() ([]Entry, error) { return h.read(ctx, g, o) })
}

func (h *chains) read(ctx context.Context, g GroupID, o listing) ([]Entry, error) {
	end, err := h.c.lists.begin(ctx, h.c.lists.paged)
	if err != nil {
		return nil, err
	}
	defer end()
	h.mu.Lock()
	from := h.verified[g]
	h.mu.Unlock()
	if o.since == 0 || o.since != from.newest {
		from, o.known = verified{}, nil
	}
	fold := newFolding(h.c.lists, g, from, o.known)
	err = h.readChain(ctx, g, from, fold)
	if errors.Is(err, errNeedsAll) {
		fold.release()
		fold = newFolding(h.c.lists, g, verified{}, nil)
		err = h.readChain(ctx, g, verified{}, fold)
	}
	fold.release()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(fold.entries, func(e Entry) bool { return e.ChangedSeq <= o.since }), nil
}

// readChain gives the records of a group after from to fold, page by page: a page once the
// service has signed it. It returns once all of them are proven. After an error fold may lack some.
func (h *chains) readChain(ctx context.Context, g GroupID, from verified, fold *folding) error {
	log, before, err := h.c.log.open(ctx)
	if err != nil {
		return err
	}
	listing := proof.NewListing(chain.OfGroup(string(g)), from.Cursor, h.past(g), time.Now())
	request := wire.TransactionsRequest{GroupID: string(g), Kinds: wire.KindsChain, Layouts: layouts,
		KnownSize: before.N, AfterSeq: from.Seq, Names: fold.names.isFirst()}
	var page pageOfChain
	marks := int64(0) // what listing holds, in bytes
	defer func() { _ = h.c.lists.hold(-marks) }()
	apply := func() error {
		more := markBytes*int64(listing.Young()) - marks
		marks += more
		if err := h.c.lists.hold(more); err != nil {
			return err
		}
		return fold.apply(ctx, page.take(), h.mostMoved())
	}
	rest, err := h.streamRows(ctx, &request, func(rows []wire.TransactionRow) error {
		for i := range rows {
			row := &rows[i]
			if err := page.add(row, g, listing); err != nil {
				return h.c.log.refusal(ctx, log, err)
			}
			if row.Page == nil {
				continue
			}
			if err := listing.Page(log, *row.Page, request.Nonce); err != nil {
				return h.c.log.refusal(ctx, log, err)
			}
			if err := apply(); err != nil {
				return h.c.log.refusal(ctx, log, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	checkpoint, err := listing.End(log, before, rest.proof, request.Nonce)
	if err != nil {
		return h.c.log.refusal(ctx, log, err)
	}
	if err := apply(); err != nil {
		return h.c.log.refusal(ctx, log, err)
	}
	if fold.names != nil {
		err := fold.names.check.take(log, checkpoint, listing, rest.proof.Names, request.Nonce)
		return h.c.log.refusal(ctx, log, err)
	}
	if fold.end = (verified{listing.Cursor(), fold.newest}); fold.partly {
		return h.seen(g, checkpoint, fold.end)
	}
	return h.learn(g, checkpoint, fold.end)
}

// sawNames remembers a verified root of names.
func (h *chains) sawNames(ctx context.Context, log *proof.Log, g GroupID, signed *wire.SignedNames,
	nonce string) error {
	if signed == nil {
		return nil
	}
	err := h.c.memory.SawNames(string(g), trust.Names{SignedNames: *signed, Nonce: nonce})
	return h.c.log.refusal(ctx, log, err)
}

// mostMoved bounds the work of new names by folders in one list, in bytes of names beside [movedByRecord]: short
// records could make that of very many.
func (h *chains) mostMoved() int64 { return max(maxListBytes, h.c.cfg.MaxFileBytes/2) }

// pageOfChain is the records of a list that nothing proves yet.
type pageOfChain struct {
	records []listedRecord
	bytes   int64
}

// listedRecord is a record with what it commits to, nil where the list does not tell, and with the
// sequence of the upload that a later record is about.
type listedRecord struct {
	chain.Record
	opening *chain.Opening
	upload  int64
}

// add verifies that a row goes on with the list, and keeps its record.
func (p *pageOfChain) add(row *wire.TransactionRow, g GroupID, listing *proof.Listing) error {
	if p.bytes += footprint(row); p.bytes > maxPageBytes {
		return call.Malformed(errNoPages)
	}
	r, err := listedOf(row, g)
	if err != nil {
		return call.Malformed(fmt.Errorf("row %d: %w", row.Seq, err))
	}
	if err := listing.Add(&r.Record); err != nil {
		return err
	}
	p.records = append(p.records, r)
	return nil
}

// take returns the records, until the next add.
func (p *pageOfChain) take() []listedRecord {
	records := p.records
	p.records, p.bytes = records[:0], 0
	return records
}

// streamRows asks for all records after request.AfterSeq with one request, and gives them to take
// as they arrive: a list has no round trip between its pages. After a lost connection it goes on
// behind the last record that take had. It returns what followed the rows, and sets AfterSeq and Nonce to
// those of the last request.
func (h *chains) streamRows(ctx context.Context, request *wire.TransactionsRequest,
	take func([]wire.TransactionRow) error) (rest page, err error) {
	last := request.AfterSeq
	header := h.packed()
	err = h.c.calls.Resume(ctx, call.Free, func() int64 { return last }, func(ctx context.Context) error {
		request.Nonce, request.AfterSeq = rand.Text(), last
		t := h.c.tools.call(wire.OpGetGroupTransactions, request, nil)
		t.Kind, t.Header = call.Once, header
		t.Answer = func(resp *http.Response) error {
			rest = page{}
			in, end, err := call.Unpacked(resp)
			if err != nil {
				return call.Malformed(err)
			}
			defer end()
			err = h.readRows(in, &last, take, &rest)
			if errors.Is(err, wire.ErrRows) || errors.Is(err, call.ErrPacked) {
				return call.Malformed(err)
			}
			return err
		}
		return h.c.calls.Do(ctx, t)
	})
	if err == nil && len(rest.rows) > 0 { // of a service that writes its answers in another way
		err = take(rest.rows)
	}
	return rest, err
}

// packed is the header of a request whose answer may come compressed.
func (h *chains) packed() http.Header {
	header := http.Header{}
	if h.c.calls.IsApart() {
		header.Set("Accept-Encoding", wire.CodingZstd)
	}
	return header
}

// escaped is how many bytes of an answer a byte of a text may take, with room for what is around it.
const escaped = 8

// readRows reads an answer with records. It sets last to the Seq of the last one that take had, and
// rest to what follows them.
func (h *chains) readRows(in io.Reader, last *int64, take func([]wire.TransactionRow) error, rest *page) error {
	list := wire.NewRowReader(io.LimitReader(in, escaped*max(maxListBytes, h.c.cfg.MaxFileBytes/2)))
	for {
		rows, err := list.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = take(rows)
		}
		if err != nil {
			return err
		}
		*last = rows[len(rows)-1].Seq
	}
	raw, err := list.Rest(h.c.tools.limit(wire.OpGetGroupTransactions))
	if err != nil {
		return err
	}
	return h.c.tools.decode(raw, rest)
}

// past returns how far any client of this account has seen a group.
func (h *chains) past(g GroupID) proof.Past {
	p := proof.Past{Place: h.c.memory.Group(string(g))}
	p.Proven, p.Since = h.c.memory.Waiting(string(g))
	return p
}

// learn keeps the verified place of a chain, unless another call got further.
func (h *chains) learn(g GroupID, checkpoint proof.Checkpoint, now verified) error {
	h.mu.Lock()
	if now.Number >= h.verified[g].Number {
		h.verified[g] = now
	}
	h.mu.Unlock()
	return h.seen(g, checkpoint, now)
}

// seen remembers how far a group has come, for all programs of the account.
func (h *chains) seen(g GroupID, checkpoint proof.Checkpoint, now verified) error {
	h.c.memory.Checkpoint(checkpoint.Note, checkpoint.N)
	return h.c.log.saw(g, now.Place, now.Proven())
}

// listedOf converts a row to a record, with what the record commits to: then that gives the
// commitment, so that the hash of the record proves it.
func listedOf(row *wire.TransactionRow, g GroupID) (l listedRecord, err error) {
	if row.Opening != "" {
		o, err := chain.ParseOpening(row.Opening)
		if err != nil {
			return l, err
		}
		l.opening = &o
	}
	l.upload = row.UploadSeq
	if l.Record, err = chainRecord(row, g); err == nil && l.opening != nil {
		l.FileHash = l.opening.Commitment()
	}
	return l, err
}

// chainRecord converts a row without an opening to a record. The group is g if the row leaves the group out.
func chainRecord(row *wire.TransactionRow, g GroupID) (r chain.Record, err error) {
	r = chain.Record{Seq: row.Seq, Tx: row.TransID, Kind: row.Kind, Account: row.UserID, Group: row.GroupID,
		Ref:      row.IPFSHash,
		FileHash: row.FileHash, Detail: row.Detail, Fee: row.Fee, Request: row.Request, Chain: row.Chain,
		Number: row.Number}
	if r.Group == "" {
		r.Group = string(g)
	}
	if row.Timestamp == nil {
		return r, errors.New("it has no time")
	}
	if r.TimeNS, err = strconv.ParseInt(*row.Timestamp, 10, 64); err != nil {
		return r, errors.New("its time is not a number")
	}
	if r.Tags, err = chain.ParseTags(row.Tags); err != nil {
		return r, err
	}
	if row.PrevHash != "" {
		err = decodeHash(row.PrevHash, &r.Prev)
	}
	return r, err
}

// recordedHash parses the hash of a file in a record. A file of format version 2 may have
// none.
func recordedHash(text string) (Digest, error) {
	if text == "" {
		return Digest{}, nil
	}
	return parseDigest(text)
}

// hashText returns a hash in the form of a record, "" for none.
func hashText(h Digest) string {
	if h == (Digest{}) {
		return ""
	}
	return h.String()
}

func decodeHash(text string, into *chain.Hash) error {
	digest, err := parseDigest(text)
	if err != nil {
		return errors.New("its hash is not 64 hex digits")
	}
	*into = chain.Hash(digest)
	return nil
}

// ofUpload verifies that the service recorded the upload, with the commitment of e, and that the record
// follows the first after records of the group. It remembers that the group has come that far. With
// nil attributes e may have any. It returns the file as it is recorded.
func (rs receipts) ofUpload(ctx context.Context, e Entry, after int64,
	a wire.FinalizeUploadResult) (recorded Entry, err error) {
	g := e.Group
	if a.Record == nil || a.Receipt == nil {
		return e, call.Malformed(errors.New("an upload without a receipt"))
	}
	r, err := chainRecord(a.Record, g)
	if err != nil {
		return e, call.Malformed(err)
	}
	if r.Kind != EventUploaded || r.Chain != chain.OfGroup(string(g)) || r.Group != string(g) ||
		r.Account != string(rs.c.account) || r.Ref != string(e.Ref) ||
		r.FileHash != e.Commitment.String() || r.Detail != e.Name {
		return e, call.Malformed(errors.New("its receipt is for another record"))
	}
	recorded = uploadEntry(&r, &chain.Opening{Size: e.Size, Hash: chain.Hash(e.Hash)})
	if recorded.Content != e.Content {
		return e, call.Malformed(errors.New("its receipt is for other blocks than those sent"))
	}
	if e.Attributes != nil && !recorded.attributes().Equal(*e.Attributes) {
		return e, call.Malformed(errors.New("its receipt is for a file with other attributes"))
	}
	if baseOf(recorded.Upon) != baseOf(e.Upon) && !a.Repeated {
		return e, call.Malformed(errors.New("its receipt is for a file made from another version"))
	}
	place, err := retryWithNewKey(ctx, rs.c, func() (chain.Place, error) { return rs.open(ctx, &r, *a.Receipt) })
	if err != nil {
		return e, err
	}
	if place.Number <= after {
		return e, rs.c.log.distrust(fmt.Errorf("the receipt gives the record the number %d in its group, which had %d "+
			"records before", place.Number, after))
	}
	return recorded, rs.c.log.saw(g, place, 0)
}
