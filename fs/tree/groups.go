package tree

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// group is one group the account owns or belongs to.
type group struct {
	id    sdk.GroupID
	dir   *Dir
	owned bool
	role  sdk.Role // Tree.mu; "" where the service has no roles

	listing gate    // one listing at a time; guards after and marked
	after   sdk.Seq // up to which changes are known
	marked  sdk.Ref // of the change at after: every later listing must know it
	loaded  bool    // Tree.mu

	// By Tree.mu.
	listedAt time.Time // of the last look at the ledger that succeeded
	usedAt   time.Time // somebody looked inside
	gone     bool      // no longer ours
	warned   bool      // somebody was told that files wait to be destroyed
	names    map[string]*versions
	byRef    map[sdk.Ref]*sdk.Entry
	own      map[sdk.Ref]struct{} // uploads of this mount
	listings int                  // counts listings begun
	here     map[sdk.Ref]int      // what this mount renamed or deleted, by the listings begun until then
	changes  int                  // counts changes of names and byRef
	wrong    map[sdk.Ref]error    // uploads that hold something else than was recorded

	pacing   pacing      // of looks at the records
	price    lookPrice   // of one
	asking   *asking     // the look that programs wait for
	failed   *FailedLook // the last look, if it failed
	toldDry  bool        // that the budget allows no look
	checking *asking     // whether we are still a member
	memberAt time.Time   // the service last said so
	doubts   pacing      // of looks because the ledger said otherwise

	opens atomic.Int64 // handles of its files

	info      groupInfo
	history   *past
	unlearned []*versions // names that history does not have yet
}

// versions are the uploads of one recorded name, and the file that shows the
// newest of them.
type versions struct {
	raw     string
	entries []*sdk.Entry // ascending; deleted ones stay
	shown   *File        // nil when none lives, or when hidden
	// hidden: a program renamed the file to a scratch name in this mount (W8),
	// so the name is free here until a newer upload arrives.
	hidden sdk.Ref // "" when none is
	// saved is the last upload of this name by this mount, and base what it was
	// made from: an upload by others between the two is a conflict (W11).
	saved, base sdk.Seq
}

// overtook returns an upload that the last save of this mount did not know, and
// forgets that save's base, so that it is told once. Needs Tree.mu.
func (v *versions) overtook(own map[sdk.Ref]struct{}) *sdk.Entry {
	for _, e := range v.entries {
		if _, ours := own[e.Ref]; !ours && e.Seq > v.base && e.Seq < v.saved {
			v.base = v.saved
			return e
		}
	}
	return nil
}

// noteOwn remembers what a save of this mount was made from. Needs no lock.
func (t *Tree) noteOwn(g *group, row *sdk.Entry, base sdk.Seq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := g.version(row.Name)
	if n := len(v.entries); base == 0 && n > 0 { // made anew, or under another name: what was known was meant
		base = v.entries[n-1].Seq
	}
	v.saved, v.base = row.Seq, base
	g.own[row.Ref] = struct{}{}
}

// conflict tells the second of two writers (W11). Needs Tree.mu.
func (t *Tree) conflict(g *group, v *versions) []notice {
	e := v.overtook(g.own)
	if e == nil {
		return nil
	}
	path := join(g.dir.path(), v.raw)
	return []notice{{err: &Error{Class: ClassConflict, Op: "close", Path: path,
		Err:  errText(string(e.Uploader) + " uploaded this name while it was changed here; both are kept, and the newest is shown"),
		Hint: "Compare with the others: ls -l '" + t.cfg.Mountpoint + join(g.dir.path(), names.Control+"/history/"+oneLine(v.raw)) + "'"}}}
}

// age is where in the ledger the name came to be.
func (v *versions) age() (oldest sdk.Seq) {
	for i, e := range v.entries {
		if at := sdk.Seq(e.Named().Age); i == 0 || at < oldest {
			oldest = at
		}
	}
	return oldest
}

