package chain

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
)

// Living is a version of a file, or a recorded folder, that lives.
type Living struct {
	Ref        string
	Place             // of the record that uploaded the file or made the folder
	Attributes string // canonical text, "" = none; of a folder empty
}

// Names is the tree of the living names of a group. Its root follows from what lives under which name, and from nothing
// else: not from what passed by, and not from the order in which it came. A folder is a trie over the SHA-256 of the
// components in it, so a renamed folder takes all beneath it along in one step. service/LEDGER.md has the hashes byte
// by byte. The zero value is empty. It is changed in place, and not safe for concurrent use.
type Names struct {
	top   trie[component]
	bytes int64
	kept  *source // nil = all is in memory
}

// component is one component of names: the versions of the file of that name, and what is beneath the name.
type component struct {
	name     string
	versions living
	older    Hash    // of versions older than those: a tree that is kept has the newest one alone
	folder   *folder // nil = nothing is beneath
}

type folder struct {
	made   living // the folder itself, where it is recorded
	inside trie[component]
}

// living is sorted: the newest last, so that a newer one is added without moving the others. What proofs show is the
// other way round.
type living []Living

// The first byte of what is hashed. [trie] has 1, [Tree] 0.
const (
	domainComponent = 2
	domainVersion   = 3
	domainMade      = 4
	domainFolder    = 5
)

// sum hashes a list.
func (l living) sum(domain byte) Hash { return sumOf(domain, Hash{}, slices.Values(l)) }

// newest returns the newest ones, the newest first, and the others.
func (l living) newest(most int) (shown []Living, others living) {
	at := max(0, len(l)-most)
	shown = slices.Clone(l[at:])
	slices.Reverse(shown)
	return shown, l[:at]
}

// oldestFirst is what a proof shows, from its oldest on.
func oldestFirst(shown []Living) iter.Seq[Living] {
	return func(yield func(Living) bool) {
		for _, v := range slices.Backward(shown) {
			if !yield(v) {
				return
			}
		}
	}
}

// sumOf hashes a list from its oldest on, each with the hash of those before; rest is of what is older than
// the list, zero for nothing. So who has the newest needs one hash of the others.
func sumOf(domain byte, rest Hash, oldestFirst iter.Seq[Living]) Hash {
	b := make([]byte, 0, 512)
	for v := range oldestFirst {
		b = appendText(append(b[:0], domain), v.Ref)
		b = binary.BigEndian.AppendUint64(b, uint64(v.Number))
		b = append(b, v.Hash[:]...)
		b = appendText(b, v.Attributes)
		rest = sha256.Sum256(append(b, rest[:]...))
	}
	return rest
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
}

func joined(domain byte, hashes ...Hash) Hash {
	b := append(make([]byte, 0, 1+3*sha256.Size), domain)
	for _, h := range hashes {
		b = append(b, h[:]...)
	}
	return sha256.Sum256(b)
}

func (f *folder) sum() Hash {
	if f == nil {
		return Hash{}
	}
	return joined(domainFolder, f.made.sum(domainMade), f.inside.root.sum())
}

func (c component) leafSum(key Hash) Hash {
	return joined(domainComponent, key, c.sum(), c.folder.sum())
}

// sum hashes the versions.
func (c component) sum() Hash { return sumOf(domainVersion, c.older, slices.Values(c.versions)) }

// newest returns the newest versions, the newest first, and the hash of the older ones.
func (c component) newest(most int) (shown []Living, older Hash) {
	shown, others := c.versions.newest(most)
	return shown, sumOf(domainVersion, c.older, slices.Values(others))
}

func byNumber(v Living, number int64) int { return cmp.Compare(v.Number, number) }

// put returns by how many bytes the list grew.
func (l *living) put(v Living) int64 {
	at, found := slices.BinarySearchFunc(*l, v.Number, byNumber)
	if found {
		was := (*l)[at]
		(*l)[at] = v
		return v.bytes() - was.bytes()
	}
	*l = slices.Insert(*l, at, v)
	return v.bytes()
}

// drop returns by how many bytes the list grew.
func (l *living) drop(number int64) int64 {
	at, found := slices.BinarySearchFunc(*l, number, byNumber)
	if !found {
		return 0
	}
	was := (*l)[at]
	*l = slices.Delete(*l, at, at+1)
	return -was.bytes()
}

// componentsOf splits a name. A file without a name is under a component that no name can have.
func componentsOf(name, ref string) []string {
	if name == "" {
		return []string{"/" + ref}
	}
	return strings.Split(name, "/")
}

