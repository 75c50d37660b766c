package chain

import (
	"encoding/binary"
	"errors"
	"slices"
)

// ErrProof means that bytes are no proof.
var ErrProof = errors.New("it is no proof of names")

// The first bytes of an encoded proof: its kind, and the layout.
const (
	nameProof   = "svc-name-1\n"
	folderProof = "svc-folder-1\n"
)

// coder writes or reads a proof: numbers have 8 bytes, big-endian, and lists and texts their length in front. One
// description serves both ways.
type coder struct {
	b       []byte // what was written, or is left to read
	reading bool
	broken  bool
}

// take returns the next n bytes to read, nil if there are fewer.
func (c *coder) take(n int) []byte {
	if c.broken = c.broken || n > len(c.b); c.broken {
		return nil
	}
	raw := c.b[:n]
	c.b = c.b[n:]
	return raw
}

func (c *coder) number(n *int64) {
	if !c.reading {
		c.b = binary.BigEndian.AppendUint64(c.b, uint64(*n))
	} else if raw := c.take(8); raw != nil {
		*n = int64(binary.BigEndian.Uint64(raw))
	}
}

// length reads no length of more elements than can follow, each of which has at least size bytes.
func (c *coder) length(n, size int) int {
	length := int64(n)
	c.number(&length)
	if c.broken = c.broken || c.reading && (length < 0 || length > int64(len(c.b)/size)); c.broken {
		return 0
	}
	return int(length)
}

func (c *coder) text(s *string) {
	n := c.length(len(*s), 1)
	if !c.reading {
		c.b = append(c.b, *s...)
	} else {
		*s = string(c.take(n))
	}
}

func (c *coder) hash(h *Hash) {
	if !c.reading {
		c.b = append(c.b, h[:]...)
	} else {
		copy(h[:], c.take(len(h)))
	}
}

// The fewest bytes that an element takes.
const (
	leastHash      = 32
	leastStep      = 8 + 2*leastHash
	leastLiving    = 8 + 8 + leastHash + 8
	leastComponent = 8 + 8 + 2*leastHash
)

// list codes the elements of a list. An empty one is read as nil.
func list[T any](c *coder, l *[]T, least int, each func(*T)) {
	n := c.length(len(*l), least)
	if c.reading && n > 0 {
		*l = slices.Grow([]T(nil), n)[:n]
	}
	for i := range n {
		each(&(*l)[i])
	}
}

func (c *coder) step(s *Step) {
	list(c, &s.Path, leastHash, c.hash)
	c.hash(&s.Files)
	c.hash(&s.Made)
}

func (c *coder) living(v *Living) {
	c.text(&v.Ref)
	c.number(&v.Number)
	c.hash(&v.Hash)
	c.text(&v.Attributes)
}

func (c *coder) component(v *Component) {
	c.text(&v.Name)
	list(c, &v.Versions, leastLiving, c.living)
	c.hash(&v.Older)
	c.hash(&v.Folder)
}

func (c *coder) nameProof(p *NameProof) {
	list(c, &p.Way, leastStep, c.step)
	list(c, &p.Path, leastHash, c.hash)
	var others []Other // one or none
	if p.Other != nil {
		others = []Other{*p.Other}
	}
	list(c, &others, 3*leastHash, func(o *Other) {
		c.hash(&o.Key)
		c.hash(&o.Versions)
		c.hash(&o.Folder)
	})
	if c.broken = c.broken || len(others) > 1; len(others) == 1 {
		p.Other = &others[0]
	}
	list(c, &p.Versions, leastLiving, c.living)
	c.hash(&p.Older)
	c.hash(&p.Folder)
}

func (c *coder) folderProof(p *FolderProof) {
	list(c, &p.Way, leastStep, c.step)
	list(c, &p.Made, leastLiving, c.living)
	list(c, &p.Path, leastHash, c.hash)
	list(c, &p.Inside, leastComponent, c.component)
}

// Encode returns the proof as bytes, for [ParseNameProof].
func (p NameProof) Encode() []byte {
	c := coder{b: []byte(nameProof)}
	c.nameProof(&p)
	return c.b
}

// Encode returns the proof as bytes, for [ParseFolderProof].
func (p FolderProof) Encode() []byte {
	c := coder{b: []byte(folderProof)}
	c.folderProof(&p)
	return c.b
}

// ParseNameProof reverses [NameProof.Encode], and takes no other bytes: else the error is [ErrProof]. The
// proof takes a small multiple of the memory of raw, and nothing of raw.
func ParseNameProof(raw []byte) (p NameProof, err error) {
	err = parse(raw, nameProof, func(c *coder) { c.nameProof(&p) })
	return p, err
}

// ParseFolderProof reverses [FolderProof.Encode], as ParseNameProof does.
func ParseFolderProof(raw []byte) (p FolderProof, err error) {
	err = parse(raw, folderProof, func(c *coder) { c.folderProof(&p) })
	return p, err
}

func parse(raw []byte, kind string, read func(*coder)) error {
	c := coder{b: raw, reading: true}
	if string(c.take(len(kind))) != kind {
		return ErrProof
	}
	if read(&c); c.broken || len(c.b) > 0 {
		return ErrProof
	}
	return nil
}
