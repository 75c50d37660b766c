package view

import (
	"slices"
	"strings"
	"sync"

	"github.com/svcfs/svcfs/sdk"
)

// Partial is what is known of a group that is known in part. It is true up to one place of the chain of the group. Some
// folders are known whole, and of some single names it is known what is there. It keeps rows of these alone, in its
// View.
//
// It moves along the chain with [Partial.Apply], which takes what [sdk.Group.Changes] tells: rows in known folders,
// and under known names, are taken, others are dropped. What a row leaves open makes a name doubtful: whether an older
// version lives where the newest one was removed, and whether a folder has become empty. After a renamed folder
// nothing is known beneath the old and the new name, and both names are doubtful. A doubtful name is to be asked for
// again; what else is in its folder stays known.
//
// A part that was proven later than the Partial is true waits until [Partial.Apply] has brought it there: to learn it
// is refused. What came between a part and now is applied to it again. It is safe for concurrent use.
type Partial struct {
	*View

	mu     sync.Mutex
	at     sdk.Cursor
	places map[string]*place // by path, "" = the top: what is known of names
	bytes  int64             // that places take

	nothing []string  // names under which nothing was, the last one asked for at the end
	gone    []sdk.Ref // rows of removed files and folders
	opened  []string  // folders beneath which all was known, and is not any more

	recent []sdk.Changes // that Apply took, the newest last
	kept   int64         // that they take, in bytes
	since  int64         // recent has all changes after this number
}

// place is what is known of one path. It is there while something is known of it, or beneath it.
type place struct {
	path   string
	parent *place // nil for the top
	inside map[string]*place
	sum    counts // of inside

	known  bool      // what is under the name
	doubt  bool      // it is not known, although its folder is whole
	whole  bool      // known, and also what is directly in the folder, but for what is in doubt
	folder bool      // it is a folder
	older  bool      // other versions of the file live, which have no rows
	rows   []sdk.Ref // of files, and of the folder if it is recorded
	living int       // of rows of files
	late   bool      // the rows may be gone: they came when more was known, or stayed when all was forgotten
}

// counts are what a place adds to those of its folder: each is 1 or 0 there.
type counts struct {
	there  int // something is known to be under the name
	doubts int // the name is in doubt
	open   int // the name is in doubt, or that of a folder beneath which something is not known
}

func (l *place) counts() (c counts) {
	if l.folder || l.living > 0 && !l.late {
		c.there = 1
	}
	if l.doubt {
		c.doubts = 1
	}
	if l.doubt || l.folder && !l.isAll() {
		c.open = 1
	}
	return c
}

// isAll reports whether everything beneath a folder is known.
func (l *place) isAll() bool { return l.whole && l.sum.open == 0 }

const (
	// recentBytes is how much memory the changes take that a Partial keeps for parts that come late.
	recentBytes = 1 << 20
	// nothingNames is how many names a Partial knows under which nothing is: programs ask for many that never were.
	nothingNames = 1000

	placeBytes = 250 // memory of a place with its row and without its path, in bytes
	nameBytes  = 64  // of a name of changes, beside its text
)

// NewPartial returns a Partial that keeps its rows in a View, which may have some that this account made. It is true up
// to the place of its first part.
func NewPartial(v *View, at sdk.Cursor) *Partial {
	p := &Partial{View: v, at: at, places: map[string]*place{"": {}}, since: at.Number()}
	for e := range v.All() {
		p.index([]Change{{Now: e}})
	}
	return p
}

// Footprint returns about how much memory p takes beside the rows of its View, in bytes.
func (p *Partial) Footprint() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes + p.kept
}

// At returns the place up to which the Partial is true: where [sdk.Group.Changes] goes on.
func (p *Partial) At() sdk.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Knows reports whether it is known what is under a name.
func (p *Partial) Knows(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.knows(name)
}

// knows needs mu.
func (p *Partial) knows(name string) bool {
	if l := p.places[name]; name == "" || l != nil && (l.known || l.doubt) {
		return l.known
	}
	parent := parentOf(name)
	in := p.places[parent]
	isFolder := in != nil && in.folder || parent == ""
	return in != nil && in.whole || !isFolder && p.knows(parent) // nothing is in what is no folder
}

