package trust

// State says how far a client can hold a service to its history.
type State struct {
	Proves  bool   // the service proves what it lists
	Key     string // verifier key of its log; "" = none was seen yet
	Size    int64  // records in the newest verified checkpoint
	Witness string // verifier key of the required witness; "" = none
}
