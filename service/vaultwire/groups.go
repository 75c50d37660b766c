package vaultwire

import "github.com/svcfs/svcfs/sdk/wire/chain"

type (
	// Follow gives the vault what it lacks of the chain of a group. Without State, Chains and Records it asks how far
	// the vault is.
	Follow struct {
		Group string
		// State is that of an earlier answer, of this vault or another one over the same roots; nil = none. It is
		// looked at where the vault knows nothing of the group.
		State []byte
		// Chains is the part of a tree of the log in which the chain of the group lies, see [chain.Tree.Part]. It is
		// looked at likewise.
		Chains []byte
		// Records follow those that the vault has.
		Records List[chain.Record]
		Keep    bool // a state is wanted: it takes some ms for a group of thousands of members
	}
	// Followed is how far the vault is.
	Followed struct {
		Known bool
		Seq   int64 // of the newest record that the vault has; 0 = none
		// Refused are the numbers of those among Records that change nothing: nobody asked for them, or their account
		// may not make them.
		Refused []int64
		// State is what the vault knows, with its MAC, to be kept for a vault that was started anew; nil = the one
		// before is good enough.
		State []byte
	}
)
