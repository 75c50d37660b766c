package hosted

import "testing"

// What may be in the ledger already is given up only when it is known: a refusal alone says
// nothing about an earlier finalize, and what has ended stays so.
func TestUploadStates(t *testing.T) {
	t.Parallel()
	ended := map[State]bool{Recorded: true, Refused: true, Gone: true}
	reached := map[State]bool{Issued: true}
	for state := Issued; state < states; state++ {
		for step := range steps {
			next := state.next(step)
			reached[next] = true
			switch {
			case ended[state] && next != 0:
				t.Errorf("step %d leads from the end %d to %d", step, state, next)
			case (state == Unsure && next == Refused) != (state == Unsure && step == StepAbsent):
				t.Errorf("step %d leads from what may be recorded to %d", step, next)
			case next == Recorded && state != Finalizing && state != Unsure:
				t.Errorf("step %d records from %d, without a finalize", step, state)
			}
		}
		if !reached[state] {
			t.Errorf("state %d is never reached", state)
		}
	}
}