// KnowsVersions reports whether the View has every living version of a file that is known.
func (p *Partial) KnowsVersions(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.places[name]
	return p.knows(name) && (l == nil || !l.older)
}

// KnowsFolder reports whether it is known what is directly in a folder, but for names that are in doubt.
func (p *Partial) KnowsFolder(folder string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.places[folder]
	return l != nil && l.whole
}

// NamesIn returns about how many names are directly in a folder, as far as it is known.
func (p *Partial) NamesIn(folder string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.places[folder]; l != nil {
		return len(l.inside)
	}
	return 0
}

// Doubts returns the names directly in a folder that are in doubt, by path, in no order.
func (p *Partial) Doubts(folder string) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.places[folder]; l != nil && l.sum.doubts > 0 {
		for _, c := range l.inside {
			if c.doubt {
				list = append(list, c.path)
			}
		}
	}
	return list
}

// KnowsBeneath reports whether everything beneath a folder is known.
func (p *Partial) KnowsBeneath(folder string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.places[folder]; l != nil && (l.folder || folder == "") {
		return l.isAll()
	}
	return p.knows(folder)
}

// Opened returns the folders beneath which all was known, and is not any more, since the last call. They may be known
// again.
func (p *Partial) Opened() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list = slices.DeleteFunc(p.opened, func(path string) bool {
		return p.places[path] != nil && p.places[path].isAll()
	})
	p.opened = nil
	return list
}

// IsFolder reports whether a name was that of a folder when it was known last.
func (p *Partial) IsFolder(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.places[name]
	return l != nil && l.folder
}

// Folders returns the folders that are known directly in a folder, by path, in no order.
func (p *Partial) Folders(in string) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.places[in]; l != nil {
		for _, c := range l.inside {
			if c.folder {
				list = append(list, c.path)
			}
		}
	}
	return list
}

// parentOf returns the folder of a path, "" = the top.
func parentOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// nameOf returns the name under which a row is.
func nameOf(e *sdk.Entry) string {
	if e.Folder {
		return e.Name
	}
	return e.Named().Recorded
}

// change changes what is known of a path. Needs mu.
func (p *Partial) change(path string, do func(l *place)) {
	l := p.place(path)
	p.update(l, do)
	for l.parent != nil && !l.known && !l.doubt && !l.folder && !l.older && len(l.rows) == 0 && len(l.inside) == 0 {
		delete(p.places, l.path)
		p.bytes -= placeBytes + int64(len(l.path))
		delete(l.parent.inside, l.path)
		l = l.parent
	}
}

// update changes a place, and with it the counts of the folders above. Needs mu.
func (p *Partial) update(l *place, do func(l *place)) {
	was, wasAll := l.counts(), l.isAll()
	do(l)
	if wasAll && !l.isAll() {
		p.opened = append(p.opened, l.path)
	}
	if is := l.counts(); is != was && l.parent != nil {
		p.update(l.parent, func(in *place) {
			in.sum.there += is.there - was.there
			in.sum.doubts += is.doubts - was.doubts
			in.sum.open += is.open - was.open
		})
	}
}

// place returns that of a path, made if it is new. Needs mu.
func (p *Partial) place(path string) *place {
	l := p.places[path]
	if l == nil {
		l = &place{path: path, parent: p.place(parentOf(path))}
		if l.parent.inside == nil {
			l.parent.inside = map[string]*place{}
		}
		l.parent.inside[path], p.places[path] = l, l
		p.bytes += placeBytes + int64(len(path))
	}
	return l
}

// LearnName takes what was proven under a name. ok is false if the part cannot be taken: it is of a later place than
// At, for which Apply comes first, or so much came since that it is to be asked for again. The part stays the caller's.
func (p *Partial) LearnName(name string, part sdk.Part) (changes []Change, ok bool) {
	return p.learn(name, parentOf(name), part, func(folders map[string]bool) {
		p.change(name, func(l *place) {
			l.known, l.doubt, l.folder, l.older, l.late = true, false, folders[name], false, false
		})
		if part.Missing {
			p.nothing = append(p.nothing, name)
		}
		if len(p.nothing) > nothingNames {
			p.change(p.nothing[0], func(l *place) { l.known = l.known && l.counts().there > 0 })
			p.nothing = p.nothing[1:]
		}
	})
}

