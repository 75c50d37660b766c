// Package proof checks what a service says about the history of a group against
// the signed checkpoints of its ledger: every record is what it was when it was
// signed, and the history only ever grew. It trusts nothing but a pinned key and
// what it remembers of earlier checks. service/LEDGER.md describes the formats.
//
// What it cannot know: whether the service left out a record from the start. A
// record that was seen once cannot be left out later.
package proof

import (
	"crypto/sha256"
	"encoding/binary"
)

// Row is one record of the ledger with every field that its hash covers.
type Row struct {
	Seq      int64 // place in the ledger, from 1
	TimeNS   int64
	Tx       string
	Kind     string
	Account  string
	Group    string
	Ref      string
	FileHash string
	Detail   string
	Fee      string // yocto, decimal
	Request  string
	Prev     [sha256.Size]byte // hash of the record before, of whatever group
	Hash     [sha256.Size]byte
}

// Sum computes the hash of a record from its fields.
func (r Row) Sum() [sha256.Size]byte {
	var b []byte
	text := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	text("svc-ledger-1")
	b = binary.BigEndian.AppendUint64(b, uint64(r.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(r.TimeNS))
	for _, s := range []string{r.Tx, r.Kind, r.Account, r.Group, r.Ref, r.FileHash, r.Detail, r.Fee, r.Request} {
		text(s)
	}
	return sha256.Sum256(append(b, r.Prev[:]...))
}
