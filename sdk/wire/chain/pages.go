package chain

import (
	"errors"
	"iter"
	"slices"
)

// ErrPages means that pages are not those of the tree that was kept.
var ErrPages = errors.New("the kept tree of names is damaged")

// Kept names a tree of living names that is kept in pages, so that memory need not hold it: each page has a part of the
// tree, with the hashes of the pages beneath it. Of the versions of a file it has the newest one, and the hash of the
// others. The zero value is the tree of a group in which nothing lives.
type Kept struct {
	Root Hash
	Top  int64 // the page with the root; 0 = nothing lives
	Last int64 // the largest number that a page ever had
}

// Bytes of a page: at most, but for one with a single long component, and at least, but for the top and for one
// that became smaller.
const (
	pageBytes = 16 << 10
	leastPage = pageBytes / 4
)

// source is where the pages of a tree come from.
type source struct {
	Kept
	read   func(page int64) ([]byte, error)
	err    error // the first; the tree is of no use then
	opened []*page[component]
}

func (s *source) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Open returns a tree that reads its pages as they are needed. After each use the caller asks for [Names.Err]. The
// memory is that of the pages that were read, some four times their bytes.
func (k Kept) Open(read func(page int64) ([]byte, error)) *Names {
	n := &Names{kept: &source{Kept: k, read: read}}
	if k.Top != 0 {
		n.top.root = n.kept.page(k.Top, k.Root, nil).open() // so that the root is that of pages
	}
	return n
}

// Err returns why pages of a kept tree could not be read, [ErrPages] for those that are damaged. What the tree said and
// did is of no use then.
func (n *Names) Err() error {
	if n.kept == nil {
		return nil
	}
	return n.kept.err
}

func (s *source) page(id int64, sum Hash, in *page[component]) *node[component] {
	return &node[component]{hash: sum, page: &page[component]{id: id, in: in, read: s.fill}}
}

// fill reads what is beneath the top of a page. After an error nothing is.
func (s *source) fill(n *node[component]) {
	if s.err != nil {
		return
	}
	raw, err := s.read(n.page.id)
	if err != nil {
		s.fail(err)
		return
	}
	c := pageCoder{coder: coder{b: raw, reading: true}, from: s, page: n.page}
	read := c.content(&node[component]{})
	if c.broken || len(c.b) > 0 || read.sum() != n.hash {
		s.fail(ErrPages)
		return
	}
	s.opened = append(s.opened, n.page)
	n.branches, n.leaf = read.branches, read.leaf
}

// push adds a version that is newer than those which are there; another one is left out.
func (c *component) push(v Living) {
	if n := len(c.versions); n > 0 {
		if c.versions[n-1].Number >= v.Number {
			return
		}
		c.older = c.sum()
	}
	c.versions = living{v}
}

// Renew says which versions of a name live, the oldest first: all of them, or those that are newer than the ones
// before. ref is the reference of a file without a name, "" for another. n is a kept tree.
func (n *Names) Renew(name, ref string, all bool, versions iter.Seq[Living]) {
	n.top = n.edit(n.top, componentsOf(name, ref), func(c *component) {
		if all {
			c.versions, c.older = nil, Hash{}
		}
		for v := range versions {
			c.push(v)
		}
	})
}

// RenewFolder says how a folder is recorded; none = it is not.
func (n *Names) RenewFolder(name string, made iter.Seq[Living]) {
	n.top = n.edit(n.top, componentsOf(name, ""), func(c *component) {
		list := c.made()
		*list = nil
		for v := range made {
			list.put(v)
		}
	})
}

// saver writes pages that changed.
type saver struct {
	*source
	put   func(page int64, raw []byte) error
	stays map[*page[component]]bool // these are written, or as they were
}

// Save passes each page that changed to put, and returns what the tree is now kept as, and the numbers of pages that
// belong to it no more. n is a kept tree, and must not be used afterwards.
func (n *Names) Save(put func(page int64, raw []byte) error) (k Kept, gone []int64, err error) {
	w := &saver{source: n.kept, put: put, stays: make(map[*page[component]]bool)}
	w.Root, w.Top = n.Root(), 0
	if top := n.top.root; top != nil {
		if w.settle(top); !w.stays[top.page] {
			w.write(top)
		}
		w.Top = top.page.id
	}
	for _, p := range w.opened {
		if w.isGone(p) {
			gone = append(gone, p.id)
		}
	}
	return w.Kept, gone, w.err
}

// isGone reports whether nothing leads to a page any more: what is in a page that did not change stays.
func (w *saver) isGone(p *page[component]) bool {
	return !w.stays[p] && (p.changed || p.in == nil || p.in.changed || w.isGone(p.in))
}

// settle writes the pages beneath a node, and returns how many bytes the node takes in the page that it is in.
func (w *saver) settle(n *node[component]) (size int) {
	switch {
	case n == nil:
		return 1
	case n.isKept():
		w.stays[n.page] = true
		return stubBytes
	case n.leaf != nil:
		size = w.settleLeaf(&n.leaf.value)
	default:
		// Both go, so that what is above has hardly more than pages, and a way leads through few of them.
		left, right := w.settle(n.branches[0]), w.settle(n.branches[1])
		if 1+left+right > pageBytes {
			left, right = w.part(n.branches[0], left), w.part(n.branches[1], right)
		}
		size = 1 + left + right
	}
	if n.page == nil {
		return size
	}
	if size < leastPage {
		n.page = nil
	}
	return w.part(n, size)
}

