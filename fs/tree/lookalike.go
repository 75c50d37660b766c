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

// newcomers returns the listed groups that the tree does not have, those first that
// the account came to know first. Of groups it never knew, its own come first. Needs
// Tree.listing.
func (t *Tree) newcomers(listed []sdk.Group) (list []sdk.Group) {
	t.mu.RLock()
	for _, g := range listed {
		if t.groups[g.ID] == nil {
			list = append(list, g)
		}
	}
	t.mu.RUnlock()
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
		order[g.ID] = t.cfg.Known.GroupOrder(g.ID)
	}
	slices.SortStableFunc(list, func(a, b sdk.Group) int { return cmp.Compare(order[a.ID], order[b.ID]) })
	return list
}

// lookAlikes returns which of the newcomers look like a group that comes before
// them. The account's own do not count: it named them. Needs Tree.listing.
func (t *Tree) lookAlikes(newcomers []sdk.Group) (list []sdk.GroupID) {
	if len(newcomers) == 0 {
		return nil
	}
	there := make(map[string]bool)
	t.mu.RLock()
	for id := range t.groups {
		for _, look := range policy.Looks(string(id)) {
			there[look] = true
		}
	}
	t.mu.RUnlock()
	for _, g := range newcomers {
		own := policy.Looks(string(g.ID))
		if !g.Owned && (there[own[0]] || there[own[1]]) {
			list = append(list, g.ID)
		}
		there[own[0]], there[own[1]] = true, true
	}
	return list
}
