package chain

import (
	"crypto/sha256"
	"encoding/binary"
)

// Tree holds the newest place of every chain. It is a binary trie over the SHA-256 of the
// names of chains. A branch with one chain is the leaf of that chain, so that the same
// places give the same root in any order. A Tree never changes: [Tree.With] returns another
// one, which shares most of its memory. The zero value is empty.
type Tree struct{ root *node }

// node is a leaf, or has two branches; one of them may be nil.
type node struct {
	hash     Hash
	branches [2]*node
	leaf     *leaf
}

type leaf struct {
	key Hash
	Place
}

func (n *node) sum() Hash {
	if n == nil {
		return Hash{}
	}
	return n.hash
}

func newLeaf(l *leaf) *node { return &node{leaf: l, hash: leafHash(l.key, l.Place)} }

func leafHash(key Hash, p Place) Hash {
	b := append(make([]byte, 0, 1+2*sha256.Size+8), 0)
	b = append(b, key[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Number))
	return sha256.Sum256(append(b, p.Hash[:]...))
}

func newInner(branches [2]*node) *node {
	return &node{branches: branches, hash: innerHash(branches[0].sum(), branches[1].sum())}
}

func innerHash(left, right Hash) Hash {
	b := append(make([]byte, 0, 1+2*sha256.Size), 1)
	b = append(b, left[:]...)
	return sha256.Sum256(append(b, right[:]...))
}

// bit returns bit i of a key. Bit 0 is the highest bit of the first byte.
func bit(key Hash, i int) int { return int(key[i/8]>>(7-i%8)) & 1 }

// With returns a tree in which a chain ends at a place.
func (t Tree) With(chain string, p Place) Tree {
	return Tree{insert(t.root, &leaf{sha256.Sum256([]byte(chain)), p}, 0)}
}

func insert(n *node, l *leaf, depth int) *node {
	switch {
	case n == nil, n.leaf != nil && n.leaf.key == l.key:
		return newLeaf(l)
	case n.leaf != nil: // move both leaves down until they differ
		var branches [2]*node
		branches[bit(n.leaf.key, depth)] = n
		n = newInner(branches)
	}
	branches := n.branches
	side := bit(l.key, depth)
	branches[side] = insert(branches[side], l, depth+1)
	return newInner(branches)
}

// Root returns the hash over all chains, zero for an empty tree.
func (t Tree) Root() Hash { return t.root.sum() }

// Find returns the end of a chain and its proof: the hash of the other branch at each fork,
// from the root on. It returns false if the tree lacks the chain.
func (t Tree) Find(chain string) (p Place, path []Hash, ok bool) {
	key := sha256.Sum256([]byte(chain))
	n := t.root
	for depth := 0; n != nil && n.leaf == nil; depth++ {
		side := bit(key, depth)
		path = append(path, n.branches[1-side].sum())
		n = n.branches[side]
	}
	if n == nil || n.leaf.key != key {
		return Place{}, nil, false
	}
	return n.leaf.Place, path, true
}

// Contains reports whether path proves that the tree with this root ends the chain at p.
func Contains(root Hash, chain string, p Place, path []Hash) bool {
	key := sha256.Sum256([]byte(chain))
	if len(path) > 8*len(key) {
		return false
	}
	sum := leafHash(key, p)
	for depth := len(path) - 1; depth >= 0; depth-- {
		if bit(key, depth) == 0 {
			sum = innerHash(sum, path[depth])
		} else {
			sum = innerHash(path[depth], sum)
		}
	}
	return sum == root
}