// LearnFolder is LearnName for what was proven directly in a folder. A folder that is not there may be a file.
func (p *Partial) LearnFolder(folder string, part sdk.Part) (changes []Change, ok bool) {
	return p.learn(folder, folder, part, func(folders map[string]bool) {
		if part.Missing {
			p.doubt(folder)
			return
		}
		p.change(folder, func(l *place) { l.known, l.doubt, l.whole, l.folder = true, false, true, true })
		for _, path := range pathsIn(p.places[folder]) {
			p.change(path, func(l *place) {
				l.known, l.doubt, l.folder, l.older, l.late = l.whole, false, l.folder && folders[path], false, false
			})
		}
	})
}

// pathsIn returns the paths of what is in a place: the caller may change them.
func pathsIn(l *place) (list []string) {
	for path := range l.inside {
		list = append(list, path)
	}
	return list
}

// inFolder returns the path of a name in a folder.
func inFolder(folder, name string) string { return strings.TrimPrefix(folder+"/"+name, "/") }

// learn takes a part; start makes room for what it has, and is told the paths of its folders. The rows of the part lie
// directly in a folder.
func (p *Partial) learn(name, in string, part sdk.Part, start func(folders map[string]bool)) (changes []Change,
	ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := part.At.Number()
	if part.Until.Number() > p.at.Number() || number < p.since {
		return nil, false
	}
	about := func() []string { // of what the part tells
		if name != in {
			return []string{name}
		}
		if l := p.places[in]; l != nil {
			return pathsIn(l)
		}
		return nil
	}
	var before []sdk.Ref // what the part does not show is not there
	for _, path := range about() {
		if l := p.places[path]; l != nil {
			before = append(before, l.rows...)
		}
	}
	folders := make(map[string]bool)
	for _, c := range part.Children {
		if c.File == nil {
			folders[inFolder(in, c.Name)] = true
		}
	}
	// rows of later are of this account
	isOld := func(e *sdk.Entry) bool {
		stays := e.Folder && folders[e.Name] && !p.places[e.Name].late
		return e.Number <= number && !stays
	}
	changes = p.drop(before, isOld)
	start(folders)
	var rows []sdk.Entry
	for _, c := range part.Children {
		path := inFolder(in, c.Name)
		p.change(path, func(l *place) { l.folder, l.older = c.File == nil, c.Older })
		if c.File == nil {
			continue
		}
		row := *c.File
		// it is proven at this place: rows of later records are newer, and those before are not
		row.NamedNumber, row.Number, row.ChangedSeq = row.Number, c.Number, part.Until.Seq()
		rows = append(rows, row)
	}
	changes = append(changes, p.apply(rows...)...)
	var beneath []sdk.Ref // what is no folder
	for _, path := range about() {
		if l := p.places[path]; l != nil && !l.folder {
			for _, path := range pathsIn(l) {
				p.forgetPlace(l.inside[path], &beneath)
			}
		}
	}
	changes = append(changes, p.drop(beneath, isOld)...)
	for _, c := range p.recent {
		if c.At.Number() > number {
			changes = append(changes, p.changed(c, number, name)...)
		}
	}
	for i := range rows {
		path := nameOf(&rows[i])
		e, l := p.View.Entry(rows[i].Ref), p.places[path]
		if l != nil && l.older && (e == nil || e.Deleted != nil || nameOf(e) != path) {
			p.doubt(path) // this account removed the newest version since
		}
	}
	return append(changes, p.dropGone()...), true
}

// apply has the View take rows. Needs mu.
func (p *Partial) apply(rows ...sdk.Entry) []Change {
	changes := p.View.Apply(rows...)
	p.index(changes)
	return changes
}

