package proof

// Report tells what [sdk.Group.Verify] found to be in order.
type Report struct {
	Rows   int    `json:"rows"`   // records of the group that this account may see, each in the signed tree
	Files  int    `json:"files"`  // file records that mount, list and get show: made of exactly these; -1 = the service does not prove it
	Size   int64  `json:"size"`   // records of the whole ledger below the checkpoint
	Root   string `json:"root"`   // base64
	Origin string `json:"origin"` // name of the log
	Key    string `json:"key"`    // that signed
	Before int64  `json:"before"` // records of the checkpoint seen before, which this one continues; 0 = none
	Pinned bool   `json:"pinned"` // the key was known before this check
	// Witness is the verifier key of the witness that signed too; "" when none is
	// required.
	Witness string `json:"witness,omitempty"`
}
