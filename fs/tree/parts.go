package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

// A large group is known in part: what programs look at is asked for and proven, name by name and folder by folder, and
// changes of it are followed from there. The service says at the first look that a group is large, see
// [sdk.Config].SmallGroup. What needs all of the group has it listed: from then on it is known as small ones are.

// PartRemote is a service that proves parts of large groups. [Client] implements it. Free.
type PartRemote interface {
	// PartOfName, PartOfFolder and Changes are [sdk.Group.PartOfName] and so on.
	PartOfName(ctx context.Context, g sdk.GroupID, path string) (sdk.Part, error)
	PartOfFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Part, error)
	Changes(ctx context.Context, g sdk.GroupID, at sdk.Cursor, known *view.Partial) (sdk.Changes, error)
}

// wanted is what a program wants to know of a group.
type wanted struct {
	path     string
	isFolder bool // what is directly in the folder; else what is under the name
	isShown  bool // the tree shows something, which is what is wanted while the service is away
}

// isKnown reports whether p has it. Of a folder with many names that are in doubt it does not.
func (w wanted) isKnown(p *view.Partial) bool {
	if !w.isFolder || !p.IsFolder(w.path) {
		return p.Knows(w.path)
	}
	return p.KnowsFolder(w.path) && len(p.Doubts(w.path)) <= mostDoubts+p.NamesIn(w.path)/doubtsInNames
}

// Of a folder so many names, and one of so many, are asked for one by one. Of more, the folder is: some 1,000 names
// come with each request.
const (
	mostDoubts    = 8
	doubtsInNames = 1000
)

// know makes sure that the tree shows what is under a name of d.
func (d *Dir) know(ctx context.Context, name string) error {
	d.t.mu.RLock()
	w, isIn := wanted{path: d.rawPath(name)}, d.isInGroup()
	isOurs := false // of this mount alone
	switch n := d.find(name).(type) {
	case *File:
		e := n.entry.Load()
		isOurs = e == nil || isWaiting(e)
	case *Dir:
		isOurs = n.isControl()
	}
	w.isShown = d.find(name) != nil
	d.t.mu.RUnlock()
	if !isIn || isOurs && d.group.part.Load() != nil { // else it is not known yet whether the group is large
		return nil
	}
	return d.group.know(ctx, w)
}

// knowInside makes sure that the tree shows what is directly in d.
func (d *Dir) knowInside(ctx context.Context) error {
	d.t.mu.RLock()
	w, isIn := wanted{isFolder: true}, d.isInGroup()
	if isIn {
		w.path = d.pathInGroup()
	}
	d.t.mu.RUnlock()
	if !isIn {
		return nil
	}
	return d.group.know(ctx, w)
}

// isInGroup reports whether d shows files of a group, and still has its name. Needs Tree.mu.
func (d *Dir) isInGroup() bool {
	if d.group == nil || d.group.waste {
		return false
	}
	at := d
	for at.kind == dirFolder && at.parent != nil {
		at = at.parent
	}
	return at.kind == dirGroup
}

// partTries is how often a part is asked for, where others change the group meanwhile, before the group is listed.
const partTries = 5