// index notes under which names rows are. Needs mu.
func (p *Partial) index(changes []Change) {
	for _, c := range changes {
		if was := c.Was; was != nil {
			p.change(nameOf(was), func(l *place) {
				l.rows = slices.DeleteFunc(l.rows, func(ref sdk.Ref) bool { return ref == was.Ref })
				if was.Deleted == nil && !was.Folder {
					l.living--
				}
			})
		}
		if now := c.Now; now != nil {
			p.change(nameOf(now), func(l *place) {
				l.rows = append(l.rows, now.Ref)
				if now.Deleted == nil && !now.Folder {
					l.living++
				}
			})
			if now.Deleted != nil {
				p.gone = append(p.gone, now.Ref)
			}
		}
	}
}

// drop drops those of some rows that is says. Needs mu.
func (p *Partial) drop(refs []sdk.Ref, is func(*sdk.Entry) bool) []Change {
	changes := p.View.drop(refs, is)
	p.index(changes)
	return changes
}

// Apply takes what changed after At, and returns what became of rows. The rows stay the caller's.
func (p *Partial) Apply(c sdk.Changes) (changes []Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.At.Number() <= p.at.Number() { // another call was first
		return nil
	}
	changes = p.changed(c, p.at.Number(), "")
	p.at, p.recent, p.kept = c.At, append(p.recent, c), p.kept+sizeOf(c)
	for ; p.kept > recentBytes; p.recent = slices.Delete(p.recent, 0, 1) {
		p.since, p.kept = p.recent[0].At.Number(), p.kept-sizeOf(p.recent[0])
	}
	p.View.saw(c.At.Seq())
	return append(changes, p.dropGone()...)
}

// sizeOf is how much memory changes take, in bytes.
func sizeOf(c sdk.Changes) (bytes int64) {
	for i := range c.Entries {
		bytes += c.Entries[i].Footprint()
	}
	for _, name := range c.Left {
		bytes += nameBytes + int64(len(name))
	}
	for _, r := range c.Renamed {
		bytes += 3*nameBytes + int64(len(r.From)+len(r.To)+len(r.By))
	}
	return bytes
}

// dropGone drops the rows of removed files. Needs mu.
func (p *Partial) dropGone() []Change {
	gone := p.gone
	p.gone = nil
	return p.drop(gone, func(e *sdk.Entry) bool { return e.Deleted != nil })
}

// changed takes what of changes is after a number, and is about a path, what it is in, and what is beneath. Needs mu.
func (p *Partial) changed(c sdk.Changes, number int64, path string) (changes []Change) {
	rows := slices.DeleteFunc(slices.Clone(c.Entries), func(e sdk.Entry) bool {
		return e.Number <= number || !areRelated(nameOf(&e), path) && p.View.Entry(e.Ref) == nil
	})
	changes = p.take(rows, false)
	for _, name := range c.Left {
		if areRelated(name, path) {
			p.left(name, false)
		}
	}
	for _, r := range c.Renamed {
		for _, folder := range []string{r.From, r.To} {
			if r.Number > number && areRelated(folder, path) {
				changes = append(changes, p.forgetFolder(folder)...)
			}
		}
	}
	return changes
}

// areRelated reports whether a path is another one, or in it, or it in the other.
func areRelated(a, b string) bool {
	return a == b || a == "" || b == "" || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// Own takes rows as the answers to changes of this account tell them, also under names that are not known. The rows
// stay the caller's.
func (p *Partial) Own(rows ...sdk.Entry) []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(rows, true)
}

// take applies rows of changes. Needs mu.
func (p *Partial) take(rows []sdk.Entry, isOwn bool) (changes []Change) {
	for i := range rows {
		row := rows[i]
		was := p.View.Entry(row.Ref)
		isLate := !isOwn && row.Number <= p.at.Number()
		if was != nil && (row.Number < was.Number || row.Number == was.Number && isLate) {
			if was.Deleted == nil { // a part that comes late does not tell of it
				p.came(nameOf(was), was.Folder)
			}
			continue
		}
		name, isThere := nameOf(&row), row.Deleted == nil
		if was != nil || isOwn || isThere && p.knows(name) {
			changes = append(changes, p.apply(row)...)
		}
		if isOwn && was == nil && row.Number <= p.at.Number() { // what came after it was not taken
			p.doubtWay(name)
			continue
		}
		if was != nil && was.Deleted == nil && (nameOf(was) != name || !isThere) {
			p.left(nameOf(was), was.Folder)
		}
		if isThere {
			p.came(name, row.Folder)
		} else {
			p.left(name, row.Folder)
		}
	}
	return changes
}

