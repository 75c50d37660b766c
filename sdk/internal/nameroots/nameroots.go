// Package nameroots computes the roots of the living names of a group from parts of them, each of which fits into
// memory, where all of them would not. Parts lie in a file without a name, sealed with a key that is in memory alone.
package nameroots

import (
	"container/heap"
	"context"
	"io"
	"slices"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Change is something that lives under its name from a place of the chain on, or does not any more.
type Change struct {
	chain.Item
	At   int // which of the places
	Gone bool
}

// compare orders changes: all of one item together, and what is gone before what comes in its place.
func (c *Change) compare(other *Change) int {
	number := func(c *Change) int {
		if c.Gone {
			return 2 * c.At
		}
		return 2*c.At + 1
	}
	if order := c.Item.Compare(other.Item); order != 0 {
		return order
	}
	return number(c) - number(other)
}

// Roots computes a root for each of some places of a chain. Make one with [New], and end it with Close. It is for one
// goroutine.
type Roots struct {
	dir   string
	roots []chain.RootOf // by place
	spool *spool         // nil = nothing was put on disk
	runs  []*run
	last  []Change // in memory
}

// New returns roots for so many places. What does not fit into memory lies in a folder.
func New(places int, dir string) *Roots { return &Roots{dir: dir, roots: make([]chain.RootOf, places)} }

// Close gives the disk back.
func (r *Roots) Close() {
	if r.spool != nil {
		r.spool.close()
	}
}

// Add adds the changes of a part, all of the items in it: no other part has one of them. It changes their order. With
// more, other parts follow, and it keeps nothing of them; else they stay in memory.
func (r *Roots) Add(changes []Change, more bool) (err error) {
	slices.SortFunc(changes, func(a, b Change) int { return a.compare(&b) })
	if !more {
		r.last = changes
		return nil
	}
	if r.spool == nil {
		if r.spool, err = openSpool(r.dir); err != nil {
			return err
		}
	}
	out := r.spool.begin()
	var code coder
	for i := range changes {
		if _, err := out.Write(code.encode(&changes[i])); err != nil {
			return err
		}
	}
	done, err := out.done()
	r.runs = append(r.runs, done)
	return err
}

// Sum returns the roots, by their places. Nothing may be added afterwards.
func (r *Roots) Sum(ctx context.Context) (roots []chain.Hash, err error) {
	var parts merged
	for _, run := range r.runs {
		if err := parts.add(&stored{in: run.reader()}); err != nil {
			return nil, err
		}
	}
	if err := parts.add((*held)(&r.last)); err != nil {
		return nil, err
	}
	var item []Change // the changes of one
	for len(parts) > 0 {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c := parts[0].change
		if len(item) > 0 && c.Item.Compare(item[0].Item) != 0 {
			r.put(item)
			item = item[:0]
		}
		item = append(item, c)
		if err := parts.step(); err != nil {
			return nil, err
		}
	}
	r.put(item)
	for i := range r.roots {
		roots = append(roots, r.roots[i].Root())
	}
	return roots, nil
}

// put adds an item to the roots of the places at which it lives.
func (r *Roots) put(changes []Change) {
	var lives *Change
	for at := range r.roots {
		for ; len(changes) > 0 && changes[0].At == at; changes = changes[1:] {
			if lives = nil; !changes[0].Gone {
				lives = &changes[0]
			}
		}
		if lives != nil {
			r.roots[at].Add(lives.Item)
		}
	}
}

// source gives the changes of a part in their order, io.EOF after the last one.
type source interface{ next() (Change, error) }

// held is a part in memory.
type held []Change

func (h *held) next() (c Change, err error) {
	if len(*h) == 0 {
		return c, io.EOF
	}
	c, *h = (*h)[0], (*h)[1:]
	return c, nil
}

// merged gives the changes of all parts in their order: a heap of the next one of each.
type merged []waiting

type waiting struct {
	change Change
	of     source
}

func (m merged) Len() int           { return len(m) }
func (m merged) Less(i, j int) bool { return m[i].change.compare(&m[j].change) < 0 }
func (m merged) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merged) Push(x any)        { *m = append(*m, x.(waiting)) }
func (m *merged) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	*m = (*m)[:last]
	return x
}

func (m *merged) add(part source) error {
	c, err := part.next()
	if err == nil {
		heap.Push(m, waiting{c, part})
	}
	return unlessEnd(err)
}

// step goes on from the first one.
func (m *merged) step() error {
	c, err := (*m)[0].of.next()
	if err == nil {
		(*m)[0].change = c
		heap.Fix(m, 0)
		return nil
	}
	heap.Pop(m)
	return unlessEnd(err)
}

func unlessEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
