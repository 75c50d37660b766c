package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// saltDomain separates salts from all else that is made of the key of a file.
const saltDomain = "svcfs-salt-1"

// saltOf is the salt of what the record of a file commits to. A repeated upload has the same, also after
// a restart; without the key nobody can tell it.
func saltOf(key *format.Key) [chain.SaltBytes]byte {
	mac := hmac.New(sha256.New, key.Bytes())
	_, _ = mac.Write([]byte(saltDomain)) // never fails
	return [chain.SaltBytes]byte(mac.Sum(nil))
}

// ticketLife is how long a service keeps an upload id.
const ticketLife = 300 * time.Second

// ticket is what the service issued for one upload, and the state of the upload.
type ticket struct {
	id         string
	key        *format.Key
	salt       [chain.SaltBytes]byte // of what the record commits to
	uploadURL  string                // path for the raw transfer; "" = not offered
	since      time.Time
	lost       time.Time // when an answer last failed to arrive
	state      uploadState
	compressed bool   // the sealed content is compressed
	attributes string // of the newest finalize
	mixed      bool   // the finalizes had different attributes; any of them may be recorded
	after      int64  // known number of records in the group before the first finalize
}

// uploadState is the state of an upload.
type uploadState uint8

// The states. An upload ends recorded, refused or gone. An unsure upload is remembered
// until its outcome is known.
const (
	_                uploadState = iota
	uploadIssued                 // the service issued an upload id and a key; nothing was sent
	uploadStored                 // the service has the ciphertext
	uploadFinalizing             // a finalize was sent
	uploadUnsure                 // a finalize had no valid answer: the upload may be recorded
	uploadRecorded               // the upload is in the ledger
	uploadRefused                // the upload is certainly not in the ledger
	uploadGone                   // the service does not know the id, and nothing was recorded: start again
	uploadStates
)

// uploadStep is an event in an upload.
type uploadStep uint8

// The steps.
const (
	stepStored   uploadStep = iota // the raw transfer was done
	stepFinalize                   // a finalize is about to be sent
	stepNoAnswer                   // the finalize had no valid answer
	stepRecorded                   // the service confirmed the record, or the record is in the ledger
	stepRefused                    // the service refused
	stepUnknown                    // the service does not know the id, and the ledger has no record
	uploadSteps
)

// next returns the state after a step. 0 means that the step cannot happen.
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