// recordedName returns the name e is listed under. A name is a path: slashes divide
// folders.
func recordedName(e *sdk.Entry) string { return e.Named().Recorded }

// newest returns the newest upload that is not deleted, or nil.
func (v *versions) newest() *sdk.Entry {
	for _, e := range slices.Backward(v.entries) {
		if e.Deleted == nil {
			return e
		}
	}
	return nil
}

// refreshGroups lists the groups; ones that appeared or vanished show at once.
func (t *Tree) refreshGroups(ctx context.Context) (err error) {
	defer func() { t.noteLooking(&t.failed, err) }()
	if err := t.listing.enter(ctx); err != nil {
		return wrapRemote("list groups", "/", err)
	}
	defer t.listing.leave()
	ctx, cancel := t.metadata(ctx)
	defer cancel()
	var listed []sdk.Group
	err = t.paid(ctx, nil, func() (err error) {
		listed, err = t.remote.Groups(ctx)
		return err
	})
	t.mu.Lock()
	t.pacing.note(t.now(), err == nil && t.isNewsOfGroups(listed), t.cfg.RefreshInterval, longestPause)
	t.toldDry = t.toldDry && err != nil
	t.mu.Unlock()
	if err != nil {
		failed := wrapRemote("list groups", "/", err)
		if failed.Class == ClassNotExist {
			failed.Class = ClassRejected // the account itself is unknown
		}
		return failed
	}
	newcomers := t.newcomers(listed)
	t.tell(t.applyGroups(listed, newcomers, t.ownersOf(ctx, t.lookAlikes(newcomers))))
	return nil
}

// isNewsOfGroups needs Tree.mu.
func (t *Tree) isNewsOfGroups(listed []sdk.Group) bool {
	return len(listed) != len(t.groups) || slices.ContainsFunc(listed, func(g sdk.Group) bool { return t.groups[g.ID] == nil })
}

// ownersOf asks for the owners of groups, "" where the service does not tell.
func (t *Tree) ownersOf(ctx context.Context, groups []sdk.GroupID) map[sdk.GroupID]sdk.AccountID {
	owners := make(map[sdk.GroupID]sdk.AccountID, len(groups))
	for _, id := range groups {
		owner, err := t.remote.GroupOwner(ctx, id)
		if err != nil {
			t.log.Warn("cannot ask for the owner of a group that looks like another", "group", string(id), "error", err)
		}
		owners[id] = owner
	}
	return owners
}

// applyGroups shows what was listed. alike holds the owners of newcomers that look
// like another group.
func (t *Tree) applyGroups(listed, newcomers []sdk.Group, alike map[sdk.GroupID]sdk.AccountID) []notice {
	var notices []notice
	var lost []*group
	t.mu.Lock()
	t.listedAt = t.now()
	still := make(map[sdk.GroupID]bool, len(listed))
	for _, listedGroup := range listed {
		still[listedGroup.ID] = true
		if g := t.groups[listedGroup.ID]; g != nil {
			g.memberAt = t.listedAt
			g.owned, g.role = listedGroup.Owned, listedGroup.Role
		}
	}
	for _, newcomer := range newcomers {
		owner, isAlike := alike[newcomer.ID]
		t.addGroup(newcomer, names.Group(string(newcomer.ID), string(owner), isAlike))
	}
	for id, g := range t.groups {
		if !still[id] {
			lost = append(lost, g)
			notices = append(notices, t.removeGroup(g)...)
		}
	}
	t.mu.Unlock()
	for _, g := range lost {
		t.cache.Purge(func(k cache.Key) bool { return k.Group == string(g.id) })
		notices = append([]notice{{gone: func(f *File) bool { return f.isOf(g) }}}, notices...)
	}
	return notices
}

