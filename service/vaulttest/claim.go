package vaulttest

import (
	"time"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Claimed asks for the key of a file as for a retrieval at a time.
func Claimed(w vaultwire.WrappedKey, at time.Time) vaultwire.OpenFile {
	return vaultwire.OpenFile{WrappedKey: w, Claim: chain.Record{Kind: chain.KindClaim, Account: "reader",
		Chain: chain.OfAccount("reader"), Number: 1, Group: w.Binding.Group, Ref: w.Binding.Ref, TimeNS: at.UnixNano()}}
}
