package legacy

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/ipfs/go-cid"
)

// builder makes the tree of a file the way importers do: chunks of one size are
// the leaves; nodes of at most Links children above them, filled from the left,
// until one is left, the root. Only ids and sizes are kept.
//
// Nodes are dag-pb blocks around a UnixFS record. Both are protocol buffers of a
// few fields, written here by hand; fields are in the order that dag-pb
// prescribes, links before data.
type builder struct {
	layout Layout
	chunk  []byte
	leaves []link
}

// link names a subtree.
type link struct {
	id    cid.Cid
	bytes uint64 // of the file below it
	total uint64 // of all blocks below it, itself included
}

func newBuilder(l Layout) *builder { return &builder{layout: l} }

// Write takes the next bytes of the file.
func (b *builder) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(b.chunk) == b.layout.Chunk {
			b.flush()
		}
		take := min(len(p), b.layout.Chunk-len(b.chunk))
		b.chunk = append(b.chunk, p[:take]...)
		p = p[take:]
	}
	return n, nil
}

// flush makes a leaf of the chunk.
func (b *builder) flush() {
	size := uint64(len(b.chunk))
	block, codec := b.chunk, uint64(cid.Raw)
	if !b.layout.RawLeaves {
		block, codec = node(nil, unixFSFile(b.chunk, size, nil)), cid.DagProtobuf
	}
	b.leaves = append(b.leaves, link{makeCID(b.layout.Version, codec, sha256.Sum256(block)), size, uint64(len(block))})
	b.chunk = b.chunk[:0]
}

// sum ends the file and returns its id.
func (b *builder) sum() cid.Cid {
	if len(b.chunk) > 0 || len(b.leaves) == 0 { // an empty file is one empty leaf
		b.flush()
	}
	level := b.leaves
	for len(level) > 1 {
		var above []link
		for len(level) > 0 {
			children := level[:min(len(level), b.layout.Links)]
			level = level[len(children):]
			above = append(above, b.parent(children))
		}
		level = above
	}
	return level[0].id
}

func (b *builder) parent(children []link) link {
	var p link
	sizes := make([]uint64, len(children))
	for i, c := range children {
		sizes[i] = c.bytes
		p.bytes += c.bytes
		p.total += c.total
	}
	block := node(children, unixFSFile(nil, p.bytes, sizes))
	p.id = makeCID(b.layout.Version, cid.DagProtobuf, sha256.Sum256(block))
	p.total += uint64(len(block))
	return p
}

// unixFSFile encodes message Data { Type = 1, Data = 2, filesize = 3, repeated
// blocksizes = 4 } of unixfs.proto for a file.
func unixFSFile(data []byte, size uint64, children []uint64) []byte {
	const typeFile = 2
	out := appendVarint(nil, 1, typeFile)
	if len(data) > 0 {
		out = appendBytes(out, 2, data)
	}
	out = appendVarint(out, 3, size)
	for _, n := range children {
		out = appendVarint(out, 4, n)
	}
	return out
}

// node encodes message PBNode { Data = 1, repeated PBLink Links = 2 } with PBLink
// { Hash = 1, Name = 2, Tsize = 3 } of dag-pb.
func node(links []link, data []byte) []byte {
	var out []byte
	for _, l := range links {
		entry := appendBytes(nil, 1, l.id.Bytes())
		entry = appendBytes(entry, 2, nil)
		entry = appendVarint(entry, 3, l.total)
		out = appendBytes(out, 2, entry)
	}
	return appendBytes(out, 1, data)
}

// appendVarint and appendBytes encode a field of a protocol buffer.
func appendVarint(b []byte, field, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, field<<3), value)
}

func appendBytes(b []byte, field uint64, value []byte) []byte {
	b = binary.AppendUvarint(b, field<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}