// addGroup shows a group under name, or what is free of it. Needs Tree.mu.
func (t *Tree) addGroup(listed sdk.Group, name string) {
	g := &group{id: listed.ID, owned: listed.Owned, role: listed.Role, listing: newGate(),
		names: make(map[string]*versions), byRef: make(map[sdk.Ref]*sdk.Entry), own: make(map[sdk.Ref]struct{}),
		here: make(map[sdk.Ref]int)}
	name = names.Free(name, string(listed.ID), func(name string) bool { return t.root.children[name] == nil })
	g.dir = t.newDir(t.root, name, dirGroup)
	g.dir.group = g
	t.addGroupControl(g)
	t.root.children[name] = g.dir
	t.groups[listed.ID] = g
}

// removeGroup needs Tree.mu. Open handles fail from now on (E, revoked).
func (t *Tree) removeGroup(g *group) []notice {
	g.gone = true
	delete(t.groups, g.id)
	delete(t.root.children, g.dir.name)
	t.log.Warn("group is no longer ours", "group", string(g.id))
	return []notice{{dir: t.root, name: g.dir.name}}
}

func (t *Tree) groupsInUse() []*group {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var used []*group
	for _, g := range t.groups {
		if g.loaded && t.now().Sub(g.usedAt) < idleAfter {
			used = append(used, g)
		}
	}
	return used
}

// use makes sure that g was listed within maxAge; negative means ever.
func (t *Tree) use(ctx context.Context, g *group, maxAge time.Duration) error {
	t.mu.Lock()
	g.usedAt = t.now()
	t.lookedAt = g.usedAt
	known := g.loaded
	fresh := known && (maxAge < 0 || t.isFresh(g.listedAt, &g.pacing, &g.price, maxAge))
	gone := g.gone
	t.mu.Unlock()
	if gone {
		return plain(ClassNotExist, "look up", g.dir.Path(), "the group is gone")
	}
	if !known {
		return t.refreshGroup(ctx, g, max(maxAge, 0))
	}
	if fresh || !t.reached.Load() { // tick looks whether it is back
		return nil
	}
	return t.fromMemory(g.dir.Path(), &g.toldDry, t.wait(ctx, t.lookAt(g, maxAge)))
}

// refreshGroup lists what changed in g, unless somebody else just did.
func (t *Tree) refreshGroup(ctx context.Context, g *group, maxAge time.Duration) (err error) {
	if err := g.listing.enter(ctx); err != nil {
		return wrapRemote("list", g.dir.Path(), err)
	}
	defer g.listing.leave()
	t.mu.RLock()
	fresh := maxAge > 0 && g.loaded && t.now().Sub(g.listedAt) < maxAge
	t.mu.RUnlock()
	if fresh {
		return nil
	}
	defer func() { t.noteLooking(&g.failed, err) }()
	for range maxListings {
		if again, err := t.list(ctx, g); err != nil || !again {
			return err
		}
	}
	return nil // what stayed open is listed next time
}

// maxListings bounds how often a group is listed at once because this mount
// changed it meanwhile.
const maxListings = 3

// list asks the ledger once. It reports whether what it was told may be older
// than a change of this mount, so that it has to be asked again. Needs g.listing.
func (t *Tree) list(ctx context.Context, g *group) (again bool, err error) {
	ctx, cancel := t.metadata(ctx)
	defer cancel()
	t.mu.Lock()
	g.listings++
	number := g.listings
	t.mu.Unlock()
	var entries []sdk.Entry
	err = t.paid(ctx, g, func() (err error) {
		entries, err = t.remote.Entries(ctx, g.id, max(g.after-1, 0))
		return err
	})
	t.noteListed(g, entries, err)
	if err != nil {
		return false, t.failedInGroup(ctx, g, "list", g.dir.Path(), err)
	}
	if entries, err = t.continued(g, entries); err != nil {
		return false, err
	}
	notices, again := t.applyListed(g, entries, number)
	t.tell(notices)
	if again {
		return true, nil
	}
	for i := range entries {
		if e := &entries[i]; e.ChangedSeq > g.after {
			g.after, g.marked = e.ChangedSeq, e.Ref
		}
	}
	return false, nil
}

