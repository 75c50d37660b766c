package trust

// State is how far a client can hold a service to what it says.
type State struct {
	Proves  bool   // the service proves what it lists
	Key     string // verifier key of its log, "" until one was seen
	Size    int64  // records in the newest checkpoint that was verified
	Witness string // verifier key of the witness that is required, "" for none
}
