package proof

import "github.com/svcfs/svcfs/sdk/wire"

// Report is the result of [sdk.Group.Verify].
type Report struct {
	Rows   int    `json:"rows"`   // records of the group that this account may see; each is in the signed tree
	Files  int    `json:"files"`  // file records that mount, list and get show, from exactly these records
	Size   int64  `json:"size"`   // records of the whole ledger in the checkpoint
	Root   string `json:"root"`   // base64
	Origin string `json:"origin"` // name of the log
	Key    string `json:"key"`    // verifier key of the log
	Before int64  `json:"before"` // records of the checkpoint seen before, which the new one continues; 0 = none
	Pinned bool   `json:"pinned"` // the key was known before this check
	// Names is the signed root of the living names of the group, in hex, which these records give; "" = the service
	// signs none.
	Names string `json:"names,omitempty"`
	// Opens is what the vault of the service counted, in the checkpoint; nil = the service does not say.
	Opens *wire.Opens `json:"opens,omitempty"`
	// Witness is the verifier key of the required witness, which signed too; "" = no
	// witness is required.
	Witness string `json:"witness,omitempty"`
}