// noteListed remembers when g was asked about, and whether that brought news.
func (t *Tree) noteListed(g *group, entries []sdk.Entry, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	news := slices.ContainsFunc(entries, func(e sdk.Entry) bool {
		known := g.byRef[e.Ref]
		return known == nil || known.ChangedSeq != e.ChangedSeq || (known.Deleted == nil) != (e.Deleted == nil)
	})
	g.pacing.note(now, news || !g.loaded, t.cfg.RefreshInterval, longestPause)
	if err == nil {
		g.memberAt, g.toldDry = now, false
	}
}

// failedInGroup turns an error that concerns g into ours. Who is told "not
// authorized" in a group it was listed in has been revoked: the group then
// vanishes at once (E).
func (t *Tree) failedInGroup(ctx context.Context, g *group, op, path string, err error) error {
	failed := wrapRemote(op, path, err)
	if failed.Class != ClassAccess {
		return failed
	}
	switch {
	case t.refreshGroups(context.WithoutCancel(ctx)) != nil:
	case t.isGone(g):
		failed.Class = ClassRevoked
		failed.Err = errText("this account was revoked from the group")
		failed.Hint = "Ask the owner of the group to add you again."
	case t.readOnlyIn(g) != nil:
		failed.Class = ClassReadOnly
	}
	return failed
}

// isReader reports whether this account is only a reader of g, which may be nil.
// Needs Tree.mu.
func (g *group) isReader() bool { return g != nil && g.role == sdk.RoleReader }

// readOnlyIn refuses changes in a read-only mount, and where this account is a
// reader; g is nil above the groups.
func (t *Tree) readOnlyIn(g *group) *Error {
	if t.cfg.ReadOnly {
		return &Error{Class: ClassReadOnly, Err: errText("the mount is read-only"), Hint: "Mount again without -o ro."}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !g.isReader() {
		return nil
	}
	return &Error{Class: ClassReadOnly, Err: errText("this account is a reader of the group and changes nothing in it"),
		Hint: "Ask its owner to make you a writer with: svcfs group add GROUP " + string(t.remote.Account()) + " --role writer"}
}

func (t *Tree) isGone(g *group) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return g.gone
}

// applyListed merges the records of the number-th listing and returns what the
// kernel must forget. A name or a deletion that this mount gave a record since
// the listing was begun stays: the listing may be from before it or, changed by
// others, from after it, so it is to be made again.
func (t *Tree) applyListed(g *group, entries []sdk.Entry, number int) (notices []notice, again bool) {
	t.mu.Lock()
	for i := range entries {
		e := &entries[i]
		changed, ok := g.here[e.Ref]
		if !ok {
			continue
		}
		if changed < number {
			delete(g.here, e.Ref)
			continue
		}
		known := g.byRef[e.Ref]
		again = again || e.Name != known.Name || e.Deleted == nil && known.Deleted != nil
		e.Name = known.Name
		if known.Deleted != nil {
			e.Deleted = known.Deleted
		}
	}
	notices = t.mergeEntries(g, entries)
	t.mu.Unlock()
	return append(t.wipeDeleted(g, entries), notices...), again
}

// applyDeleted merges the record of an upload that this mount deleted.
func (t *Tree) applyDeleted(g *group, e sdk.Entry) []notice {
	t.mu.Lock()
	if known := g.byRef[e.Ref]; known != nil {
		e.Name = known.Name
	}
	g.here[e.Ref] = g.listings
	entries := []sdk.Entry{e}
	notices := t.mergeEntries(g, entries)
	t.mu.Unlock()
	return append(t.wipeDeleted(g, entries), notices...)
}

