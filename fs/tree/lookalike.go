package tree

import (
	"cmp"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
)

// GroupMemory remembers in which order an account came to know its groups, also
// before this mount. [Client] implements it.
type GroupMemory interface {
	// GroupOrder returns the how many-th group g was, and counts it when it is new.
	GroupOrder(g sdk.GroupID) int64
}

// thisMount is a GroupMemory that remembers nothing beyond the mount. It is for one
// caller at a time.
type thisMount map[sdk.GroupID]int64

// GroupOrder counts.
func (m thisMount) GroupOrder(g sdk.GroupID) int64 {
	if m[g] == 0 {
		m[g] = int64(len(m) + 1)
	}
	return m[g]
}

// groupSet are groups.
type groupSet map[sdk.GroupID]struct{}

func (s groupSet) has(g sdk.Group) bool {
	_, ok := s[g.ID]
	return ok
}

// isNewsOf reports whether groups came or went.
func isNewsOf(listed []sdk.Group, there groupSet) bool {
	return len(listed) != len(there) || slices.ContainsFunc(listed, func(g sdk.Group) bool { return !there.has(g) })
}

// newcomersOf returns the listed groups that are not there, those first that
// the account came to know first. Of groups it never knew, its own come first.
func newcomersOf(listed []sdk.Group, there groupSet, known GroupMemory) []sdk.Group {
	list := slices.DeleteFunc(slices.Clone(listed), there.has)
	slices.SortStableFunc(list, func(a, b sdk.Group) int {
		switch {
		case a.Owned == b.Owned:
			return strings.Compare(string(a.ID), string(b.ID))
		case a.Owned:
			return -1
		default:
			return 1
		}
	})
	order := make(map[sdk.GroupID]int64, len(list))
	for _, g := range list {
		order[g.ID] = known.GroupOrder(g.ID)
	}
	slices.SortStableFunc(list, func(a, b sdk.Group) int { return cmp.Compare(order[a.ID], order[b.ID]) })
	return list
}

// lookAlikesOf returns which of the newcomers look like a group that is there, or that comes before
// them. The account's own do not count: it named them.
func lookAlikesOf(newcomers []sdk.Group, there groupSet) (list []sdk.GroupID) {
	if len(newcomers) == 0 {
		return nil
	}
	looks := make(map[string]bool)
	for id := range there {
		for _, look := range policy.Looks(string(id)) {
			looks[look] = true
		}
	}
	for _, g := range newcomers {
		own := policy.Looks(string(g.ID))
		if !g.Owned && (looks[own[0]] || looks[own[1]]) {
			list = append(list, g.ID)
		}
		looks[own[0]], looks[own[1]] = true, true
	}
	return list
}
