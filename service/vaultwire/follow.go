package vaultwire

import (
	"crypto/sha256"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Tree is what a checkpoint says.
type Tree struct {
	Records      int64
	Root, Chains chain.Hash
}

// NoRecords is the tree of a log without records.
func NoRecords() Tree { return Tree{Root: sha256.Sum256(nil)} }

// Extension says how a tree of the log extends the one before.
type Extension struct {
	Tree Tree
	// Records are those that the tree before lacks, in their order: see [AppendRecord]. At most [MostRecords].
	Records []byte
	// Chains is the part of the tree of chains before in which the chains of Records lie, see [chain.Tree.Part].
	Chains []byte
	// Edge is, for the first tree that a vault signs, the roots of its complete subtrees, the largest first, 32 bytes
	// each: see [EdgeOf].
	Edge []byte
}

const (
	// MostRecords bounds the records of an [Extension]: it fits into a frame, however many chains there are.
	MostRecords = 512
	recordBytes = 2 * sha256.Size
	// maxLogRecords bounds the records of a log.
	maxLogRecords = 1 << 48
)

// AppendRecord appends a record to [Extension.Records]: key of its chain, and its body. Number and hash follow from
// the record before it in its chain.
func AppendRecord(b []byte, r *chain.Record) []byte {
	key, body := chain.Key(r.Chain), r.Body()
	return append(append(b, key[:]...), body[:]...)
}

// Placed is a record in its chain.
type Placed struct {
	Chain chain.Hash // key of the chain
	chain.Place
}

// EdgeOf returns the edge of a tree of n records.
func EdgeOf(n int64, r tlog.HashReader) (edge []byte, err error) {
	var indexes []int64
	at := int64(0)
	for level := bits.Len64(uint64(n)) - 1; level >= 0; level-- {
		if n>>level&1 == 1 {
			indexes = append(indexes, tlog.StoredHashIndex(level, at>>level))
			at += 1 << level
		}
	}
	if len(indexes) == 0 {
		return nil, nil
	}
	hashes, err := r.ReadHashes(indexes)
	for _, h := range hashes {
		edge = append(edge, h[:]...)
	}
	return edge, err
}

// Log is a log that is followed: its newest tree. The zero value has none.
type Log struct {
	Tree Tree
	edge []tlog.Hash
}

// Extended returns the log with another tree, which must follow from the records, and where those are. The first one is
// believed, and so is one with an edge after that of no records. Errors: [ErrNotFollowing].
func (l Log) Extended(e Extension) (next Log, records []Placed, err error) {
	begins := l.Tree == (Tree{}) || l.Tree.Records == 0 && len(e.Edge) > 0
	switch {
	case e.Tree.Records < l.Tree.Records || e.Tree.Records > maxLogRecords:
		return l, nil, fmt.Errorf("a tree of %d records after one of %d: %w", e.Tree.Records, l.Tree.Records,
			ErrNotFollowing)
	case (e.Tree == l.Tree || begins) && len(e.Records) > 0:
		return l, nil, fmt.Errorf("records that no tree before lacks: %w", ErrNotFollowing)
	case e.Tree == l.Tree:
		return l, nil, nil
	case begins:
		next, err = begun(e)
		return next, nil, err
	}
	part, err := chain.ParseTreePart(e.Chains)
	if err != nil {
		return l, nil, fmt.Errorf("%w: %w", ErrNotFollowing, err)
	}
	if root, _ := part.Root(); root != l.Tree.Chains {
		return l, nil, fmt.Errorf("its tree of chains is of another tree: %w", ErrNotFollowing)
	}
	if len(e.Records)%recordBytes != 0 || len(e.Records) > MostRecords*recordBytes {
		return l, nil, fmt.Errorf("%d bytes of records: %w", len(e.Records), ErrNotFollowing)
	}
	next = Log{Tree: Tree{Records: l.Tree.Records}, edge: append([]tlog.Hash(nil), l.edge...)}
	for raw := e.Records; len(raw) > 0; raw = raw[recordBytes:] {
		r := Placed{Chain: chain.Hash(raw[:sha256.Size])}
		before := part.End(r.Chain)
		r.Place = chain.Place{Number: before.Number + 1,
			Hash: chain.Link(before.Hash, chain.Hash(raw[sha256.Size:recordBytes]))}
		part.Move(r.Chain, r.Place)
		next.add(tlog.RecordHash(r.Hash[:]))
		records = append(records, r)
	}
	chains, ok := part.Root()
	next.Tree.Root, next.Tree.Chains = chain.Hash(next.root()), chains
	if !ok || next.Tree != e.Tree {
		return l, nil, fmt.Errorf("its records do not give it: %w", ErrNotFollowing)
	}
	return next, records, nil
}

func begun(e Extension) (l Log, err error) {
	l.Tree = e.Tree
	for raw := e.Edge; len(raw) >= tlog.HashSize; raw = raw[tlog.HashSize:] {
		l.edge = append(l.edge, tlog.Hash(raw[:tlog.HashSize]))
	}
	if len(e.Edge) != tlog.HashSize*bits.OnesCount64(uint64(e.Tree.Records)) || l.root() != tlog.Hash(e.Tree.Root) ||
		e.Tree.Records == 0 && e.Tree.Chains != (chain.Hash{}) {
		return Log{}, fmt.Errorf("its edge is not that of it: %w", ErrNotFollowing)
	}
	return l, nil
}

// add adds a leaf to the edge.
func (l *Log) add(h tlog.Hash) {
	for n := l.Tree.Records; n&1 == 1; n >>= 1 {
		last := len(l.edge) - 1
		h, l.edge = tlog.NodeHash(l.edge[last], h), l.edge[:last]
	}
	l.edge = append(l.edge, h)
	l.Tree.Records++
}

func (l *Log) root() tlog.Hash {
	if len(l.edge) == 0 {
		return sha256.Sum256(nil)
	}
	last := len(l.edge) - 1
	root := l.edge[last]
	for i := last - 1; i >= 0; i-- {
		root = tlog.NodeHash(l.edge[i], root)
	}
	return root
}
