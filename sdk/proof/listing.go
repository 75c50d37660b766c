package proof

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Cursor says how far a chain was verified, and where the next listing continues. The zero
// value is before the first record.
type Cursor struct {
	chain.Place       // place of the newest record
	Seq         int64 // ledger sequence of the newest record

	// young are the records that no checkpoint has held yet, the oldest first; the newest
	// is at Place. The list is short, because the service has only
	// [chain.MaxMergeDelaySeconds].
	young []young
	// hidden is how many records are before those, or up to Place, that no checkpoint held and whose hashes are not
	// known, because the cursor began behind them.
	hidden int64
	signed int64 // time of the newest head, in ns since the epoch
}

// young is a record that no checkpoint holds yet, only a signed head.
type young struct {
	hash   chain.Hash
	timeNS int64
	seen   time.Time
}

// Listing verifies the records of one chain, page by page, after a cursor.
type Listing struct {
	chain string
	from  chain.Place
	at    Cursor
	must  Past
	now   time.Time
	old   chain.Place // the last record that is too old to be young: the checkpoint must hold it; zero = none
	crowd int         // how many young records are looked through for old ones
}

// keptYoung is how many of the newest records a listing keeps as young, whatever their times are.
const keptYoung = 4096

// mergeDelay is how long a record may be in no checkpoint.
const mergeDelay = chain.MaxMergeDelaySeconds * time.Second

// Past is what any program of this account has seen of a chain before. The zero value is
// nothing.
type Past struct {
	chain.Place           // place that the chain has passed
	Proven      int64     // number of the last record that a checkpoint held
	Since       time.Time // when a later record was first seen; zero = there is none
}

// NewListing returns a listing of the chain name that starts after a cursor.
func NewListing(name string, after Cursor, must Past, now time.Time) *Listing {
	after.young = append([]young(nil), after.young...)
	return &Listing{chain: name, from: after.Place, at: after, must: must, now: now, crowd: 2 * keptYoung}
}

// Proven returns the number of the last record that a checkpoint holds. It is right once
// End has returned.
func (c Cursor) Proven() int64 { return c.Number - int64(len(c.young)) - c.hidden }

// Cursor returns the end of the records so far.
func (l *Listing) Cursor() Cursor { return l.at }

// Add verifies the next record. It sets r.Prev, which a list leaves out.
func (l *Listing) Add(r *chain.Record) error {
	switch {
	case r.Seq <= l.at.Seq:
		return refuse(r.Seq, "listed after record %d", l.at.Seq)
	case chain.Of(r.Kind, r.Account, r.Group) != l.chain, r.Chain != l.chain:
		return refuse(r.Seq, "it belongs to another chain")
	case r.Number != l.at.Number+1:
		return refuse(r.Seq, "it is number %d of its chain, and follows number %d: one between them was left out",
			r.Number, l.at.Number)
	}
	r.Prev = l.at.Hash
	l.at.Place, l.at.Seq = chain.PlaceOf(r), r.Seq
	if l.at.young = append(l.at.young, young{l.at.Hash, r.TimeNS, l.now}); len(l.at.young) >= l.crowd {
		l.thin(r.TimeNS)
	}
	if l.at.Place.Number == l.must.Number && l.at.Hash != l.must.Hash {
		return refuse(r.Seq, "it, or one before it in its chain, is not the one that was seen before: a name, a "+
			"version, a time or an uploader was changed")
	}
	return nil
}

// thin forgets young records that are too old for that at a time: the checkpoint must hold them, so that a long list
// takes no memory for each record.
func (l *Listing) thin(timeNS int64) {
	n := 0
	for n < len(l.at.young)-keptYoung && timeNS-l.at.young[n].timeNS > int64(mergeDelay) {
		n++
	}
	if n > 0 {
		l.old = chain.Place{Number: l.at.Number - int64(len(l.at.young)-n), Hash: l.at.young[n-1].hash}
		l.at.young, l.at.hidden = append([]young(nil), l.at.young[n:]...), 0
	}
	l.crowd = 2 * max(len(l.at.young), keptYoung)
}

// Young returns how many records the listing keeps because a checkpoint may lack them.
func (l *Listing) Young() int { return len(l.at.young) }

