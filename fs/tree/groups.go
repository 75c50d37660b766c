package tree

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
)

// group is one group the account owns or belongs to.
type group struct {
	id    sdk.GroupID
	dir   *Dir
	owned bool
	waste bool // no group of the service: a wastebasket in the root, of this mount alone
	// until then it is believed to take no files in blocks, as a save told; Unix time in nanoseconds
	whole atomic.Int64
	role  sdk.Role // Tree.mu; "" where the service has no roles

	path string                       // of its directory
	list *look.List                   // of its records
	view *view.View                   // of them
	part atomic.Pointer[view.Partial] // of a large group that is known in part; changed by Tree.mu

	// By Tree.mu.
	gone   bool // no longer ours
	warned bool // it was reported that files wait to be destroyed
	names  map[string]*versions
	// theirLinks are the names whose newest upload is a link of another account; nil without any
	theirLinks map[*versions]bool
	folders    map[sdk.Ref]*Dir       // that show recorded folders
	own        map[sdk.Ref]struct{}   // uploads of this mount
	waiting    map[sdk.Ref]*sdk.Entry // those that are not recorded yet
	changes    int                    // counts changes of files in the view
	wrong      map[sdk.Ref]error      // uploads that hold something else than was recorded

	merges    mergeSetting
	info      groupInfo
	history   *past
	trash     *past
	unlearned map[*versions]struct{} // names that history and trash do not have yet
	held      int64                  // memory of names and the view, in bytes
	partHeld  int64                  // of held: of part
}

// listGroups lists the groups; ones that appeared or vanished show at once. Needs the gate of Tree.look.Groups.
func (t *Tree) listGroups(ctx context.Context) error {
	var listed []sdk.Group
	err := t.look.Groups.Ask(ctx, func() (news bool, err error) {
		listed, err = t.remote.Groups(ctx)
		return err == nil && isNewsOf(listed, t.knownGroups()), err
	})
	if err != nil {
		failed := wrapRemote("list groups", "/", err)
		if failed.Class == ClassNotExist {
			failed.Class = ClassRejected // the account itself is unknown
		}
		return failed
	}
	there := t.knownGroups()
	newcomers, full := t.withRoom(newcomersOf(listed, there, t.cfg.Known))
	if full != nil { // groups that are lost vanish all the same
		err = wrapRemote("list groups", "/", full)
	}
	t.tell(t.applyGroups(listed, newcomers, t.ownersOf(ctx, lookAlikesOf(newcomers, there))))
	return err
}

// withRoom returns the groups for which there is memory: all of those that the account owns, and all
// others, or none of them. The error says why some are missing.
func (t *Tree) withRoom(groups []sdk.Group) (room []sdk.Group, full error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, owned := range []bool{true, false} {
		part, need := []sdk.Group(nil), int64(0)
		for _, g := range groups {
			if g.Owned == owned {
				part, need = append(part, g), need+groupFootprint(g.ID)
			}
		}
		if err := t.hasRoom(owned, need); err != nil {
			full = err
			continue
		}
		room = append(room, part...)
	}
	return room, full
}

