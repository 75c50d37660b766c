// Package chain is what client and service must agree on to the byte about the
// ledger: the hash of a record, the chains that records form, the tree over the
// heads of all chains, and what the service signs about them. service/LEDGER.md
// describes the same for outsiders. It does nothing but compute.
package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// Layouts of records, by the text their hash begins with.
const (
	Layout1 = "svc-ledger-1" // numbered and linked through the whole ledger
	Layout2 = "svc-ledger-2" // numbered and linked in their chain
)

// Tags of records of [Layout2]. A record may have others: every tag is hashed,
// and one that is unknown is ignored.
const (
	TagAfter     = "after"     // hex hash of the last record of layout 1, in the first record of layout 2 in the ledger
	TagContinues = "continues" // how many records of layout 1 the chain had, in its first record of layout 2
	TagSize      = "size"      // of the plaintext in bytes
	TagType      = "type"      // media type of the plaintext
	TagUploader  = "uploader"  // in a later record about a file: who uploaded it
	TagUploaded  = "uploaded"  // …, when, in ns since the epoch
	TagUpload    = "upload"    // …, the number of the upload's record in the ledger
	TagName      = "name"      // …, the name it had
	TagMaxUses   = "max_uses"  // of a window for joining: how many may; absent = any number
)

// Hash is a SHA-256.
type Hash = [sha256.Size]byte

// Tag is one fact of a record.
type Tag struct{ Name, Value string }

// Record is one record of the ledger with every field that its hash covers.
type Record struct {
	Seq      int64 // place in the whole ledger, from 1; hashed in layout 1 only
	TimeNS   int64
	Tx       string
	Kind     string
	Account  string // who acted
	Group    string
	Ref      string
	FileHash string
	Detail   string // what else the kind needs: the name, the member, the amount, …
	Fee      string // yocto, decimal
	Request  string // id of the request, as in the service's log
	Prev     Hash   // hash of the record before: in the ledger in layout 1, in the chain in layout 2

	Chain  string // "" in layout 1
	Number int64  // place in the chain, from 1; 0 in layout 1
	Tags   []Tag  // ascending by name, none twice
}

// Row is a record with the hash that it is said to have.
type Row struct {
	Record
	Hash Hash
}

// IsOld tells that the record has [Layout1].
func (r *Record) IsOld() bool { return r.Chain == "" }

// Sum computes the hash of a record from its fields. service/LEDGER.md has both
// layouts byte by byte; neither ever changes.
func (r *Record) Sum() Hash {
	b := make([]byte, 0, 1024) // nearly every record fits, so that none is taken from the heap
	text := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	if r.IsOld() {
		text(Layout1)
		number(r.Seq)
	} else {
		text(Layout2)
		text(r.Chain)
		number(r.Number)
	}
	number(r.TimeNS)
	for _, s := range [...]string{r.Tx, r.Kind, r.Account, r.Group, r.Ref, r.FileHash, r.Detail, r.Fee, r.Request} {
		text(s)
	}
	if !r.IsOld() {
		number(int64(len(r.Tags)))
		for _, tag := range r.Tags {
			text(tag.Name)
			text(tag.Value)
		}
	}
	b = append(b, r.Prev[:]...)
	return sha256.Sum256(b)
}

// Tag returns the value of a tag, "" when the record lacks it.
func (r *Record) Tag(name string) string {
	for _, tag := range r.Tags {
		if tag.Name == name {
			return tag.Value
		}
	}
	return ""
}

// FlattenTags writes tags as names and values in turns.
func FlattenTags(tags []Tag) []string {
	flat := make([]string, 0, 2*len(tags))
	for _, tag := range tags {
		flat = append(flat, tag.Name, tag.Value)
	}
	return flat
}

// ParseTags reads what [FlattenTags] wrote, and refuses tags that are not in
// order.
func ParseTags(flat []string) ([]Tag, error) {
	if len(flat) == 0 {
		return nil, nil
	}
	if len(flat)%2 != 0 {
		return nil, errors.New("a tag without a value")
	}
	tags := make([]Tag, 0, len(flat)/2)
	for i := 0; i < len(flat); i += 2 {
		if i > 0 && flat[i] <= flat[i-2] {
			return nil, errors.New("tags out of order")
		}
		tags = append(tags, Tag{flat[i], flat[i+1]})
	}
	return tags, nil
}

// Of names the chain of a record. Files, names, members and settings of a group
// are in the group's; all else, retrievals too, in that of the account that
// acted: who lists a group learns nothing of what others read.
func Of(kind, account, group string) string {
	if group != "" && kind != KindClaim {
		return OfGroup(group)
	}
	return OfAccount(account)
}

// OfGroup names the chain of a group.
func OfGroup(group string) string { return "group:" + group }

// OfAccount names the chain of an account.
func OfAccount(account string) string { return "account:" + account }

// Place is where a chain ends, or a point in it. The zero value stands before the
// first record.
type Place struct {
	Number int64
	Hash   Hash
}

// Next is the place of r, which follows p, in the chain that r belongs to. In a
// chain of old records the hash is a running one over their hashes, so that the
// first new record holds all of them fast.
func (p Place) Next(r *Record) Place {
	sum := r.Sum()
	if r.IsOld() {
		return p.nextOld(sum)
	}
	return Place{Number: r.Number, Hash: sum}
}

func (p Place) nextOld(sum Hash) Place {
	b := append(make([]byte, 0, 80), "svc-chain-1\x00"...)
	b = append(b, p.Hash[:]...)
	return Place{Number: p.Number + 1, Hash: sha256.Sum256(append(b, sum[:]...))}
}

// After is [Place.Next] for a record of which only layout and hash are known.
func (p Place) After(old bool, sum Hash) Place {
	if old {
		return p.nextOld(sum)
	}
	return Place{Number: p.Number + 1, Hash: sum}
}

// Statement is what the service signs of a chain: a head, bound to the request
// that asked for it, or the receipt of a record.
type Statement struct {
	Origin string // of the log, as in its checkpoints
	Chain  string
	Place
	TimeNS int64 // when it was signed
}

// HeadText is signed to say that a chain ends at a place now. nonce is of the
// request.
func (s Statement) HeadText(nonce string) []byte { return s.text("svc-head-1", nonce) }

// ReceiptText is signed to say that a record is in a chain, and will be in the log
// at the latest [MaxMergeDelaySeconds] later.
func (s Statement) ReceiptText() []byte { return s.text("svc-receipt-1", "") }

func (s Statement) text(domain, nonce string) []byte {
	return []byte(strings.Join([]string{domain, s.Origin, hex.EncodeToString([]byte(s.Chain)), strconv.FormatInt(s.Number, 10), hex.EncodeToString(s.Hash[:]),
		strconv.FormatInt(s.TimeNS, 10), nonce, ""}, "\n"))
}

// MaxMergeDelaySeconds is how long after its record a checkpoint may lack it.
const MaxMergeDelaySeconds = 10
