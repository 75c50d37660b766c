// Package chain is the part of the ledger on which client and service must agree
// to the byte: the hash of a record, the chains of records, the tree over the
// heads of all chains, and what the service signs about them. service/LEDGER.md
// describes the same for outsiders. The package only computes.
package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Layout is the layout of records, which are numbered and linked in their chain. What is hashed of a record begins
// with it.
const Layout = "svc-ledger-3"

// Tags of records of [Layout]. A record may have other tags: the hash covers every tag,
// and readers ignore unknown ones.
const (
	TagType     = "type"     // media type of the plaintext
	TagUploader = "uploader" // in a later record about a file: its uploader
	TagUploaded = "uploaded" // … the time of the upload, in ns since the epoch
	TagUpload   = "upload"   // … the Number of the upload's record
	TagName     = "name"     // … its name before
	TagFolder   = "folder"   // of a renamed folder: the folder before
	TagFiles    = "files"    // of a renamed folder: how many versions of files have new names
	// TagAttributes: the canonical text of the attributes of a file, in every record about
	// the file; absent = none.
	TagAttributes = "attributes"
	// TagContent: hex hash of a file of format version 2 ([format.Metadata.Content]), in every
	// record about the file. A file with it must be read as version 2, one without as an
	// earlier version; its [Opening] may lack the SHA-256 of the plaintext.
	TagContent = "content"
	// with new attributes, or an end by a setting of the group: the Number of the record that gave the file its name
	TagNamed     = "named"
	TagVersioned = "versioned" // of an upload: [Versioned] if its client knows that a name has versions
	// of an upload: the reference of the version that its content was made from, or "none"
	TagUpon    = "upon"
	TagInvite  = "invite"   // of a new account or member: the id of the invite
	TagMaxUses = "max_uses" // of a window for joining: how many accounts may join; absent = any number
	// TagVouched: the word of the vault that a session of the account asked for the record, in base64url; see
	// [Record.LetsIn]
	TagVouched = "vouched"
)

// Versioned is the value of [TagVersioned].
const Versioned = "yes"

// Hash is a SHA-256.
type Hash = [sha256.Size]byte

// Tag is a named value of a record.
type Tag struct{ Name, Value string }

// Record is one record of the ledger with every field that its hash covers.
type Record struct {
	Seq      int64 // names the record, and ascends in its chain; not hashed
	TimeNS   int64
	Tx       string
	Kind     string
	Account  string // the account that acted
	Group    string
	Ref      string
	FileHash string // of a file: [Opening.Commitment], the same in every record about the file
	Detail   string // depends on the kind: the name, the member, the amount, …
	Fee      string // yocto, decimal
	Request  string // id of the request, as in the service's log
	Prev     Hash   // hash of the record before in the chain

	Chain  string // of the group or the account
	Number int64  // place in the chain, from 1
	Tags   []Tag  // ascending by name, none twice
}

// Row is a record with the hash that the service states for it.
type Row struct {
	Record
	Hash Hash
	// Place is the place in the whole ledger, from 1, which is that of the leaf in the tree; 0 = nobody said
	Place int64
}

// Sum computes the hash of a record from its fields. service/LEDGER.md has the layout
// byte by byte; it never changes.
func (r *Record) Sum() Hash { return Link(r.Prev, r.Body()) }

// Link is the hash of a record from the hash of the one before it in its chain and its body. So who is given the bodies
// of a chain computes where it ends, and learns nothing of what they say.
func Link(prev, body Hash) Hash {
	return sha256.Sum256(append(append(make([]byte, 0, 2*sha256.Size), prev[:]...), body[:]...))
}

// Body is the hash of all fields of a record but Prev. No body has the 64 bytes that a [Link] has.
func (r *Record) Body() Hash {
	b := make([]byte, 0, 1024) // nearly every record fits, so that the buffer stays on the stack
	text := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	text(Layout)
	text(r.Chain)
	number(r.Number)
	number(r.TimeNS)
	for _, s := range [...]string{r.Tx, r.Kind, r.Account, r.Group, r.Ref, r.FileHash, r.Detail, r.Fee, r.Request} {
		text(s)
	}
	number(int64(len(r.Tags)))
	for _, tag := range r.Tags {
		text(tag.Name)
		text(tag.Value)
	}
	return sha256.Sum256(b)
}

// Tag returns the value of a tag, "" if the record lacks the tag.
func (r *Record) Tag(name string) string {
	for _, tag := range r.Tags {
		if tag.Name == name {
			return tag.Value
		}
	}
	return ""
}

