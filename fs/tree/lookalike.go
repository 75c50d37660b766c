package tree

import (
	"cmp"
	_ "embed" // the table of characters
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

//go:embed confusables.tsv
var confusablesTable string

// confusables maps characters to what they look like.
var confusables = sync.OnceValue(func() map[rune]string {
	table := make(map[rune]string)
	for line := range strings.Lines(confusablesTable) {
		shape, chars, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		for _, r := range chars {
			table[r] = shape
		}
	}
	return table
})

// looks returns what a group's name looks like: names that have one of their looks
// in common are taken for each other. They are the skeletons of UTS 39, of the name
// and of the name in small letters, without regard to case, spaces, dots at an end
// and what is not seen.
func looks(id sdk.GroupID) [2]string {
	return [2]string{skeleton(string(id)), skeleton(strings.ToLower(string(id)))}
}

func skeleton(name string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(name) {
		shape, ok := confusables()[r]
		switch {
		case ok:
			b.WriteString(shape)
		case !names.IsUnsafe(r) && !unicode.Is(unicode.Variation_Selector, r):
			b.WriteRune(r)
		}
	}
	words := strings.Join(strings.Fields(strings.ToLower(norm.NFKD.String(b.String()))), " ")
	return strings.TrimRight(words, ". ")
}

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
		for _, look := range looks(id) {
			there[look] = true
		}
	}
	t.mu.RUnlock()
	for _, g := range newcomers {
		own := looks(g.ID)
		if !g.Owned && (there[own[0]] || there[own[1]]) {
			list = append(list, g.ID)
		}
		there[own[0]], there[own[1]] = true, true
	}
	return list
}
