package vaultwire

import (
	"fmt"

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
