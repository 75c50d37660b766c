package chain

import (
	"slices"
	"strings"
)

// Component is a component of names as proofs have it: what lives under it, and what is beneath.
type Component struct {
	Name     string
	Versions []Living // the newest ones of the file of this name, the newest first
	Older    Hash     // of the versions that are older than those; zero = there are none
	Folder   Hash     // of the folder of this name; zero = there is none
}

func (c Component) leafSum(key Hash) Hash {
	return joined(domainComponent, key, sumOf(domainVersion, c.Older, oldestFirst(c.Versions)), c.Folder)
}

// Step is one folder on the way to a name.
type Step struct {
	Path  []Hash // the other branch at each fork of the trie that the folder is in, from its root on
	Files Hash   // of the versions of the file that has the name of the folder, zero = none
	Made  Hash   // of the folder as it is recorded, zero = it is not
}

// Other is another component, which is where a missing one would be.
type Other struct{ Key, Versions, Folder Hash }

// NameProof proves what lives under one name, or that nothing does.
type NameProof struct {
	Way   []Step // the folders of the name, from the top on, as far as they are there
	Path  []Hash // as in Step, of the last component that could be there
	Other *Other // that is missing, and this one is in its place
	// Versions are those of the name, the newest first, and may lack the oldest. Older is of those that it lacks.
	// Where the way ends before the name, they are of the file that is there in place of a folder.
	Versions []Living
	Older    Hash
	Folder   Hash // of what is beneath
}

// FolderProof proves a page of what is in a folder: all components whose SHA-256 begin with the same bits as the hash
// from which the page was asked for. Those are as many bits as Path has forks.
type FolderProof struct {
	Way    []Step      // the folder is the last one
	Made   []Living    // the folder itself, where it is recorded
	Path   []Hash      // as in Step, of the page in the trie of what is in the folder
	Inside []Component // each with the newest version of its file alone
}

// Page is what a [FolderProof] proves.
type Page struct {
	Folder Hash // follows from all that is in the folder, on all its pages; zero = nothing
	// IsNext: nothing of the page is before the hash that was asked for. It is false only for a folder that became
	// smaller since the page before.
	IsNext bool
	Next   Hash // what the next page is asked from; zero = this page is the last
}

// Prove returns the proof of a name, with at most most versions. It is good for the root of n as it is now.
func (n *Names) Prove(name string, most int) (p NameProof) {
	path, in := componentsOf(name, ""), n.top
	for i, part := range path {
		key := keyOf(part)
		found, way := in.seek(key)
		if found == nil || found.key != key {
			p.Path = way
			if found != nil {
				c := found.value
				p.Other = &Other{found.key, c.sum(), c.folder.sum()}
			}
			return p
		}
		c := found.value
		if i < len(path)-1 && c.folder != nil {
			p.Way = append(p.Way, c.step(way))
			in = c.folder.inside
			continue
		}
		p.Versions, p.Older = c.newest(most)
		p.Path, p.Folder = way, c.folder.sum()
		return p
	}
	return p
}

// step is how a proof leads through a folder.
func (c component) step(path []Hash) Step {
	return Step{path, c.sum(), c.folder.made.sum(domainMade)}
}

// ProveFolder returns the proof of a page of a folder, "" = the top: of at most most components, whose hashes are from
// or behind it. ok is false if the folder is not there. The time does not grow with the folder.
func (n *Names) ProveFolder(name string, from Hash, most int) (p FolderProof, ok bool) {
	in := n.top
	for _, part := range folders(name) {
		key := keyOf(part)
		found, way := in.seek(key)
		if found == nil || found.key != key || found.value.folder == nil {
			return FolderProof{}, false
		}
		c := found.value
		p.Made, _ = c.folder.made.newest(len(c.folder.made))
		p.Way = append(p.Way, c.step(way))
		in = c.folder.inside
	}
	page, path := in.branch(from, func(n *node[component]) bool { return n.countsTo(most) >= 0 })
	p.Path = path
	page.each(func(l *leaf[component]) {
		c := l.value
		shown, older := c.newest(1)
		p.Inside = append(p.Inside, Component{Name: c.name, Versions: shown, Older: older, Folder: c.folder.sum()})
	})
	return p, true
}

// folders returns the components of a folder, none for the top.
func folders(name string) []string {
	if name == "" {
		return nil
	}
	return componentsOf(name, "")
}