// Unvouched returns r without [TagVouched].
func (r *Record) Unvouched() *Record {
	c := *r
	c.Tags = slices.DeleteFunc(slices.Clone(r.Tags), func(t Tag) bool { return t.Name == TagVouched })
	return &c
}

// FlattenTags returns tags as name, value, name, value, ….
func FlattenTags(tags []Tag) []string {
	flat := make([]string, 0, 2*len(tags))
	for _, tag := range tags {
		flat = append(flat, tag.Name, tag.Value)
	}
	return flat
}

// ParseTags reverses [FlattenTags]. It refuses tags that are not ascending by name.
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

// Of returns the name of the chain of a record. Records of files, names, members and
// settings of a group are in the chain of the group. All other records, also retrievals,
// are in the chain of the account that acted, so that a list of a group does not show who
// read what.
func Of(kind, account, group string) string {
	if group != "" && kind != KindClaim {
		return OfGroup(group)
	}
	return OfAccount(account)
}

// OfGroup returns the name of the chain of a group.
func OfGroup(group string) string { return "group:" + group }

// OfAccount returns the name of the chain of an account.
func OfAccount(account string) string { return "account:" + account }

// Place is a place in a chain: the number and the hash of a record. The zero value is
// before the first record.
type Place struct {
	Number int64
	Hash   Hash
}

// PlaceOf returns the place of r in its chain.
func PlaceOf(r *Record) Place { return Place{Number: r.Number, Hash: r.Sum()} }

// Statement is what the service signs about a chain: a head, bound to the request that
// asked for it, or the receipt of a record.
type Statement struct {
	Origin string // of the log, as in its checkpoints
	Chain  string
	Place
	TimeNS int64 // time of the signature
}

// HeadText returns the signed text of a head: the chain ends at Place now. nonce is the
// nonce of the request.
func (s Statement) HeadText(nonce string) []byte { return s.text("svc-head-1", nonce) }

// NamesText returns the signed text of the root of [Names] that the records up to Place give. nonce is the nonce of the
// request.
func (s Statement) NamesText(nonce string, root Hash) []byte {
	return append(s.text("svc-names-1", nonce), hex.EncodeToString(root[:])+"\n"...)
}

// PageText returns the signed text of the end of a page: the records of the list up to Place
// are those of the chain. It says nothing of what follows. nonce is the nonce of the request.
func (s Statement) PageText(nonce string) []byte { return s.text("svc-page-1", nonce) }

// ReceiptText returns the signed text of a receipt: the record is in the chain, and will be
// in the log within [MaxMergeDelaySeconds].
func (s Statement) ReceiptText() []byte { return s.text("svc-receipt-1", "") }

// Kinds of a [Stated].
const (
	StatedHead    = "head"
	StatedNames   = "names"
	StatedPage    = "page"
	StatedReceipt = "receipt"
)

// Stated is a statement with what its text has beside it.
type Stated struct {
	Statement
	Kind  string // a Stated… constant
	Nonce string // of the request; none in a receipt
	Names Hash   // the root of names, of kind StatedNames
}

// Text returns the signed text; nil = there is no such kind.
func (s Stated) Text() []byte {
	switch s.Kind {
	case StatedHead:
		return s.HeadText(s.Nonce)
	case StatedNames:
		return s.NamesText(s.Nonce, s.Names)
	case StatedPage:
		return s.PageText(s.Nonce)
	case StatedReceipt:
		return s.ReceiptText()
	}
	return nil
}

// VaultKey is the key of a vault, which clients seal keys of files to, as the service signs it.
type VaultKey struct {
	Origin   string // of the log, as in its checkpoints
	Epoch    int64
	KEM      int    // identifier of RFC 9180
	Public   []byte // encoded as the KEM says
	NotAfter int64  // seconds since the epoch of Unix
}

// Text returns the signed text of the key. No checkpoint, head or receipt begins like it.
func (k VaultKey) Text() []byte {
	return []byte(strings.Join([]string{"svc-vault-key-1",
		k.Origin, strconv.FormatInt(k.Epoch, 10), strconv.Itoa(k.KEM),
		hex.EncodeToString(k.Public),
		strconv.FormatInt(k.NotAfter, 10), ""}, "\n"))
}

func (s Statement) text(domain, nonce string) []byte {
	return []byte(strings.Join([]string{domain,
		s.Origin, hex.EncodeToString([]byte(s.Chain)), strconv.FormatInt(s.Number, 10),
		hex.EncodeToString(s.Hash[:]),
		strconv.FormatInt(s.TimeNS, 10), nonce, ""}, "\n"))
}

// MaxMergeDelaySeconds is how long after a record a checkpoint may lack it.
const MaxMergeDelaySeconds = 10