// Page verifies the end of a page: the service signed the records so far. They are no list yet:
// [Listing.End] says whether they are all, and continue the history. nonce is the nonce of the
// request.
func (l *Listing) Page(log *Log, p wire.ChainHead, nonce string) error {
	s, signature, err := ReadHead(p, log, l.chain)
	switch {
	case err != nil:
		return err
	case s.Place != l.at.Place:
		return refuse(l.at.Seq, "the records up to number %d are not those that the service signed: a name, a "+
			"version, a time, an uploader or a hash was changed", l.at.Number)
	case !log.signer.Verify(s.PageText(nonce), signature):
		return refuse(l.at.Seq, "the page that ends there was not signed for this request with the key %s", log.key)
	}
	return nil
}

// End verifies the proof of the last page: the records are all that the service signed for
// the chain, and the history continues the checkpoint before. nonce is the nonce of the
// request.
func (l *Listing) End(log *Log, before Checkpoint, p wire.ChainProof, nonce string) (Checkpoint, error) {
	if err := l.checkHead(log, p.Head, nonce); err != nil {
		return Checkpoint{}, err
	}
	c, err := log.Open(p.Checkpoint)
	if err != nil {
		return c, err
	}
	if !c.HasChains {
		return c, refuse(0, "the checkpoint does not hold the chains of groups, which the service offers")
	}
	if err := c.Continues(before, p.Consistency); err != nil {
		return c, err
	}
	return c, l.checkInclusion(c, p.Chain)
}

// Names verifies the root of the living names that the service signed after the last record, after [Listing.End], and
// returns it. That the records give it is not verified. nonce is the nonce of the request.
func (l *Listing) Names(log *Log, signed wire.SignedNames, nonce string) (stated chain.Hash, err error) {
	s, signature, err := ReadHead(signed.ChainHead, log, l.chain)
	if err != nil {
		return stated, err
	}
	if err := decodeHex(signed.Root, &stated); err != nil {
		return stated, err
	}
	switch {
	case !log.signer.Verify(s.NamesText(nonce, stated), signature):
		return stated, refuse(0, "the root of names was not signed for this request with the key %s: it may be an old "+
			"one", log.key)
	case s.Place != l.at.Place:
		return stated, refuse(0, "the root of names was signed for other records than the %d of the group", l.at.Number)
	}
	return stated, nil
}

// OtherNames is the refusal of a signed root of names after so many records.
func OtherNames(records int64) error {
	return refuse(0, "the service signed another root of names than its own %d records give: it hides a name that "+
		"lives, or shows one that does not", records)
}

// Part is what is verified of a chain of which no record was read.
type Part struct {
	chain.Place            // of the newest record
	Proven      int64      // number of the last record that a checkpoint holds
	Names       chain.Hash // signed root of the living names
	Checkpoint  Checkpoint
}

// Cursor is where the next listing continues, behind what was verified, with the ledger sequence of its end.
func (p Part) Cursor(seq int64) Cursor {
	return Cursor{Place: p.Place, Seq: seq, hidden: max(p.Number-p.Proven, 0)}
}

// OpenPart verifies the proof of an answer without the records of the chain name: the end of the chain and its root of
// names are signed for this request, and not older than what was seen before. That the records since then continue
// those, and give this root, is not verified: who reads the records does both.
func OpenPart(log *Log, name string, before Checkpoint, must Past, p wire.ChainProof, nonce string,
	now time.Time) (part Part, err error) {
	s, _, err := ReadHead(p.Head, log, name)
	if err != nil {
		return part, err
	}
	l := &Listing{chain: name, from: s.Place, at: Cursor{Place: s.Place}, must: must, now: now}
	if part.Checkpoint, err = l.End(log, before, p, nonce); err != nil {
		return part, err
	}
	if p.Names == nil {
		return part, refuse(0, "no root of names was signed")
	}
	part.Names, err = l.Names(log, *p.Names, nonce)
	part.Place = s.Place
	if p.Chain != nil {
		part.Proven = p.Chain.Number
	}
	return part, err
}

// ReadHead parses a signed statement about a chain. It does not verify the signature.
func ReadHead(h wire.ChainHead, log *Log, name string) (s chain.Statement, signature []byte, err error) {
	s = chain.Statement{Origin: log.Origin(), Chain: name, Place: chain.Place{Number: h.Number}}
	if err := decodeHex(h.Hash, &s.Hash); err != nil {
		return s, nil, err
	}
	if s.TimeNS, err = strconv.ParseInt(h.Timestamp, 10, 64); err != nil {
		return s, nil, refuse(0, "the time of the head makes no sense")
	}
	if signature, err = base64.StdEncoding.DecodeString(h.Signature); err != nil {
		return s, nil, refuse(0, "the signature of the head makes no sense")
	}
	return s, signature, nil
}

