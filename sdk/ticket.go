package sdk

import (
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
)

// ticketLife is how long a service keeps an upload id.
const ticketLife = 300 * time.Second

// ticket is what the service handed out for one upload, and how far that is.
type ticket struct {
	id         string
	key        *format.Key
	uploadURL  string // path for raw transfer; "" when not offered
	since      time.Time
	lost       time.Time // when an answer was last missed
	state      uploadState
	compressed bool  // what is sealed
	prefetched bool  // it was handed out before it was needed, and may be forgotten since
	after      int64 // how many records the group had before the first finalize, as far as is known
}

// uploadState is how far an upload is.
type uploadState uint8

// The states. An upload ends recorded, refused or gone; one that is unsure is
// remembered until it is known.
const (
	_                uploadState = iota
	uploadIssued                 // there is an upload id and a key, and nothing was sent
	uploadStored                 // the service has the ciphertext
	uploadFinalizing             // a finalize was sent
	uploadUnsure                 // a finalize had no answer, or a false one: it may be recorded
	uploadRecorded               // it is in the ledger
	uploadRefused                // it is certainly not in the ledger
	uploadGone                   // the service does not know the id, and nothing was recorded: begin again
	uploadStates
)

// uploadStep is what happens to an upload.
type uploadStep uint8

// The steps.
const (
	stepStored   uploadStep = iota // the raw transfer was done
	stepFinalize                   // a finalize is about to be sent
	stepNoAnswer                   // it had no answer, or a false one
	stepRecorded                   // it was acknowledged, or found in the ledger
	stepRefused                    // the service refused
	stepUnknown                    // the service does not know the id, and the ledger has no record
	uploadSteps
)

// next returns the state after a step, 0 for a step that cannot happen.
func (s uploadState) next(step uploadStep) uploadState {
	return [uploadStates][uploadSteps]uploadState{
		uploadIssued:     {stepStored: uploadStored, stepFinalize: uploadFinalizing, stepRefused: uploadRefused, stepUnknown: uploadGone},
		uploadStored:     {stepFinalize: uploadFinalizing},
		uploadFinalizing: {stepNoAnswer: uploadUnsure, stepRecorded: uploadRecorded, stepRefused: uploadRefused, stepUnknown: uploadGone},
		// A refusal says nothing about an earlier finalize.
		uploadUnsure: {stepFinalize: uploadUnsure, stepNoAnswer: uploadUnsure, stepRecorded: uploadRecorded, stepRefused: uploadUnsure, stepUnknown: uploadGone},
	}[s][step]
}

func (t *ticket) step(step uploadStep) {
	next := t.state.next(step)
	if next == 0 {
		panic(fmt.Sprintf("sdk: step %d of an upload in state %d", step, t.state))
	}
	t.state = next
}

// refused ends an upload that certainly was not recorded. A prefetched id that the
// service has forgotten is no refusal.
func (t *ticket) refused(err error) {
	if t.prefetched && classify(err) == ErrNotFound {
		t.step(stepUnknown)
		return
	}
	t.step(stepRefused)
}