func keyOf(component string) Hash { return sha256.Sum256([]byte(component)) }

// Memory that things take, in bytes: a component with its share of the trie, and a version or folder.
const (
	componentBytes = 260
	livingBytes    = 96
)

func (c *component) bytes() int64 { return componentBytes + int64(len(c.name)) }

func (v Living) bytes() int64 { return livingBytes + int64(len(v.Ref)+len(v.Attributes)) }

// Footprint returns about how much memory n takes, in bytes.
func (n *Names) Footprint() int64 { return n.bytes }

// Root returns the root of names, zero while nothing lives. It hashes what changed since the last call.
func (n *Names) Root() Hash { return n.top.root.sum() }

// Put adds a version under a name; "" = it has none. A version of the same number is replaced.
func (n *Names) Put(name string, v Living) { n.put(componentsOf(name, v.Ref), v, (*component).files) }

// Drop takes a version away. It is no error if there is none.
func (n *Names) Drop(name string, v Living) {
	n.drop(componentsOf(name, v.Ref), v.Number, (*component).files)
}

// Make adds a recorded folder.
func (n *Names) Make(name string, v Living) { n.put(componentsOf(name, v.Ref), v, (*component).made) }

// Unmake takes a recorded folder away. It is no error if there is none.
func (n *Names) Unmake(name string, v Living) {
	n.drop(componentsOf(name, v.Ref), v.Number, (*component).made)
}

func (c *component) files() *living { return &c.versions }

func (c *component) made() *living {
	if c.folder == nil {
		c.folder = &folder{}
	}
	return &c.folder.made
}

func (n *Names) put(path []string, v Living, list func(*component) *living) {
	n.top = n.edit(n.top, path, func(c *component) { n.bytes += list(c).put(v) })
}

func (n *Names) drop(path []string, number int64, list func(*component) *living) {
	n.top = n.edit(n.top, path, func(c *component) { n.bytes += list(c).drop(number) })
}

// Move moves all that is beneath one folder, and the folder itself where it is recorded, beneath another. The time
// does not grow with what is moved, unless both folders are there.
func (n *Names) Move(before, after string) {
	var moved *folder
	n.top = n.edit(n.top, componentsOf(before, ""), func(c *component) { moved, c.folder = c.folder, nil })
	if moved != nil {
		n.top = n.edit(n.top, componentsOf(after, ""), func(c *component) { c.folder = n.merge(c.folder, moved) })
	}
}

// merge puts what is in one folder into another.
func (n *Names) merge(into, from *folder) *folder {
	if into == nil || from == nil {
		return cmp.Or(into, from)
	}
	for _, v := range from.made {
		into.made.put(v)
	}
	from.inside.root.each(func(l *leaf[component]) {
		c := l.value
		if there := into.inside.get(l.key); there != nil {
			n.bytes -= c.bytes()
			c.take(*there, n.kept != nil)
			c.folder = n.merge(there.folder, c.folder)
		}
		into.inside = into.inside.with(l.key, c)
	})
	return into
}

// take adds the versions of another component. In a kept tree, which lacks the older ones, the others stay away: one of
// the two does not live under its name any more, and is renewed.
func (c *component) take(other component, isKept bool) {
	switch {
	case !isKept:
		for _, v := range other.versions {
			c.versions.put(v)
		}
	case len(c.versions) == 0:
		c.versions, c.older = other.versions, other.older
	}
}

// edit changes the component at a path, which is made where it is missing, and goes where it is empty then.
func (n *Names) edit(t trie[component], path []string, change func(*component)) trie[component] {
	key := keyOf(path[0])
	c := component{name: path[0]}
	there := t.get(key)
	if there != nil {
		c = *there
	} else {
		c.name = strings.Clone(c.name) // it is a part of a name, which would stay in memory as a whole
		n.bytes += c.bytes()
	}
	if len(path) == 1 {
		change(&c)
	} else {
		c.folder = cmp.Or(c.folder, &folder{})
		c.folder.inside = n.edit(c.folder.inside, path[1:], change)
	}
	if c.folder != nil && len(c.folder.made) == 0 && c.folder.inside.root == nil {
		c.folder = nil
	}
	if len(c.versions) > 0 || c.folder != nil {
		return t.with(key, c)
	}
	n.bytes -= c.bytes()
	if there == nil {
		return t
	}
	return t.without(key)
}
