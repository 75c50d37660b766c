package content

import (
	"fmt"
	"sync/atomic"
)

// State is the state of a file's content. Recorded content never changes: programs
// change a copy in memory, the stage, until the copy is recorded in turn. There is a stage
// in every state but Committed. See [State.Steps] for the ways from one to another.
type State uint32

const (
	Committed State = iota // as recorded, or nothing yet
	Copied                 // the stage equals the committed content
	Changed                // the stage holds something that the ledger has not recorded
	Waiting                // changed: an empty file that was closed, or a link, until its moment comes (W5)
	Sending                // changed: the stage is being sealed and sent, and belongs to the upload
)

// Step is a way from one state to another, and when it is taken.
type Step struct {
	To   State
	When string
}

// Steps are all ways out of a state; [Machine.Move] takes no other.
func (s State) Steps() []Step {
	switch s {
	case Committed:
		return []Step{{Copied, "a program is about to write"}, {Changed, "created, or truncated to nothing"}}
	case Copied:
		return []Step{{Changed, "written, or to be recorded again"},
			{Committed, "closed without a write, or given up"}}
	case Changed:
		return []Step{{Sending, "closed, synced, renamed or linked"},
			{Waiting, "closed while it is empty, or made as a link"},
			{Committed, "the ledger has the same bytes already, or nobody can reach them any more"}}
	case Waiting:
		return []Step{{Changed, "written, or its moment has come"}, {Sending, "synced, renamed or linked"},
			{Committed, "the ledger has the same bytes already, or nobody can reach them any more"}}
	case Sending:
		return []Step{{Committed, "recorded"}, {Changed, "failed"}, {Copied, "recorded behind what others saved (W11)"}}
	}
	return nil
}

func (s State) String() string {
	return [...]string{"committed", "copied", "changed", "waiting", "sending"}[s]
}

// leadsTo reports whether there is a step from s to another state.
func (s State) leadsTo(to State) bool {
	for _, step := range s.Steps() {
		if step.To == to {
			return true
		}
	}
	return false
}

// Machine is the state of one content. The zero value is Committed.
type Machine struct{ now atomic.Uint32 }

// Is reports the state. Without the lock of the content the answer may be out of date at once.
func (m *Machine) Is(s State) bool { return State(m.now.Load()) == s }

// IsStaged reports whether there is a stage, which may differ from the committed content.
func (m *Machine) IsStaged() bool { return !m.Is(Committed) }

// Move takes a step. The error is a mistake of the caller: the table has no such step. It is taken all the same.
func (m *Machine) Move(to State) error {
	if from := State(m.now.Swap(uint32(to))); !from.leadsTo(to) {
		return fmt.Errorf("content that is %s cannot become %s", from, to)
	}
	return nil
}