// know makes sure that the tree shows something of g, if g is known in part, or not known yet.
func (g *group) know(ctx context.Context, w wanted) error {
	t, asName := g.dir.t, !w.isFolder
	for range partTries {
		p := g.part.Load()
		switch {
		case t.parts == nil, p == nil && g.list.IsListed(), g.isGone():
			return nil
		case p != nil && w.isKnown(p):
			g.showFolders(p, w)
			return g.settle(ctx, p, w)
		case p != nil && !t.look.Reached(): // Tick looks whether it is back
			if g.list.NoteUse(); w.isShown || w.isFolder && p.KnowsFolder(w.path) {
				return nil
			}
			return &Error{Class: ClassUnreachable, Err: errors.New("the service is away, and nobody looked there yet")}
		}
		err := g.list.Look(ctx, func(ctx context.Context) (err error) {
			asName, err = g.askFor(ctx, w, asName)
			return err
		})
		if err != nil && w.isShown && !t.look.Reached() {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return g.knowAll(ctx)
}

// settle asks for the names of a folder that are in doubt. While the service is away they stay as they are shown.
func (g *group) settle(ctx context.Context, p *view.Partial, w wanted) error {
	if !w.isFolder {
		return nil
	}
	for _, path := range p.Doubts(w.path) {
		if err := g.know(ctx, wanted{path: path, isShown: true}); err != nil {
			return err
		}
	}
	return nil
}

// askFor asks for a part of g: by name, or of the folder. It reports whether the name is to be asked for next, because
// it is that of no folder. What changed meanwhile may refuse the part. Needs the gate of g.list.
func (g *group) askFor(ctx context.Context, w wanted, asName bool) (noFolder bool, err error) {
	t, p := g.dir.t, g.part.Load()
	if p == nil && g.list.IsListed() || p != nil && w.isKnown(p) { // another program asked
		return asName, nil
	}
	ask := t.parts.PartOfFolder
	if asName {
		ask = t.parts.PartOfName
	}
	part, err := ask(ctx, g.id, w.path)
	switch {
	case errors.Is(err, sdk.ErrUnsupported):
		return asName, g.readAll(ctx)
	case errors.Is(err, sdk.ErrTooLarge) && t.forgetParts(g):
		return asName, nil // it is asked for again
	case err != nil:
		return asName, g.failed(ctx, "look up", join(g.dir.Path(), w.path), err)
	}
	g.list.NoteMember()
	if p == nil {
		p = view.NewPartial(g.view, part.At)
		t.change(func() []notice {
			g.part.Store(p)
			return nil
		})
	}
	if part.Until.Number() > p.At().Number() {
		if err := g.followChanges(ctx, p); err != nil || g.part.Load() != p {
			return asName, err
		}
	}
	var rows []sdk.Entry
	for _, c := range part.Children {
		if c.File != nil {
			rows = append(rows, *c.File)
		} else {
			rows = append(rows, sdk.Entry{Name: strings.TrimPrefix(w.path+"/"+c.Name, "/"), Folder: true})
		}
	}
	if err := g.roomFor(rows); err != nil {
		return asName, err
	}
	t.change(func() []notice {
		if g.gone {
			return nil
		}
		if p.At().Number() == part.Until.Number() { // nothing else happened
			g.list.Listed()
		}
		return g.learn(p, w.path, asName, part)
	})
	return !asName && part.Missing, nil
}

// learn shows a part of a path: of its name, or of the folder. Needs Tree.mu.
func (g *group) learn(p *view.Partial, path string, asName bool, part sdk.Part) []notice {
	learn := p.LearnFolder
	if asName {
		learn = p.LearnName
	}
	changes, _ := learn(path, part)
	notices := g.show(changes, nil)
	at := g.folderAt(path)
	if at == nil {
		return notices
	}
	if notices = append(notices, at.pruneAll()...); at != g.dir {
		notices = append(notices, at.prune()...)
	}
	return notices
}

// showFolders shows folders that are known to be there, also those in which nothing is known.
func (g *group) showFolders(p *view.Partial, w wanted) {
	paths := []string{w.path}
	if w.isFolder {
		paths = p.Folders(w.path)
	}
	t := g.dir.t
	t.mu.RLock()
	paths = slices.DeleteFunc(paths, func(path string) bool {
		return path == "" || !p.IsFolder(path) || g.folderAt(path) != nil
	})
	t.mu.RUnlock()
	if len(paths) == 0 { // mostly
		return
	}
	t.change(func() []notice {
		for _, path := range paths {
			if g.part.Load() == p && p.IsFolder(path) {
				g.slot(path+"/", "")
			}
		}
		t.countHeld()
		return nil
	})
}

// mayHoldMore reports whether something may be beneath a folder that the tree does not show. Needs Tree.mu.
func (d *Dir) mayHoldMore() bool {
	p := d.group.part.Load()
	if p == nil {
		return false
	}
	path := d.ownPath()
	return p.IsFolder(path) || !p.Knows(path)
}

// followChanges brings what is known of a large group up to date. Needs the gate of g.list.
func (g *group) followChanges(ctx context.Context, p *view.Partial) error {
	t := g.dir.t
	var c sdk.Changes
	err := g.list.Ask(ctx, func() (news bool, err error) {
		if c, err = t.parts.Changes(ctx, g.id, p.At(), p); errors.Is(err, sdk.ErrTooLarge) && t.forgetParts(g) {
			c, err = t.parts.Changes(ctx, g.id, p.At(), p)
		}
		return slices.ContainsFunc(c.Entries, g.isNews), err
	})
	if errors.Is(err, sdk.ErrUnsupported) {
		return g.readAll(ctx)
	}
	if errors.Is(err, sdk.ErrTooLarge) {
		return g.beginAnew(ctx, p)
	}
	if err != nil {
		return g.failed(ctx, "list", g.dir.Path(), err)
	}
	shown := slices.DeleteFunc(slices.Clone(c.Entries), func(e sdk.Entry) bool {
		return p.Entry(e.Ref) == nil && !p.Knows(recordedName(&e))
	})
	if err := g.roomAfterDeletions(shown); err != nil {
		return err
	}
	t.change(func() []notice {
		was, made := g.before(shown), t.gens.Load()
		notices := g.show(p.Apply(c), c.Entries)
		for _, r := range c.Renamed {
			at, _ := g.nearest(r.To)
			notices = append(notices, at.disown(r.By != t.remote.Account())...)
		}
		g.list.Listed()
		return append(notices, g.changedByOthers(was, made)...)
	})
	return nil
}

// beginAnew has a large group known from now on, where too much changed since to be told. What was deleted meanwhile
// is not in the cache any more: nothing of the group is. Needs the gate of g.list.
func (g *group) beginAnew(ctx context.Context, p *view.Partial) error {
	t := g.dir.t
	part, err := t.parts.PartOfName(ctx, g.id, rand.Text()) // any name has the place
	if errors.Is(err, sdk.ErrUnsupported) {
		return g.readAll(ctx)
	}
	if err != nil {
		return g.failed(ctx, "list", g.dir.Path(), err)
	}
	t.change(func() []notice {
		if g.gone {
			return nil
		}
		g.list.Listed()
		notices, _ := g.forget(p, part.Until)
		return append(notices, func(Kernel) {
			t.contents.Cache.Retire(func(k cache.Key) bool { return k.Group == string(g.id) })
		})
	})
	return nil
}

// lookAt looks at what is recorded under a name now.
func (g *group) lookAt(ctx context.Context, raw string) error {
	if err := g.list.Refresh(ctx, 0); err != nil {
		return err
	}
	return g.know(ctx, wanted{path: raw})
}

// knowAll has a large group listed.
func (g *group) knowAll(ctx context.Context) error {
	if g.part.Load() == nil {
		return nil
	}
	return g.list.Look(ctx, g.readAll)
}

// readAll lists a group that is large, or was not listed yet. Needs the gate of g.list.
func (g *group) readAll(ctx context.Context) error {
	p := g.part.Load()
	if p == nil && g.list.IsListed() {
		return nil
	}
	if p == nil {
		return g.listChanges(ctx)
	}
	var entries []sdk.Entry
	err := g.list.Ask(ctx, func() (news bool, err error) {
		entries, err = g.listed(ctx)
		return true, err
	})
	if err != nil {
		return g.failed(ctx, "list", g.dir.Path(), err)
	}
	if err := g.roomFor(entries); err != nil {
		return err
	}
	g.dir.t.change(func() []notice {
		g.part.Store(nil)
		g.holdPart(0)
		forgotten := p.Restart(p.At(), func(*sdk.Entry) bool { return false })
		notices := g.show(append(forgotten, g.view.Apply(entries...)...), entries)
		g.view.Listed(entries)
		g.list.Listed()
		return append(notices, g.dir.pruneAll()...)
	})
	return nil
}

// forgetParts forgets what is known of large groups, to make room for one: what is looked at next is asked for again.
// It reports whether something was known. For a group of another account own ones are not forgotten.
func (t *Tree) forgetParts(asks *group) (some bool) {
	t.change(func() (notices []notice) {
		for _, g := range t.groups {
			p := g.part.Load()
			if p == nil || g.owned && !asks.owned {
				continue
			}
			more, is := g.forget(p, p.At())
			notices, some = append(notices, more...), some || is
		}
		return notices
	})
	return some
}

// forget forgets what is known of a large group, but for files that programs have open, and goes on from a place. It
// reports whether something was known. A file that comes back has the number that it had (A4). Needs Tree.mu.
func (g *group) forget(p *view.Partial, at sdk.Cursor) (notices []notice, some bool) {
	var numbers []uint64
	open := make(map[*versions]bool)
	for _, v := range g.names {
		if v.shown != nil && v.shown.isOpen() {
			open[v] = true
		} else if v.shown != nil {
			numbers = append(numbers, v.shown.ino)
		}
	}
	changes := p.Restart(at, func(e *sdk.Entry) bool { return !e.Folder && open[g.names[recordedName(e)]] })
	notices = g.show(changes, nil)
	for _, ino := range numbers {
		g.dir.t.unspend(ino)
	}
	g.dir.t.countHeld()
	return notices, len(changes) > 0
}

// isOpen reports whether a program has the file open, or its content is not recorded: also where that cannot be told
// now.
func (f *File) isOpen() bool {
	if !f.mu.TryLock() {
		return true
	}
	defer f.mu.Unlock()
	return f.opens > 0 || f.stage != nil
}

// pruneAll prunes the folders beneath d. Needs Tree.mu.
func (d *Dir) pruneAll() (notices []notice) {
	for _, n := range d.children {
		if in, ok := n.(*Dir); ok {
			notices = append(notices, in.pruneAll()...)
			notices = append(notices, in.prune()...)
		}
	}
	return notices
}

// knowVersions makes sure that all versions of names are known, before all of them are changed. wasRead = the group was
// listed for that.
func (g *group) knowVersions(ctx context.Context, raw ...string) (wasRead bool, err error) {
	p := g.part.Load()
	if p == nil || !slices.ContainsFunc(raw, func(name string) bool { return !p.KnowsVersions(name) }) {
		return false, nil
	}
	return true, g.knowAll(ctx)
}

// needsAll reports whether a name of a control directory shows all of a group.
func (d *Dir) needsAll(name string) bool {
	return d.kind == dirHistory || d.kind == dirControl && d.group != nil &&
		(name == historyName || name == trashName || name == ledgerName)
}