// mergeEntries merges file records into the namespace, which keeps them, and
// returns what the kernel must forget. Needs Tree.mu.
func (t *Tree) mergeEntries(g *group, entries []sdk.Entry) []notice {
	g.loaded, g.listedAt = true, t.now()
	touched := make(map[*versions]bool, len(entries))
	for i := range entries {
		g.merge(&entries[i], touched)
	}
	for v := range touched {
		sortVersions(v)
	}
	notices := t.placeAll(g, touched)
	for v := range touched {
		notices = append(notices, t.conflict(g, v)...)
	}
	return notices
}

// wipeDeleted takes the content of deleted uploads from the cache and from the
// kernel.
func (t *Tree) wipeDeleted(g *group, entries []sdk.Entry) []notice {
	shredded := make(map[sdk.Ref]bool)
	for i := range entries {
		if entries[i].Deleted != nil {
			shredded[entries[i].Ref] = true
		}
	}
	if len(shredded) == 0 {
		return nil
	}
	t.cache.Purge(func(k cache.Key) bool {
		return k.Group == string(g.id) && shredded[sdk.Ref(k.Ref)]
	})
	return []notice{{gone: func(f *File) bool {
		e := f.entry.Load()
		return e != nil && shredded[e.Ref] && f.isOf(g)
	}}}
}

// merge adds or replaces one record and marks the names it touches: two when
// the file was renamed. Needs Tree.mu; the caller sorts.
func (g *group) merge(e *sdk.Entry, touched map[*versions]bool) {
	known := g.byRef[e.Ref]
	if known != nil {
		learn(e, known)
		v := g.names[recordedName(known)]
		v.entries = slices.DeleteFunc(v.entries, func(other *sdk.Entry) bool { return other == known })
		touched[v] = true
	}
	g.byRef[e.Ref] = e
	g.changes++
	v := g.version(recordedName(e))
	v.entries = append(v.entries, e)
	touched[v] = true
}

func sortVersions(v *versions) {
	sortEntries(v.entries)
}