// knownGroups returns the groups that the tree has.
func (t *Tree) knownGroups() groupSet {
	t.mu.RLock()
	defer t.mu.RUnlock()
	there := make(groupSet, len(t.groups))
	for id := range t.groups {
		there[id] = struct{}{}
	}
	return there
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

// applyGroups shows the listed groups. alike holds the owners of newcomers that look
// like another group.
func (t *Tree) applyGroups(listed, newcomers []sdk.Group, alike map[sdk.GroupID]sdk.AccountID) []notice {
	var notices []notice
	var lost []*group
	t.mu.Lock()
	t.look.Groups.Listed()
	still := make(map[sdk.GroupID]bool, len(listed))
	for _, listedGroup := range listed {
		still[listedGroup.ID] = true
		if g := t.groups[listedGroup.ID]; g != nil {
			g.list.NoteMember()
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
			notices = append(notices, g.remove()...)
			gone := outOfGroup()
			gone.Op, gone.Path = "list", g.dir.path()
			notices = append(notices, t.noted(gone))
		}
	}
	t.countHeld()
	t.mu.Unlock()
	for _, g := range lost {
		notices = append(notices, func(Kernel) { t.queue.Lost(g.id) })
		t.contents.Cache.Purge(func(k cache.Key) bool { return k.Group == string(g.id) })
		notices = append([]notice{contentGone(func(f *File) bool { return f.isOf(g) })}, notices...)
	}
	return notices
}

func newGroup() *group {
	return &group{view: view.New(), names: make(map[string]*versions),
		folders: make(map[sdk.Ref]*Dir), own: make(map[sdk.Ref]struct{}), waiting: make(map[sdk.Ref]*sdk.Entry),
		unlearned: make(map[*versions]struct{})}
}

// addGroup shows a group under name, with a suffix if the name is taken. Needs Tree.mu.
func (t *Tree) addGroup(listed sdk.Group, name string) {
	g := newGroup()
	g.id, g.owned, g.role = listed.ID, listed.Owned, listed.Role
	g.list = t.look.NewList(g.id, g.view, g.listChanges)
	name = names.Free(name, string(listed.ID), func(name string) bool { return t.root.children[name] == nil })
	g.dir = t.newDir(t.root, name, dirGroup)
	g.dir.group = g
	g.hold(groupFootprint(g.id))
	g.addControl()
	g.path = g.dir.path()
	t.root.attach(name, g.dir)
	t.groups[listed.ID] = g
}

// remove needs Tree.mu. Open handles fail from now on (E, revoked).
func (g *group) remove() []notice {
	t := g.dir.t
	g.hold(-g.held)
	g.info.forget(t)
	t.countHeld()
	g.gone = true
	delete(t.groups, g.id)
	t.look.Remove(g.list)
	t.log.Warn("group is no longer ours", "group", string(g.id))
	g.dir.carry()
	return t.root.detach(g.dir.name, g.dir)
}

// listChanges lists the changes in g. Needs the gate of g.list.
func (g *group) listChanges(ctx context.Context) error {
	if p := g.part.Load(); p != nil {
		return g.followChanges(ctx, p)
	}
	t := g.dir.t
	var entries []sdk.Entry
	err := g.list.Ask(ctx, func() (news bool, err error) {
		entries, err = g.listed(ctx)
		return slices.ContainsFunc(entries, g.isNews), err
	})
	if err != nil {
		return g.failed(ctx, "list", g.dir.Path(), err)
	}
	if err := g.roomAfterDeletions(entries); err != nil {
		return err
	}
	t.change(func() []notice {
		notices := g.mergeListed(entries)
		g.view.Listed(entries)
		g.list.Listed()
		return notices
	})
	return nil
}

// listed lists what changed in g.
func (g *group) listed(ctx context.Context) ([]sdk.Entry, error) {
	t := g.dir.t
	entries, err := t.remote.Entries(ctx, g.id, g.view)
	if errors.Is(err, sdk.ErrTooLarge) && t.forgetParts(g) {
		entries, err = t.remote.Entries(ctx, g.id, g.view)
	}
	return entries, err
}

// isNews reports whether an entry tells something that g does not know yet.
func (g *group) isNews(e sdk.Entry) bool {
	known := g.view.Entry(e.Ref)
	return known == nil || known.ChangedSeq != e.ChangedSeq || (known.Deleted == nil) != (e.Deleted == nil)
}

// failed turns an error that concerns g into ours. "Not authorized" in a group
// that was listed before means that the account was revoked: the group then vanishes
// at once (E).
func (g *group) failed(ctx context.Context, op, path string, err error) error {
	failed := wrapRemote(op, path, err)
	if failed.Class != ClassAccess {
		return failed
	}
	switch {
	case g.dir.t.look.Groups.Refresh(context.WithoutCancel(ctx), 0) != nil:
	case g.isGone():
		return wrapRemote(op, path, outOfGroup())
	case g.dir.t.readOnlyIn(g) != nil:
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
		return &Error{Class: ClassReadOnly, Err: errors.New("the mount is read-only"),
			Hint: "Mount again without -o ro."}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !g.isReader() {
		return nil
	}
	return &Error{Class: ClassReadOnly, Err: errors.New("this account is a reader of the group and changes nothing " +
		"in it"),
		Hint: "Ask its owner to make you a writer with: svcfs group add GROUP " + string(t.remote.Account()) +
			" --role writer"}
}

func (g *group) isGone() bool {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	return g.gone
}

// mergeListed merges what others did, too, and has the kernel tell of it. Needs Tree.mu.
func (g *group) mergeListed(entries []sdk.Entry) []notice {
	was, made := g.before(entries), g.dir.t.gens.Load()
	notices := g.mergeEntries(entries)
	return append(notices, g.changedByOthers(was, made)...)
}

// mergeEntries merges file records into the namespace, which keeps them, and
// returns the notices for the kernel. Needs Tree.mu.
func (g *group) mergeEntries(entries []sdk.Entry) []notice {
	return g.show(g.apply(entries...), entries)
}

// show shows changes of rows, and wipes what entries delete. Needs Tree.mu.
func (g *group) show(changes []view.Change, entries []sdk.Entry) []notice {
	touched := make(map[*versions]bool, len(changes))
	folders := g.mergeChanges(touched, changes)
	left := g.unplaceFolders(folders)
	notices := append(g.wipeDeleted(entries), g.placeMerged(touched)...)
	notices = append(append(notices, g.placeFolders(folders, left)...), g.dir.t.relinkAll()...)
	g.dir.t.countHeld()
	return notices
}

// wipeDeleted returns the notices that take the content of deleted uploads from the cache and from the
// kernel. Who has a removed file open keeps it, and so does who reads a version that newer
// ones replaced.
func (g *group) wipeDeleted(entries []sdk.Entry) (notices []notice) {
	shredded, replaced := make(map[sdk.Ref]bool), make(map[sdk.Ref]bool)
	for i := range entries {
		switch d := entries[i].Deleted; {
		case d == nil || d.InTrash || entries[i].Folder:
		case d.Reason == wire.ReasonVersionPolicy:
			replaced[entries[i].Ref] = true
		default:
			shredded[entries[i].Ref] = true
		}
	}
	in := func(refs map[sdk.Ref]bool) func(cache.Key) bool {
		return func(k cache.Key) bool { return k.Group == string(g.id) && refs[sdk.Ref(k.Ref)] }
	}
	if len(replaced) > 0 {
		notices = append(notices, func(Kernel) { g.dir.t.contents.Cache.Retire(in(replaced)) })
	}
	if len(shredded) > 0 {
		purge := func(Kernel) { g.dir.t.contents.Cache.Purge(in(shredded)) }
		notices = append(notices, purge, contentGone(func(f *File) bool {
			e := f.entry.Load()
			return e != nil && shredded[e.Ref] && f.isOf(g)
		}))
	}
	return notices
}