// part makes a node that takes so many bytes a page, unless they are few. It returns how many are left.
func (w *saver) part(n *node[component], size int) int {
	if size < leastPage {
		return size
	}
	w.write(n)
	return stubBytes
}

func (w *saver) settleLeaf(c *component) (size int) {
	size = 1 + 8 + len(c.name) + 8 + len(Hash{}) + 1
	for _, v := range c.versions {
		size += v.pageBytes()
	}
	if c.folder == nil {
		return size
	}
	size += 8
	for _, v := range c.folder.made {
		size += v.pageBytes()
	}
	return size + w.part(c.folder.inside.root, w.settle(c.folder.inside.root))
}

func (v Living) pageBytes() int { return leastLiving + len(v.Ref) + len(v.Attributes) }

// write writes a page with the node at its top.
func (w *saver) write(n *node[component]) {
	if n.page == nil {
		w.Last++
		n.page = &page[component]{id: w.Last, isOpen: true}
	}
	w.stays[n.page] = true
	c := pageCoder{stays: w.stays}
	c.content(n)
	if w.err == nil {
		w.err = w.put(n.page.id, c.b)
	}
}

// The first byte of a node in a page.
const (
	nodeNone = iota
	nodeFork
	nodeLeaf
	nodePage // the top of another page

	stubBytes = 1 + 8 + len(Hash{})
)

// pageCoder writes or reads a page.
type pageCoder struct {
	coder
	from  *source                   // of pages that are read
	page  *page[component]          // that is read
	stays map[*page[component]]bool // the other pages, of one that is written
}

func (c *pageCoder) kind(k byte) byte {
	if !c.reading {
		c.b = append(c.b, k)
	} else if raw := c.take(1); raw != nil {
		k = raw[0]
	}
	return k
}

// node codes a node, which is nil where one is read.
func (c *pageCoder) node(n *node[component]) *node[component] {
	if !c.reading && n != nil && c.stays[n.page] {
		c.kind(nodePage)
		c.number(&n.page.id)
		c.hash(&n.hash)
		return n
	}
	if !c.reading && n == nil {
		c.kind(nodeNone)
		return nil
	}
	if c.reading {
		switch {
		case c.broken || len(c.b) == 0:
			c.broken = true
			return nil
		case c.b[0] == nodeNone:
			c.kind(nodeNone)
			return nil
		case c.b[0] == nodePage:
			var id int64
			var sum Hash
			c.kind(nodePage)
			c.number(&id)
			c.hash(&sum)
			return c.from.page(id, sum, c.page)
		}
		n = &node[component]{}
	}
	return c.content(n)
}

// content codes a fork or a leaf.
func (c *pageCoder) content(n *node[component]) *node[component] {
	k := byte(nodeFork)
	if n.leaf != nil {
		k = nodeLeaf
	}
	switch c.kind(k) {
	case nodeFork:
		for i := range n.branches {
			n.branches[i] = c.node(n.branches[i])
		}
	case nodeLeaf:
		if n.leaf == nil {
			n.leaf = &leaf[component]{}
		}
		c.component(&n.leaf.value)
		n.leaf.key = keyOf(n.leaf.value.name)
	default:
		c.broken = true
	}
	return n
}

func (c *pageCoder) component(v *component) {
	c.text(&v.name)
	list(&c.coder, (*[]Living)(&v.versions), leastLiving, c.living)
	c.hash(&v.older)
	isFolder := byte(0)
	if v.folder != nil {
		isFolder = 1
	}
	if c.kind(isFolder) == 0 {
		return
	}
	if v.folder == nil {
		v.folder = &folder{}
	}
	list(&c.coder, (*[]Living)(&v.folder.made), leastLiving, c.living)
	v.folder.inside.root = c.node(v.folder.inside.root)
}

// Found is a name of a kept tree.
type Found struct {
	Name     string
	Ref      string   // of a file without a name, else ""
	Versions Hash     // of all versions of the file
	Made     []Living // the folder of this name, where it is recorded, the newest last
}

// Each calls f with every name of a kept tree, and with every recorded folder, until one of them fails. It holds
// no more than the pages on the way to a name.
func (n *Names) Each(f func(Found) error) error {
	err := n.kept.each(n.top.root, "", true, f)
	if n.kept.err != nil {
		return n.kept.err
	}
	return err
}

func (s *source) each(n *node[component], prefix string, isTop bool, f func(Found) error) error {
	if n == nil {
		return nil
	}
	wasOpen := n.page == nil || n.page.isOpen
	n.open()
	defer func() {
		if !wasOpen {
			n.branches, n.leaf, n.page.isOpen = [2]*node[component]{}, nil, false
			s.opened = slices.DeleteFunc(s.opened, func(p *page[component]) bool { return p == n.page })
		}
	}()
	if s.err != nil {
		return s.err
	}
	if n.leaf == nil {
		if err := s.each(n.branches[0], prefix, isTop, f); err != nil {
			return err
		}
		return s.each(n.branches[1], prefix, isTop, f)
	}
	c := n.leaf.value
	found := Found{Name: prefix + c.name, Versions: c.sum()}
	if isTop && len(c.name) > 0 && c.name[0] == '/' {
		found.Name, found.Ref = "", c.name[1:]
	}
	if c.folder != nil {
		found.Made = c.folder.made
	}
	if err := f(found); err != nil || c.folder == nil {
		return err
	}
	return s.each(c.folder.inside.root, found.Name+"/", false, f)
}

// SumOf hashes the versions of a name, the oldest first.
func SumOf(versions iter.Seq[Living]) Hash { return sumOf(domainVersion, Hash{}, versions) }