func sortEntries(list []*sdk.Entry) {
	slices.SortStableFunc(list, func(a, b *sdk.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
}

// learn keeps what only reading the file could tell.
func learn(e, known *sdk.Entry) {
	if e.Name == "" {
		e.Name = known.Name
	}
	if e.Size == sdk.SizeUnknown {
		e.Size = known.Size
	}
}

// version returns the record of a name, made when it is new. Needs Tree.mu.
func (g *group) version(raw string) *versions {
	v := g.names[raw]
	if v == nil {
		v = &versions{raw: raw}
		g.names[raw] = v
		g.unlearned = append(g.unlearned, v)
	}
	return v
}

// placeAll places many names: what appears before what vanishes, so that a rename
// inside a folder does not take the folder away, but for a file that gets the
// name of a folder. Of names that collide the older one is first, and keeps it
// (N3). Needs Tree.mu.
func (t *Tree) placeAll(g *group, touched map[*versions]bool) (notices []notice) {
	ordered := slices.SortedFunc(maps.Keys(touched), func(a, b *versions) int {
		return cmp.Or(cmp.Compare(a.age(), b.age()), strings.Compare(a.raw, b.raw))
	})
	vacated := make(map[string]bool) // folders that something vanishes from
	for v := range touched {
		if v.newest() != nil || v.shown == nil {
			continue
		}
		for i, c := range v.raw {
			if c == '/' {
				vacated[v.raw[:i]] = true
			}
		}
	}
	for _, pass := range []func(*versions) bool{
		func(v *versions) bool { return v.newest() != nil && !vacated[v.raw] },
		func(v *versions) bool { return v.newest() == nil },
		func(v *versions) bool { return v.newest() != nil && vacated[v.raw] },
	} {
		for _, v := range ordered {
			if pass(v) {
				notices = append(notices, t.place(g, v)...)
			}
		}
	}
	return notices
}

// place makes the tree show the newest upload of v. A file with staged content
// keeps showing that until it is committed. Needs Tree.mu.
func (t *Tree) place(g *group, v *versions) []notice {
	if g.gone || v.shown != nil && v.shown.staged.Load() {
		return nil
	}
	newest := v.newest()
	if newest != nil && newest.Ref == v.hidden {
		return nil
	}
	v.hidden = ""
	old := v.shown
	if newest == nil {
		if old == nil {
			return nil
		}
		v.shown = nil
		return append(t.detach(old), notice{file: old})
	}
	if old != nil {
		if was := old.entry.Load(); was != nil && was.Ref == newest.Ref {
			old.entry.Store(newest)
			return t.disown(old.dir, t.isForeign(newest))
		}
		return t.supersede(v, old, newest)
	}
	return t.show(g, v, newest)
}

// show hangs a new file for e into the tree. Nothing is told of a name that only
// appears: telling late would throw a program out of a folder it has entered by
// then. Needs Tree.mu.
func (t *Tree) show(g *group, v *versions, e *sdk.Entry) []notice {
	dir, name := t.slot(g, v.raw, string(e.Ref))
	f := t.newFile(dir, name)
	f.group, f.raw = g, v.raw
	f.setEntry(e)
	dir.children[name] = f
	v.shown = f
	return t.disown(dir, t.isForeign(e))
}

// supersede replaces the file that shows v by one of the same inode number and
// the next generation. Needs Tree.mu.
func (t *Tree) supersede(v *versions, old *File, e *sdk.Entry) []notice {
	dir, name := old.dir, old.name
	if dir == nil {
		v.shown = nil
		return t.show(old.group, v, e)
	}
	f := t.newFile(dir, name)
	f.ino, f.group, f.raw = old.ino, old.group, v.raw
	f.setEntry(e)
	dir.children[name] = f
	old.dir = nil
	v.shown = f
	return append(t.disown(dir, t.isForeign(e)), notice{dir: dir, name: name})
}

// detach takes a file out of its directory, and folders that are empty then.
// Needs Tree.mu.
func (t *Tree) detach(f *File) []notice {
	dir := f.dir
	if dir == nil {
		return nil
	}
	notices := []notice{{dir: dir, name: f.name}}
	if dir.children[f.name] == Node(f) {
		delete(dir.children, f.name)
	}
	f.dir = nil
	for dir.kind == dirFolder && !dir.local && len(dir.children) == 0 && dir.parent != nil {
		parent := dir.parent
		delete(parent.children, dir.name)
		notices = append(notices, notice{dir: parent, name: dir.name})
		dir.parent = nil
		dir = parent
	}
	return notices
}

// slot finds the directory and the free name for a recorded name, and makes the
// folders on the way (N2, N3). Who has a name keeps it: a file that comes later
// gets a suffix made of ref, and a folder one made of its name. Needs Tree.mu.
func (t *Tree) slot(g *group, raw, ref string) (*Dir, string) {
	parts := strings.Split(raw, "/")
	dir := g.dir
	for _, part := range parts[:len(parts)-1] {
		dir = t.folder(dir, part)
	}
	return dir, names.Free(names.Component(parts[len(parts)-1]), ref, func(name string) bool { return dir.children[name] == nil })
}

// folder returns the folder of that recorded component in dir, making it.
// Needs Tree.mu.
func (t *Tree) folder(dir *Dir, raw string) *Dir {
	isOurs := func(n Node) bool {
		d, ok := n.(*Dir)
		return ok && d.raw == raw
	}
	name := names.Free(names.Component(raw), raw, func(name string) bool { return dir.children[name] == nil || isOurs(dir.children[name]) })
	if there := dir.children[name]; isOurs(there) {
		return there.(*Dir)
	}
	made := t.newDir(dir, name, dirFolder)
	made.raw = raw
	dir.children[name] = made
	return made
}
