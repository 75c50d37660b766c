package hosted

import "fmt"

// State is the state of an upload.
type State uint8

// The states. An upload ends recorded, refused or gone. An unsure upload is remembered
// until its outcome is known.
const (
	_          State = iota
	Issued           // the service issued an upload id and a key; nothing was sent
	Stored           // the service has the ciphertext
	Finalizing       // a finalize was sent
	Unsure           // a finalize had no valid answer: the upload may be recorded
	Recorded         // the upload is in the ledger
	Refused          // the upload is certainly not in the ledger
	Gone             // the service does not know the id, or what was recorded has its name no more: start again
	states
)

// Step is an event in an upload.
type Step uint8

// The steps.
const (
	StepStored   Step = iota // the raw transfer was done
	StepFinalize             // a finalize is about to be sent
	StepNoAnswer             // the finalize had no valid answer
	StepRecorded             // the service confirmed the record, or the record is in the ledger
	StepRefused              // the service refused
	StepAbsent               // the service refused, and knows that no earlier finalize is recorded
	StepUnknown              // the service does not know the id, or the ledger has no living record
	steps
)

// next returns the state after a step. 0 means that the step cannot happen.
func (s State) next(step Step) State {
	return [states][steps]State{
		Issued:     {StepStored: Stored, StepFinalize: Finalizing, StepRefused: Refused, StepUnknown: Gone},
		Stored:     {StepFinalize: Finalizing},
		Finalizing: {StepNoAnswer: Unsure, StepRecorded: Recorded, StepRefused: Refused, StepUnknown: Gone},
		// A refusal alone says nothing about an earlier finalize.
		Unsure: {StepFinalize: Unsure, StepNoAnswer: Unsure, StepRecorded: Recorded, StepRefused: Unsure,
			StepAbsent: Refused, StepUnknown: Gone},
	}[s][step]
}

// Step enters the state that follows a step. It panics for a step that cannot happen.
func (s *State) Step(step Step) {
	next := s.next(step)
	if next == 0 {
		panic(fmt.Sprintf("hosted: step %d of an upload in state %d", step, *s))
	}
	*s = next
}
