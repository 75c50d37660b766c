package store

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// maxChains bounds the chains that one commit locks by themselves; for more it takes everything. PostgreSQL keeps 64
// locks for each connection that it allows in memory that all share.
const maxChains = 128

// Chains are the chains of the ledger that a write reads for its decision, and appends to. What a group is
// (settings, members, roles, invites, names, files, parts) follows from its chain, and what an account is
// (balance, generation of its key, free changes of a day, ids of uploads, claims) from the chain of the account: who
// reads or changes it in a write names the chain. The zero value names none. It is for a write of a single
// statement that decides by itself, such as a lease, and for rows that only their key's holder knows.
type Chains struct {
	names []string // sorted, each once
	all   bool
	asks  func() []Ask // see [Chains.Asking]; nil = none
}

// Named are chains by their names.
func Named(names ...string) Chains {
	names = slices.Clone(names)
	slices.Sort(names)
	return Chains{names: slices.Compact(names)}
}

// Everything is for a write that cannot name its chains beforehand: sweeps, migrations, imports, other keys of the
// service, accounts that end.
func Everything() Chains { return Chains{all: true} }

// And are the chains of both.
func (c Chains) And(other Chains) Chains {
	both := Named(append(slices.Clip(c.names), other.names...)...)
	both.all, both.asks = c.all || other.all, c.asks
	return both
}

// Has reports whether a chain is among them.
func (c Chains) Has(chain string) bool {
	_, named := slices.BinarySearch(c.names, chain)
	return c.all || named
}

// hold reports whether who holds these chains may make a write that names others.
func (c Chains) hold(other Chains) bool {
	if c.all || other.all {
		return c.all
	}
	for _, name := range other.names {
		if !c.Has(name) {
			return false
		}
	}
	return true
}

// keys are the numbers of the chains' locks, sorted. Two chains with one number wait for each other, which is all.
func (c Chains) keys() []int64 {
	if c.all {
		return nil
	}
	keys := make([]int64, len(c.names))
	for i, name := range c.names {
		sum := sha256.Sum256([]byte(name))
		keys[i] = int64(binary.BigEndian.Uint64(sum[:8]))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Chains are those that the write names which runs now. Of a transaction that reads it is the zero value.
func (t *Tx) Chains() Chains { return t.chains }
