package outbox

// State is the state of an item. See [State.steps] for the ways from one to another.
type State uint8

// The states of an item.
const (
	Waiting   State = iota // for its turn, or for the service
	Sending                // it is on its way
	Recorded               // the service has recorded it: the item is gone from the disk
	Parked                 // the service refused it, or its money is gone: it waits for its user
	Conflict               // somebody saved the name meanwhile: it waits under a name of its own
	Discarded              // its user gave it up, or a newer save took its place: it is gone
)

// step is a way from one state to another, and when it is taken.
type step struct {
	to   State
	when string
}

// steps are all ways out of a state; an item takes no other.
func (s State) steps() []step {
	switch s {
	case Waiting:
		return []step{{Sending, "its turn has come"}, {Parked, "its keys cannot be opened any more, or it is damaged"},
			{Discarded, "discarded, removed, or saved again"}}
	case Sending:
		return []step{{Recorded, "recorded"}, {Waiting, "the service is away, or is to be asked again"},
			{Parked, "refused"},
			{Conflict, "the name has another version than the save replaces"}}
	case Conflict:
		return []step{{Sending, "its turn has come"}, {Parked, "damaged"}, {Discarded, "discarded"}}
	case Parked:
		return []step{{Waiting, "tried again, or moved to another group"},
			{Discarded, "discarded, removed, or saved again"}}
	}
	return nil
}

func (s State) String() string {
	return [...]string{"waiting", "sending", "recorded", "parked", "conflict", "discarded"}[s]
}

// leadsTo reports whether there is a step from s to another state.
func (s State) leadsTo(to State) bool {
	for _, step := range s.steps() {
		if step.to == to {
			return true
		}
	}
	return false
}

// isHere reports whether the item is on the disk.
func (s State) isHere() bool { return s != Recorded && s != Discarded }
