package tree

import (
	"errors"
	"fmt"
	"slices"

	"github.com/svcfs/svcfs/sdk"
)

// continued returns the new records of a listing. It refuses a listing that does not
// continue the ones before: the newest change that this mount knows is missing, or a
// record has appeared or changed in the past. A refused listing changes nothing in the
// mount. The check needs a service that numbers its records. Needs g.listing.
func (t *Tree) continued(g *group, listed []sdk.Entry) ([]sdk.Entry, error) {
	after := g.view.After()
	if after == 0 {
		return listed, nil
	}
	if !slices.ContainsFunc(listed, func(e sdk.Entry) bool { return e.Ref == g.marked }) {
		return nil, rolledBack(g, "record %d is missing, which it told before", after)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i := range listed {
		e := &listed[i]
		known := g.view.Entry(e.Ref)
		if known != nil && known.Folder && e.Folder && e.Seq == 0 { // a later record does not repeat it
			e.Seq = known.Seq
		}
		switch {
		case known == nil && e.Seq <= after:
			return nil, rolledBack(g, "record %d has appeared where there was none", e.Seq)
		case known != nil && known.Seq != 0 && (known.Uploader != e.Uploader || !known.Time.Equal(e.Time) ||
			known.Size >= 0 && e.Size >= 0 && known.Size != e.Size ||
			e.Number >= known.Number && !mayFollow(known, e) || e.Number < known.Number && known.ChangedSeq <= after):
			return nil, rolledBack(g, "record %d says something else of a file than before", e.ChangedSeq)
		case known != nil && (isOther(known.Hash, e.Hash) || isOther(known.Commitment, e.Commitment) ||
			known.Seq != 0 && known.Seq != e.Seq):
			return nil, rolledBack(g, "record %d is not the one it told before", e.Seq)
		}
	}
	return slices.DeleteFunc(listed, func(e sdk.Entry) bool { return e.ChangedSeq <= after }), nil
}

// isOther reports whether two facts of one file differ. One that is not told may be any.
func isOther(known, e sdk.Digest) bool {
	return known != e && known != (sdk.Digest{}) && e != (sdk.Digest{})
}

// mayFollow reports whether the record e can come after the known one: nothing follows a
// deletion, and only a later record brings a removed file back.
func mayFollow(known, e *sdk.Entry) bool {
	switch {
	case known.Deleted == nil:
		return true
	case known.Deleted.InTrash:
		return e.Deleted != nil || e.ChangedSeq > known.ChangedSeq
	default:
		return e.Deleted != nil && !e.Deleted.InTrash
	}
}

func rolledBack(g *group, format string, args ...any) error {
	return &Error{Class: ClassCorrupt, Op: "list", Path: g.dir.Path(),
		Err: errors.New("the service changed the group's history: " + fmt.Sprintf(format, args...)),
		Hint: "Ask the operator whether an old backup was restored; 'svcfs ledger " + string(g.id) +
			" --verify' checks all of it. After an honest restore: svcfs accept-rollback, then mount again."}
}
