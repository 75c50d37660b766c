package chain

import (
	"bytes"
	"cmp"
	"slices"
)

// Item is a version of a file, or a recorded folder, at its place in a tree of [Names].
type Item struct {
	Path []Hash // the keys of the components of its name
	Made bool   // it is a recorded folder
	Living
}

// NewItem returns the item of a name; of a file "" = it has none.
func NewItem(name string, made bool, v Living) Item {
	components := componentsOf(name, v.Ref)
	path := make([]Hash, len(components))
	for i, component := range components {
		path[i] = keyOf(component)
	}
	return Item{Path: path, Made: made, Living: v}
}

// Compare orders items as [RootOf] takes them: what is beneath a name follows it, and the newest is the last of its
// name. Two items are equal if they differ in nothing but what is beside the number.
func (i Item) Compare(other Item) int {
	made := func(i Item) int {
		if i.Made {
			return 1
		}
		return 0
	}
	return cmp.Or(slices.CompareFunc(i.Path, other.Path, func(a, b Hash) int { return bytes.Compare(a[:], b[:]) }),
		cmp.Compare(made(i), made(other)), cmp.Compare(i.Number, other.Number))
}

// RootOf computes the root of [Names] from all that lives, one item after the other, and holds no more than the folders
// on the way to the last one. The zero value has no items.
type RootOf struct {
	top ascending
	way []opened // the components of the last item
}

// opened is a component of which more may come.
type opened struct {
	key            Hash
	versions, made Hash // of those that came
	inside         ascending
}

// Add adds the next item: it follows the one before by [Item.Compare].
func (r *RootOf) Add(i Item) {
	same := 0
	for same < min(len(r.way), len(i.Path)) && r.way[same].key == i.Path[same] {
		same++
	}
	r.close(same)
	for _, key := range i.Path[same:] {
		r.way = append(r.way, opened{key: key})
	}
	c := &r.way[len(r.way)-1]
	if one := slices.Values([]Living{i.Living}); i.Made {
		c.made = sumOf(domainMade, c.made, one)
	} else {
		c.versions = sumOf(domainVersion, c.versions, one)
	}
}

// Root returns the root. Nothing may be added afterwards.
func (r *RootOf) Root() Hash {
	r.close(0)
	return r.top.root()
}

// close closes the components but for the first n.
func (r *RootOf) close(n int) {
	for len(r.way) > n {
		last := len(r.way) - 1
		c, in := r.way[last], &r.top
		r.way = r.way[:last]
		if last > 0 {
			in = &r.way[last-1].inside
		}
		sum, inside := Hash{}, c.inside.root()
		if c.made != (Hash{}) || inside != (Hash{}) {
			sum = joined(domainFolder, c.made, inside)
		}
		in.add(c.key, joined(domainComponent, c.key, c.versions, sum))
	}
}

// ascending computes the root of a [trie] whose keys come in ascending order. The zero value has none.
type ascending struct {
	key    Hash   // the last one
	sum    Hash   // of the branch that it is in, as far as it is known; zero = there is no key
	depth  int    // of that branch
	isLeaf bool   // the branch is the leaf of the key, which belongs wherever it is alone
	left   []left // forks above it, of which it is on the right
}

// left is a fork whose left branch is known.
type left struct {
	depth int
	sum   Hash
}

func (a *ascending) add(key, leaf Hash) {
	if a.sum != (Hash{}) {
		fork := 0
		for bit(a.key, fork) == bit(key, fork) {
			fork++
		}
		a.rise(fork + 1)
		a.left = append(a.left, left{fork, a.sum})
	}
	a.key, a.sum, a.isLeaf = key, leaf, true
}

func (a *ascending) root() Hash {
	if a.sum != (Hash{}) {
		a.rise(0)
	}
	return a.sum
}

// rise makes the branch the one at a depth.
func (a *ascending) rise(depth int) {
	for n := len(a.left); n > 0 && a.left[n-1].depth >= depth; n = len(a.left) {
		fork := a.left[n-1]
		a.left = a.left[:n-1]
		a.lift(fork.depth + 1)
		a.sum, a.depth, a.isLeaf = innerHash(fork.sum, a.sum), fork.depth, false
	}
	a.lift(depth)
}

// lift goes up through forks that have nothing beside the branch.
func (a *ascending) lift(depth int) {
	for !a.isLeaf && a.depth > depth {
		a.depth--
		if bit(a.key, a.depth) == 0 {
			a.sum = innerHash(a.sum, Hash{})
		} else {
			a.sum = innerHash(Hash{}, a.sum)
		}
	}
}
