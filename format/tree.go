package format

import (
	"crypto/sha256"
	"hash"

	"golang.org/x/mod/sumdb/tlog"
)

// Hash is a hash of the tree over the sealed blocks of a file (RFC 6962).
type Hash = tlog.Hash

// Leaf returns the leaf of a sealed block. It needs no key.
func Leaf(sealed []byte) Hash { return tlog.RecordHash(sealed) }

// Tree computes the root over leaves, which come in order. The zero value has no leaf.
type Tree struct {
	size  int64
	roots []Hash // of the complete subtrees, one for each bit of size, the largest first
}

// Add adds the next leaf.
func (t *Tree) Add(leaf Hash) { t.addComplete(leaf, 1) }

// AddComplete adds the root of a complete subtree of so many leaves, a power of two that
// divides the number of leaves so far.
func (t *Tree) AddComplete(root Hash, leaves int64) { t.addComplete(root, leaves) }

func (t *Tree) addComplete(root Hash, leaves int64) {
	for bit := leaves; t.size&bit != 0; bit <<= 1 {
		last := len(t.roots) - 1
		root = tlog.NodeHash(t.roots[last], root)
		t.roots = t.roots[:last]
	}
	t.roots = append(t.roots, root)
	t.size += leaves
}

// Size returns the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// Root returns the root over all leaves so far; without one it is the SHA-256 of nothing.
func (t *Tree) Root() Hash {
	if len(t.roots) == 0 {
		return sha256.Sum256(nil)
	}
	root := t.roots[len(t.roots)-1]
	for i := len(t.roots) - 2; i >= 0; i-- {
		root = tlog.NodeHash(t.roots[i], root)
	}
	return root
}

// RootOf returns the root over leaves.
func RootOf(leaves []Hash) Hash {
	var t Tree
	for _, leaf := range leaves {
		t.Add(leaf)
	}
	return t.Root()
}

// RootHash computes the root over the leaves of consecutive sealed blocks that are written
// to it, in pieces of any size.
type RootHash struct {
	sealed int64     // bytes of a full sealed block
	leaf   hash.Hash // of the block that is being written; nil = none is
	left   int64     // bytes until it is full
	tree   Tree
}

// NewRootHash returns a hash of sealed blocks of so many bytes each, more than 0. Only the last may be
// shorter.
func NewRootHash(sealed int64) *RootHash { return &RootHash{sealed: sealed} }

// Write never fails.
func (h *RootHash) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if h.leaf == nil {
			h.leaf, h.left = sha256.New(), h.sealed
			h.leaf.Write([]byte{0}) // as RFC 6962 marks a leaf
		}
		piece := p[:min(int64(len(p)), h.left)]
		h.leaf.Write(piece)
		p, h.left = p[len(piece):], h.left-int64(len(piece))
		if h.left == 0 {
			h.tree.Add(Hash(h.leaf.Sum(nil)))
			h.leaf = nil
		}
	}
	return n, nil
}

// Sum appends the root to b, as [RootOf] has it. The last block may be short; nothing may be written
// after it.
func (h *RootHash) Sum(b []byte) []byte {
	if h.leaf != nil {
		h.tree.Add(Hash(h.leaf.Sum(nil)))
		h.leaf = nil
	}
	root := h.tree.Root()
	return append(b, root[:]...)
}
