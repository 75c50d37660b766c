package sdk

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// receipts check what a service says that it recorded.
type receipts struct{ c *Client }

// recorded is the answer of an operation whose result is a sentence: what the service recorded is beside it.
type recorded struct{ wire.Recorded }

// UnmarshalJSON leaves the sentence out.
func (r *recorded) UnmarshalJSON([]byte) error { return nil }

func (r *recorded) readBeside(e envelope) error {
	if e.Records == nil {
		return nil
	}
	if err := call.Decode(e.Records, &r.Records); err != nil || e.Receipt == nil {
		return err
	}
	return call.Decode(e.Receipt, &r.Receipt)
}

// changedFile returns the file of the only record that an answer has. is tells whether that is what was asked.
// after is how many records the group had before.
func (g Group) changedFile(ctx context.Context, after int64, a wire.Recorded,
	is func(*chain.Record) bool) (Entry, error) {
	list, err := g.changedFiles(ctx, after, a, is)
	if err == nil && len(list) != 1 {
		err = g.c.receipts.unconfirmed("change", "file may be changed",
			call.Malformed(errors.New("a change of one file has not one record")))
	}
	if err != nil {
		return Entry{}, err
	}
	return list[0], nil
}

// changedFiles verifies the records that an answer has: each is what was asked, and about another file, all follow
// each other in the chain of the group, and the receipt proves the last one, and so those before. It
// returns the files as [Group.Entries] lists them, but for Tx and for what happens to them later.
func (g Group) changedFiles(ctx context.Context, after int64, a wire.Recorded,
	is func(*chain.Record) bool) ([]Entry, error) {
	list, err := g.c.receipts.ofChanges(ctx, g.ID, after, a, is)
	if err != nil {
		return nil, g.c.receipts.unconfirmed("change", "files may be changed", err)
	}
	return list, nil
}

func (rs receipts) ofChanges(ctx context.Context, g GroupID, after int64, a wire.Recorded,
	is func(*chain.Record) bool) (list []Entry, err error) {
	if len(a.Records) == 0 {
		return nil, nil
	}
	var last chain.Record
	var names []string
	seen := map[string]bool{}
	for i := range a.Records {
		l, err := listedOf(&a.Records[i], g)
		if err != nil {
			return nil, call.Malformed(err)
		}
		if i > 0 && (l.Number != last.Number+1 || l.Prev != last.Sum()) {
			return nil, call.Malformed(errors.New("its records do not follow each other"))
		}
		if l.Number <= after || seen[l.Ref] {
			return nil, call.Malformed(errors.New("its records are of an earlier change"))
		}
		if !rs.isOwn(&l.Record, g) || !is(&l.Record) {
			return nil, call.Malformed(errors.New("its records are of another change"))
		}
		e, err := changedEntry(&l)
		if err != nil {
			return nil, call.Malformed(err)
		}
		e.Group = g
		names = append(names, e.Name)
		e.change(&l.Record)
		names = append(names, e.Name)
		list, last, seen[l.Ref] = append(list, e), l.Record, true
	}
	if err := rs.check(ctx, g, &last, a.Receipt); err != nil {
		return nil, err
	}
	rs.c.uploads.changed(g, names...)
	return list, nil
}

// ofChange verifies that the service recorded what was asked, which is reports, in the name of
// this account. It remembers that the group has come that far.
func (rs receipts) ofChange(ctx context.Context, g GroupID, row *wire.TransactionRow, receipt *wire.ChainHead,
	is func(*chain.Record) bool) (r chain.Record, err error) {
	if row == nil {
		return r, call.Malformed(errNoReceipt)
	}
	if r, err = chainRecord(row, g); err != nil {
		return r, call.Malformed(err)
	}
	if !rs.isOwn(&r, g) || !is(&r) {
		return r, call.Malformed(errors.New("its receipt is for another record"))
	}
	return r, rs.check(ctx, g, &r, receipt)
}

var errNoReceipt = errors.New("a change without a receipt")

// isOwn reports whether a record is in the chain of a group, and of this account.
func (rs receipts) isOwn(r *chain.Record, g GroupID) bool {
	return r.Chain == chain.OfGroup(string(g)) && r.Group == string(g) && r.Account == string(rs.c.account)
}

// check verifies the receipt of a record, and remembers that the group has come that far.
func (rs receipts) check(ctx context.Context, g GroupID, r *chain.Record, receipt *wire.ChainHead) error {
	if receipt == nil {
		return call.Malformed(errNoReceipt)
	}
	place, err := retryWithNewKey(ctx, rs.c, func() (chain.Place, error) { return rs.open(ctx, r, *receipt) })
	if err != nil {
		return err
	}
	return rs.c.log.saw(g, place, 0)
}

// open verifies the signature of a receipt.
func (rs receipts) open(ctx context.Context, r *chain.Record, receipt wire.ChainHead) (chain.Place, error) {
	log, _, err := rs.c.log.open(ctx)
	if err != nil {
		return chain.Place{}, err
	}
	place, err := proof.CheckReceipt(log, r, receipt)
	return place, rs.c.log.refusal(ctx, log, err)
}
