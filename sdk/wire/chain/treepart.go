package chain

import (
	"crypto/sha256"
	"errors"
)

// ErrTreePart means that bytes are no part of a tree of chains.
var ErrTreePart = errors.New("it is no part of a tree of chains")

// TreePart is the part of a [Tree] in which some chains lie, or belong; of the rest it has hashes alone. So who knows
// the root before can compute the one after, when these chains have other ends.
type TreePart struct {
	chains trie[Place]
	beyond bool // another chain was looked for, or moved
}

// Key is under which a tree has a chain.
func Key(chain string) Hash { return sha256.Sum256([]byte(chain)) }

// What a node of an encoded part is. A fork is followed by both branches.
const (
	partNothing = iota
	partHash    // 32 bytes
	partLeaf    // key, number and hash of a chain
	partFork
)

// Part returns the encoded part of the tree for the chains of some keys, which it may have or not. It takes at most
// some 33 bytes for each fork on the way to them.
func (t Tree) Part(keys []Hash) []byte {
	return partOf(nil, t.chains.root, keys, 0)
}

func partOf(b []byte, n *node[Place], keys []Hash, depth int) []byte {
	c := coder{b: b}
	switch {
	case n == nil:
		return append(b, partNothing)
	case len(keys) == 0:
		c.b = append(c.b, partHash)
		c.hash(&n.hash) // each node of a Tree has its own
		return c.b
	case n.leaf != nil:
		c.b = append(c.b, partLeaf)
		codeEnd(&c, n.leaf)
		return c.b
	}
	var sides [2][]Hash
	for _, key := range keys {
		side := bit(key, depth)
		sides[side] = append(sides[side], key)
	}
	b = append(b, partFork)
	for side, branch := range n.branches {
		b = partOf(b, branch, sides[side], depth+1)
	}
	return b
}

func codeEnd(c *coder, l *leaf[Place]) {
	c.hash(&l.key)
	c.number(&l.value.Number)
	c.hash(&l.value.Hash)
}

// ParseTreePart reads what [Tree.Part] wrote. Errors: [ErrTreePart].
func ParseTreePart(raw []byte) (*TreePart, error) {
	p := &TreePart{}
	c := &coder{b: raw, reading: true}
	p.chains.root = p.read(c, Hash{}, 0)
	if c.broken || len(c.b) > 0 {
		return nil, ErrTreePart
	}
	return p, nil
}

// read reads a node. way begins with the bits that lead to it, as many as depth says.
func (p *TreePart) read(c *coder, way Hash, depth int) *node[Place] {
	kind := c.take(1)
	switch {
	case kind == nil || kind[0] == partNothing:
		return nil
	case kind[0] == partLeaf:
		l := &leaf[Place]{}
		codeEnd(c, l)
		for i := range depth {
			c.broken = c.broken || bit(l.key, i) != bit(way, i)
		}
		return &node[Place]{leaf: l}
	case depth == longestPath:
		c.broken = true
		return nil
	case kind[0] == partHash:
		n := &node[Place]{page: &page[Place]{read: func(*node[Place]) { p.beyond = true }}}
		c.hash(&n.hash)
		c.broken = c.broken || n.hash == Hash{}
		return n
	case kind[0] != partFork:
		c.broken = true
		return nil
	}
	n := &node[Place]{}
	n.branches[0] = p.read(c, way, depth+1)
	way[depth/8] |= 0x80 >> (depth % 8)
	n.branches[1] = p.read(c, way, depth+1)
	return n
}

// End returns where the chain of a key ends, the zero value for one that is not in the tree.
func (p *TreePart) End(key Hash) Place {
	if end := p.chains.get(key); end != nil {
		return *end
	}
	return Place{}
}

// Move has the chain of a key end elsewhere.
func (p *TreePart) Move(key Hash, to Place) { p.chains = p.chains.with(key, to) }

// Root returns the root of the whole tree. ok is false after End or Move for a chain that the part is not for.
func (p *TreePart) Root() (root Hash, ok bool) {
	root = p.chains.root.sum()
	return root, !p.beyond
}
