package tree

import (
	"errors"
	"time"
)

// FailedLook is a look at the ledger that failed.
type FailedLook struct {
	Time  time.Time `json:"time"` // of the newest such failure
	Path  string    `json:"path"` // "/" for the list of groups
	Class string    `json:"class"`
	Error string    `json:"error"`
	Hint  string    `json:"hint,omitempty"`

	class Class
}

// noteLooking keeps the outcome of a look for [Status]. When the service refuses a look,
// or its answer cannot be believed, /.svcfs/errors gets a line; the next line follows when a
// look fails in another way, or fails again after one succeeded.
func (t *Tree) noteLooking(s *source, err error) {
	var failed *Error
	if err != nil && (!errors.As(err, &failed) || failed.Class == ClassInterrupted || t.life.Err() != nil) {
		return
	}
	t.mu.Lock()
	before := s.failed
	if s.failed = nil; failed != nil {
		s.failed = &FailedLook{Time: t.now().UTC(), Path: failed.Path, Class: failed.Class.String(),
			Error: oneLine(failed.Err.Error()),
			Hint:  oneLine(t.hint(failed)), class: failed.Class}
	}
	now := s.failed
	t.mu.Unlock()
	if now == nil || now.class.isAway() || now.class == ClassBudget || before != nil && before.class == now.class &&
		before.Hint == now.Hint {
		return
	}
	t.Note(failed)
}

// failedLook needs Tree.mu.
func (t *Tree) failedLook() *FailedLook {
	newest := t.list.failed
	for _, g := range t.groups {
		if f := g.failed; f != nil && (newest == nil || f.Time.After(newest.Time)) {
			newest = f
		}
	}
	return newest
}