func decodeHex(text string, into *chain.Hash) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(into) {
		return refuse(0, "a hash is not 64 hex digits")
	}
	copy(into[:], raw)
	return nil
}

func (l *Listing) checkHead(log *Log, head wire.ChainHead, nonce string) error {
	s, signature, err := ReadHead(head, log, l.chain)
	switch {
	case err != nil:
		return err
	case !log.signer.Verify(s.HeadText(nonce), signature):
		return refuse(0, "the end of the list was not signed for this request with the key %s: it may be an old list",
			log.key)
	case s.Number < l.must.Number:
		return refuse(0, "the list has %d records of the group, and %d were seen before: newer ones are left out",
			s.Number, l.must.Number)
	case l.from.Number == l.must.Number && l.from.Hash != l.must.Hash:
		return refuse(0, "the first %d records of the group are not those that were seen before", l.must.Number)
	case s.Number != l.at.Number:
		return refuse(0, "the list has %d records of the group, and the service signed %d", l.at.Number, s.Number)
	case s.Hash != l.at.Hash:
		return refuse(0, "the records listed are not the %d that the service signed: a name, a version, a time, an "+
			"uploader or a hash was changed", s.Number)
	}
	l.at.signed = max(l.at.signed, s.TimeNS)
	return nil
}

// checkInclusion checks that the checkpoint holds the chain, except records that are too
// young. It removes the held records from the young ones.
func (l *Listing) checkInclusion(c Checkpoint, in *wire.ChainInclusion) error {
	var held chain.Place
	if in != nil {
		held.Number = in.Number
		if err := decodeHex(in.Hash, &held.Hash); err != nil {
			return err
		}
		path := make([]chain.Hash, len(in.Path))
		for i, text := range in.Path {
			if decodeHash(text, &path[i]) != nil {
				return refuse(0, "the proof that the group is in the checkpoint makes no sense")
			}
		}
		if !chain.Contains(c.Chains, l.chain, held, path) {
			return refuse(0, "the signed checkpoint of %d records does not hold what the service says of this group",
				c.N)
		}
	}
	for _, known := range []chain.Place{l.at.Place, l.from, l.must.Place, l.old} {
		if held.Number == known.Number && held.Hash != known.Hash {
			return refuse(0, "record %d of this group is another one in the signed checkpoint of %d records",
				held.Number, c.N)
		}
	}
	if !l.must.Since.IsZero() && held.Number <= l.must.Proven && l.now.Sub(l.must.Since) > mergeDelay {
		return refuse(0, "record %d of this group has been in no signed checkpoint since %s", l.must.Proven+1,
			l.must.Since.UTC().Format(time.RFC3339))
	}
	if held.Number < l.old.Number {
		return refuseYoung(held.Number + 1)
	}
	proven := l.at.Proven() // by earlier checkpoints
	if held.Number > l.at.Number {
		return refuse(0, "the signed checkpoint holds %d records of this group, and %d are listed", held.Number,
			l.at.Number)
	}
	if n := held.Number - proven; n <= l.at.hidden {
		l.at.hidden -= max(n, 0)
	} else {
		n -= l.at.hidden
		l.at.hidden = 0
		if l.at.young[n-1].hash != held.Hash {
			return refuse(0, "the first %d records of this group are not those in the signed checkpoint of %d records",
				held.Number, c.N)
		}
		l.at.young = append([]young(nil), l.at.young[n:]...)
	}
	if len(l.at.young) == 0 {
		return nil
	}
	oldest := l.at.young[0]
	if l.at.signed-oldest.timeNS > int64(mergeDelay) || l.now.Sub(oldest.seen) > mergeDelay {
		return refuseYoung(l.at.Number - int64(len(l.at.young)) + 1)
	}
	return nil
}

func refuseYoung(number int64) error {
	return refuse(0, "record %d of this group has been in no signed checkpoint for more than %s", number, mergeDelay)
}

// CheckReceipt verifies a receipt: the signed statement that the record r is in its chain.
// r.Prev must be set.
func CheckReceipt(log *Log, r *chain.Record, receipt wire.ChainHead) (chain.Place, error) {
	s, signature, err := ReadHead(receipt, log, r.Chain)
	switch {
	case err != nil:
		return chain.Place{}, err
	case s.Number != r.Number || s.Hash != r.Sum():
		return chain.Place{}, refuse(0, "the receipt is of another record")
	case !log.signer.Verify(s.ReceiptText(), signature):
		return chain.Place{}, refuse(0, "the receipt was not signed with the key %s", log.key)
	}
	return s.Place, nil
}
