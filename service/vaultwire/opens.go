package vaultwire

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

type (
	// OpenFile asks for the key of a file, for a retrieval.
	OpenFile struct {
		WrappedKey
		// Claim is the record of the retrieval, which is committed. It opens a key once.
		Claim chain.Record
		// Token is that of the session of the account of Claim.
		Token Secret
	}
	// OpenedFile is the key of a file.
	OpenedFile struct {
		Key    Secret // in the clear; nil = it is sealed
		Sealed []byte // for the client, of format.SessionKeyBytes
	}
)

// Check checks that the question has the record of a retrieval of the file. Whether the record is in the log turns out
// later. Errors: [ErrNoClaim].
func (q OpenFile) Check() error {
	c := &q.Claim
	switch {
	case c.Kind != chain.KindClaim || c.Account == "" || c.Chain != chain.OfAccount(c.Account):
		return fmt.Errorf("a record of kind %q in the chain %q: %w", c.Kind, c.Chain, ErrNoClaim)
	case c.Group != q.Binding.Group || c.Ref != q.Binding.Ref:
		return fmt.Errorf("a record of another file: %w", ErrNoClaim)
	}
	return nil
}

// Log is an iterator over the records of the extension: the key of the chain of each, and its place there.
func (e Extension) Log() iter.Seq2[chain.Hash, chain.Place] {
	return func(yield func(chain.Hash, chain.Place) bool) {
		for raw := e.Records; len(raw) >= recordBytes; raw = raw[recordBytes:] {
			at := chain.Place{Number: int64(binary.BigEndian.Uint64(raw[32:])), Hash: chain.Hash(raw[40:recordBytes])}
			if !yield(chain.Hash(raw[:32]), at) {
				return
			}
		}
	}
}