// top returns the root that follows from a folder at the end of a way: the hash of what is in it. ok is false for a way
// that is not that of the components.
func top(way []Step, components []string, inside Hash) (root Hash, ok bool) {
	for i, step := range slices.Backward(way) {
		key := keyOf(components[i])
		inside, ok = climb(key, joined(domainComponent, key, step.Files, joined(domainFolder, step.Made, inside)),
			step.Path)
		if !ok {
			return Hash{}, false
		}
	}
	return inside, true
}

// isDescending reports whether the newest comes first.
func isDescending(l []Living) bool {
	for i := 1; i < len(l); i++ {
		if l[i-1].Number <= l[i].Number {
			return false
		}
	}
	return true
}

// Open verifies the proof against a signed root of names. What it returns has the newest versions of the name, none if
// no file of this name lives, and says whether there are older ones. ok is false if the proof proves nothing.
func (p NameProof) Open(root Hash, name string) (found Component, ok bool) {
	components := componentsOf(name, "")
	if len(p.Way) >= len(components) || !isDescending(p.Versions) {
		return Component{}, false
	}
	there := Component{name, p.Versions, p.Older, p.Folder}
	inside, ok := p.inside(there, keyOf(components[len(p.Way)]))
	if !ok {
		return Component{}, false
	}
	if sum, ok := top(p.Way, components, inside); !ok || sum != root {
		return Component{}, false
	}
	switch isLast := len(p.Way) == len(components)-1; {
	case !isLast && p.Folder != Hash{}: // it leads to the name, and the way ends before
		return Component{}, false
	case !isLast:
		return Component{Name: name}, true
	case len(p.Versions) == 0 && p.Older != Hash{}: // some live, and none is shown
		return Component{}, false
	}
	return there, true
}

// inside returns the root of the folder where the way ends.
func (p NameProof) inside(there Component, key Hash) (Hash, bool) {
	isThere := len(p.Versions) > 0 || p.Older != Hash{} || p.Folder != Hash{}
	switch o := p.Other; {
	case o == nil && isThere:
		return climb(key, there.leafSum(key), p.Path)
	case isThere || len(p.Path) > longestPath:
		return Hash{}, false
	case o == nil:
		return climb(key, Hash{}, p.Path)
	case o.Key == key || !sharesBits(o.Key, key, len(p.Path)):
		return Hash{}, false
	default:
		return climb(key, joined(domainComponent, o.Key, o.Versions, o.Folder), p.Path)
	}
}

// sharesBits reports whether two keys begin with the same n bits.
func sharesBits(a, b Hash, n int) bool {
	for i := range n {
		if bit(a, i) != bit(b, i) {
			return false
		}
	}
	return true
}

// Open verifies the proof against a signed root of names: Inside is all that is on the page of the folder, "" = the
// top, that was asked for from a hash. ok is false if the proof proves nothing.
func (p FolderProof) Open(root Hash, name string, from Hash) (page Page, ok bool) {
	components, depth := folders(name), len(p.Path)
	if len(p.Way) != len(components) || !isDescending(p.Made) || len(components) == 0 && len(p.Made) > 0 ||
		depth > longestPath {
		return Page{}, false
	}
	if n := len(components); n > 0 && sumOf(domainMade, Hash{}, oldestFirst(p.Made)) != p.Way[n-1].Made {
		return Page{}, false
	}
	var inside trie[Component]
	for _, c := range p.Inside {
		key := keyOf(c.Name)
		isEmpty := c.Folder == Hash{}
		if inside.get(key) != nil || !isComponent(c.Name, name == "") || !sharesBits(key, from, depth) ||
			len(c.Versions) > 1 || len(c.Versions) == 0 && (isEmpty || c.Older != Hash{}) {
			return Page{}, false
		}
		inside.root = insert(inside.root, &leaf[Component]{key, c}, 0)
	}
	// The trie of the page alone has no forks but empty ones above it.
	at := inside.root
	for i := 0; i < depth && at != nil && at.leaf == nil; i++ {
		at = at.branches[bit(from, i)]
	}
	if page.Folder, ok = climb(from, at.sum(), p.Path); !ok {
		return Page{}, false
	}
	page.Next, page.IsNext = following(from, depth), isFirst(from, depth)
	sum, ok := top(p.Way, components, page.Folder)
	return page, ok && sum == root
}

// isComponent reports whether something in a folder can be under a name. At the top files without a name are, too.
func isComponent(name string, isTop bool) bool {
	return !strings.Contains(name, "/") || isTop && strings.HasPrefix(name, "/")
}
