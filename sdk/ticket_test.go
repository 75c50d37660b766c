package sdk

import "testing"

// What may be in the ledger already is given up only when it is known: a refusal says
// nothing about an earlier finalize, and what has ended stays so.
func TestUploadStates(t *testing.T) {
	t.Parallel()
	ended := map[uploadState]bool{uploadRecorded: true, uploadRefused: true, uploadGone: true}
	reached := map[uploadState]bool{uploadIssued: true}
	for state := uploadIssued; state < uploadStates; state++ {
		for step := range uploadSteps {
			next := state.next(step)
			reached[next] = true
			switch {
			case ended[state] && next != 0:
				t.Errorf("step %d leads from the end %d to %d", step, state, next)
			case state == uploadUnsure && next == uploadRefused:
				t.Errorf("step %d ends what may be recorded", step)
			case next == uploadRecorded && state != uploadFinalizing && state != uploadUnsure:
				t.Errorf("step %d records from %d, without a finalize", step, state)
			}
		}
		if !reached[state] {
			t.Errorf("state %d is never reached", state)
		}
	}
}
