package chain

import "crypto/sha256"

// trie is a binary trie over hashes of names, its keys. A branch with one leaf is that leaf, so that the same
// leaves give the same root in any order. A node without its hash belongs to who changes the trie: it is changed
// in place. One with a hash never changes: others may have it too.
type trie[V summed] struct{ root *node[V] }

// summed is what a leaf holds.
type summed interface {
	leafSum(key Hash) Hash // never zero
}

// node is a leaf, or has two branches; one of them may be nil.
type node[V summed] struct {
	hash     Hash // zero = not computed since it changed; then no node above has its own
	branches [2]*node[V]
	leaf     *leaf[V]
	page     *page[V] // that the node is the top of; nil = of none
}

// page is a part of a trie that is kept elsewhere, and read when somebody goes there.
type page[V summed] struct {
	id      int64
	in      *page[V] // the page in which it was found
	read    func(*node[V])
	isOpen  bool // the node has its branches or its leaf
	changed bool // the part is not what is kept
}

// open returns n, with what is beneath it.
func (n *node[V]) open() *node[V] {
	if n != nil && n.page != nil && !n.page.isOpen {
		n.page.isOpen = true
		n.page.read(n)
	}
	return n
}

// isKept reports whether all of n is as it is kept.
func (n *node[V]) isKept() bool { return n.page != nil && !n.page.changed }

type leaf[V summed] struct {
	key   Hash
	value V
}

// sum returns the hash of n, and computes what is missing beneath.
func (n *node[V]) sum() Hash {
	switch {
	case n == nil:
		return Hash{}
	case n.hash != Hash{}: // also of what is not open
	case n.leaf != nil:
		n.hash = n.leaf.value.leafSum(n.leaf.key)
	default:
		n.hash = innerHash(n.branches[0].sum(), n.branches[1].sum())
	}
	return n.hash
}

func innerHash(left, right Hash) Hash {
	b := append(make([]byte, 0, 1+2*sha256.Size), 1)
	b = append(b, left[:]...)
	return sha256.Sum256(append(b, right[:]...))
}

// bit returns bit i of a key. Bit 0 is the highest bit of the first byte.
func bit(key Hash, i int) int { return int(key[i/8]>>(7-i%8)) & 1 }

// own returns a node like n that may be changed.
func (n *node[V]) own() *node[V] {
	if n.hash == (Hash{}) {
		return n
	}
	if n.page != nil {
		n.page.changed = true
	}
	return &node[V]{branches: n.branches, leaf: n.leaf, page: n.page}
}

// with returns a trie in which key holds a value. t must not be used any more, unless all of it has hashes.
func (t trie[V]) with(key Hash, value V) trie[V] {
	return trie[V]{insert(t.root, &leaf[V]{key, value}, 0)}
}

func insert[V summed](n *node[V], l *leaf[V], depth int) *node[V] {
	switch n = n.open(); {
	case n == nil:
		return &node[V]{leaf: l}
	case n.leaf != nil && n.leaf.key == l.key:
		n = n.own()
		n.leaf = l
		return n
	case n.leaf != nil: // move both leaves down until they differ
		fork := &node[V]{}
		fork.branches[bit(n.leaf.key, depth)] = n
		n = fork
	}
	n = n.own()
	side := bit(l.key, depth)
	n.branches[side] = insert(n.branches[side], l, depth+1)
	return n
}

// without returns a trie that lacks key, as with does.
func (t trie[V]) without(key Hash) trie[V] { return trie[V]{remove(t.root, key, 0)} }

func remove[V summed](n *node[V], key Hash, depth int) *node[V] {
	switch n = n.open(); {
	case n == nil, n.leaf != nil && n.leaf.key == key:
		return nil
	case n.leaf != nil:
		return n
	}
	side := bit(key, depth)
	rest := remove(n.branches[side], key, depth+1)
	if rest == n.branches[side] {
		return n
	}
	other := n.branches[1-side]
	switch {
	case rest == nil && (other == nil || other.open().leaf != nil):
		return other
	case other == nil && rest.open().leaf != nil:
		return rest
	}
	n = n.own()
	n.branches[side] = rest
	return n
}

// seek returns what is where key belongs: nothing, its leaf, or another one. path is the hash of the other branch at
// each fork, from the root on.
func (t trie[V]) seek(key Hash) (found *leaf[V], path []Hash) {
	n := t.root.open()
	for depth := 0; n != nil && n.leaf == nil; depth++ {
		side := bit(key, depth)
		path = append(path, n.branches[1-side].sum())
		n = n.branches[side].open()
	}
	if n == nil {
		return nil, path
	}
	return n.leaf, path
}

// branch returns the largest branch that begins with from and fits, or the leaf or nothing that is there; path is as
// in seek.
func (t trie[V]) branch(from Hash, fits func(*node[V]) bool) (n *node[V], path []Hash) {
	n = t.root.open()
	for depth := 0; n != nil && n.leaf == nil && !(isFirst(from, depth) && fits(n)); depth++ {
		side := bit(from, depth)
		path = append(path, n.branches[1-side].sum())
		n = n.branches[side].open()
	}
	return n, path
}

// isFirst reports whether a key is the first of those that begin with its first bits.
func isFirst(key Hash, bits int) bool {
	for i := bits; i < longestPath; i++ {
		if bit(key, i) != 0 {
			return false
		}
	}
	return true
}

// following returns the first key behind those that begin with the first bits of key, zero if there is none.
func following(key Hash, bits int) (next Hash) {
	for i := bits - 1; i >= 0; i-- {
		if bit(key, i) != 0 {
			continue
		}
		copy(next[:], key[:i/8+1])
		next[i/8] = next[i/8]&(0xff<<(8-i%8)) | 1<<(7-i%8)
		return next
	}
	return Hash{}
}

// get returns the value of a key, nil for none.
func (t trie[V]) get(key Hash) *V {
	n := t.root.open()
	for depth := 0; n != nil && n.leaf == nil; depth++ {
		n = n.branches[bit(key, depth)].open()
	}
	if n == nil || n.leaf.key != key {
		return nil
	}
	return &n.leaf.value
}

// each calls f with every leaf, in the order of the keys.
func (n *node[V]) each(f func(*leaf[V])) {
	switch n = n.open(); {
	case n == nil:
	case n.leaf != nil:
		f(n.leaf)
	default:
		n.branches[0].each(f)
		n.branches[1].each(f)
	}
}

// countsTo returns how many leaves fewer than most n has; it is negative, and not exact, if there are more.
func (n *node[V]) countsTo(most int) int {
	switch {
	case n == nil || most < 0:
		return most
	case n.open().leaf != nil:
		return most - 1
	}
	return n.branches[1].countsTo(n.branches[0].countsTo(most))
}

// longestPath is how many forks a path can have.
const longestPath = 8 * sha256.Size

// climb returns the root of the trie in which the branch with a key at the end of path has the hash sum. ok is false
// for a path that no trie has.
func climb(key, sum Hash, path []Hash) (root Hash, ok bool) {
	if len(path) > longestPath {
		return Hash{}, false
	}
	for depth := len(path) - 1; depth >= 0; depth-- {
		if bit(key, depth) == 0 {
			sum = innerHash(sum, path[depth])
		} else {
			sum = innerHash(path[depth], sum)
		}
	}
	return sum, true
}