// came notes that something is under a name: the folders above it are there. In one that was not there is nothing else.
// Needs mu.
func (p *Partial) came(name string, isFolder bool) {
	if !isFolder {
		name = parentOf(name)
	}
	for ; name != ""; name = parentOf(name) {
		if p.knows(name) {
			p.change(name, func(l *place) { l.known, l.whole, l.folder = true, l.whole || !l.folder, true })
		}
	}
}

// left notes that something is under a name no more: an older version may be, and folders above it may be empty. Needs
// mu.
func (p *Partial) left(name string, isFolder bool) {
	if l := p.places[name]; l != nil && l.older {
		p.doubt(name)
	}
	if !isFolder {
		name = parentOf(name)
	}
	for ; name != ""; name = parentOf(name) {
		if l := p.places[name]; l != nil && l.sum.there > 0 {
			return
		}
		p.doubt(name)
	}
}

// doubt makes it unknown what is under a name. Needs mu.
func (p *Partial) doubt(name string) {
	in := p.places[parentOf(name)]
	p.change(name, func(l *place) {
		l.known, l.whole, l.folder, l.older = false, false, false, false
		l.doubt = name != "" && in != nil && in.whole
	})
}

// doubtWay makes a name unknown whose row came late, and which folders lead there. Needs mu.
func (p *Partial) doubtWay(name string) {
	p.change(name, func(l *place) { l.late = true })
	for p.doubt(name); name != ""; p.doubt(name) {
		if name = parentOf(name); p.places[name] != nil && p.places[name].folder {
			return
		}
	}
}

// forgetFolder forgets what is known beneath a folder, and whether it is there. Needs mu.
func (p *Partial) forgetFolder(folder string) []Change {
	var refs []sdk.Ref
	p.forgetPlace(p.place(folder), &refs)
	changes := p.drop(refs, func(*sdk.Entry) bool { return true })
	p.left(folder, true)
	return changes
}

// forgetPlace makes unknown what is beneath a place, and collects its rows. Needs mu.
func (p *Partial) forgetPlace(l *place, refs *[]sdk.Ref) {
	*refs = append(*refs, l.rows...)
	for _, path := range pathsIn(l) {
		p.forgetPlace(l.inside[path], refs)
	}
	p.change(l.path, func(l *place) {
		l.known, l.doubt, l.whole, l.folder, l.older = false, false, false, false, false
	})
}

// Restart forgets everything but rows of later than a place, and those that stays says, and goes on from there: from a
// later one, where what came before is too much to be told, or from At. What is under the names of rows that stay is
// not known.
func (p *Partial) Restart(at sdk.Cursor, stays func(*sdk.Entry) bool) []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.Number() < p.at.Number() {
		return nil
	}
	var refs []sdk.Ref
	p.forgetPlace(p.places[""], &refs)
	isLate := at.Number() > p.at.Number() // for rows that stay: what came between is not known
	p.at, p.since, p.recent, p.kept, p.nothing, p.gone = at, at.Number(), nil, 0, nil, nil
	p.View.saw(at.Seq())
	changes := p.drop(refs, func(e *sdk.Entry) bool { return e.Number <= at.Number() && !stays(e) })
	for _, ref := range refs {
		if e := p.View.Entry(ref); e != nil && isLate && e.Number <= at.Number() {
			p.change(nameOf(e), func(l *place) { l.late = true })
		}
	}
	return changes
}

// drop drops rows, and returns them as changes to nothing.
func (v *View) drop(refs []sdk.Ref, is func(*sdk.Entry) bool) (changes []Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, ref := range refs {
		if row, ok := v.rows[ref]; ok && is(row.Entry) {
			changes = append(changes, Change{Was: row.Entry})
			delete(v.rows, ref)
		}
	}
	return changes
}
