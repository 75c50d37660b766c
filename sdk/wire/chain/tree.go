package chain

import (
	"crypto/sha256"
	"encoding/binary"
)

// Tree holds the newest place of every chain. It is a binary trie over the SHA-256 of the
// names of chains. A branch with one chain is the leaf of that chain, so that the same
// places give the same root in any order. A Tree never changes: [Tree.With] returns another
// one, which shares most of its memory. The zero value is empty.
type Tree struct{ chains trie[Place] }

func (p Place) leafSum(key Hash) Hash {
	b := append(make([]byte, 0, 1+2*sha256.Size+8), 0)
	b = append(b, key[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Number))
	return sha256.Sum256(append(b, p.Hash[:]...))
}

// With returns a tree in which a chain ends at a place.
func (t Tree) With(chain string, p Place) Tree {
	with := t.chains.with(sha256.Sum256([]byte(chain)), p)
	with.root.sum() // so that nothing of it changes again
	return Tree{with}
}

// Root returns the hash over all chains, zero for an empty tree.
func (t Tree) Root() Hash { return t.chains.root.sum() }

// Find returns the end of a chain and its proof: the hash of the other branch at each fork,
// from the root on. It returns false if the tree lacks the chain.
func (t Tree) Find(chain string) (p Place, path []Hash, ok bool) {
	key := sha256.Sum256([]byte(chain))
	found, path := t.chains.seek(key)
	if found == nil || found.key != key {
		return Place{}, nil, false
	}
	return found.value, path, true
}

// Contains reports whether path proves that the tree with this root ends the chain at p.
func Contains(root Hash, chain string, p Place, path []Hash) bool {
	key := sha256.Sum256([]byte(chain))
	sum, ok := climb(key, p.leafSum(key), path)
	return ok && sum == root
}
