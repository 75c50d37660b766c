package tree

import (
	"strings"

	"github.com/svcfs/svcfs/sdk"
)

// What names cost beside their uploads, in bytes, with their places in maps.
const (
	groupBytes   = 6 << 10 // a group without files, with its control directory
	nameBytes    = 800     // a name, and the file that shows it
	folderBytes  = 900     // a folder
	pastBytes    = 700     // a directory in history or trash, once somebody looked there
	versionBytes = 700     // a file there
	givenBytes   = 64      // an entry of Tree.given
)

func groupFootprint(id sdk.GroupID) int64 { return groupBytes + 4*int64(len(id)) }

// footprint returns about how much memory a name takes.
func (v *versions) footprint() int64 { return nameBytes + 2*int64(len(v.raw)) }

// hold needs Tree.mu.
func (g *group) hold(bytes int64) {
	if g.gone { // it was given back with the group
		return
	}
	g.held += bytes
	g.dir.t.held += bytes
}

// holdPart counts what is known of a group in part, beside its rows. Needs Tree.mu.
func (g *group) holdPart(bytes int64) {
	g.hold(bytes - g.partHeld)
	g.partHeld = bytes
}

// hold counts a folder, times so often. Needs Tree.mu.
func (d *Dir) hold(times int64) {
	if d.kind == dirFolder {
		d.group.hold(times * (folderBytes + 2*int64(len(d.name))))
	}
}

// countHeld has the client count what is held. It counts too what this mount saved, whose
// records nobody may refuse. Needs Tree.mu.
func (t *Tree) countHeld() {
	now := t.held + t.texts.Load()
	_ = t.remote.HoldList(now - t.counted)
	t.counted = now
}

// roomFor refuses a listing for which there is no memory, also after what is known of large groups was forgotten.
func (g *group) roomFor(listed []sdk.Entry) error {
	err := g.hasRoomFor(listed)
	if err != nil && g.dir.t.forgetParts(g) {
		err = g.hasRoomFor(listed)
	}
	return err
}

func (g *group) hasRoomFor(listed []sdk.Entry) error {
	t := g.dir.t
	need, asked := int64(0), int64(0)
	folders := make(map[string]struct{})
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i := range listed {
		e := &listed[i]
		need += e.Footprint()
		if known := g.view.Entry(e.Ref); known != nil {
			need -= known.Footprint()
		}
		if e.Folder {
			need += foldersOf(e.Name+"/", folders)
		} else if raw := recordedName(e); g.names[raw] == nil {
			need += nameBytes + foldersOf(raw, folders)
		}
		if need-asked < roomStep && i < len(listed)-1 {
			continue
		}
		asked = need
		if err := t.hasRoom(g.owned, need); err != nil {
			return wrapRemote("list", g.dir.path(), err)
		}
	}
	return nil
}

// roomAfterDeletions is roomFor that shows what is deleted first, where there is no room.
func (g *group) roomAfterDeletions(listed []sdk.Entry) error {
	if g.roomFor(listed) == nil {
		return nil
	}
	deletions := g.deletionsIn(listed)
	g.dir.t.change(func() []notice { return g.mergeListed(deletions) })
	return g.roomFor(listed)
}

// deletionsIn returns those of the listed records that delete what g shows, under the names that
// g knows: they need no room, and nobody shall read on what was deleted (M5).
func (g *group) deletionsIn(listed []sdk.Entry) (deletions []sdk.Entry) {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	for _, e := range listed {
		if known := g.view.Entry(e.Ref); known != nil && known.Deleted == nil && e.Deleted != nil {
			e.Name = known.Name
			deletions = append(deletions, e)
		}
	}
	return deletions
}

// roomStep is after how many bytes the room for a listing is looked at again: one name may have
// thousands of folders.
const roomStep = 1 << 20

// foldersOf returns what the folders of a name take that are not in seen yet, and adds them.
func foldersOf(raw string, seen map[string]struct{}) (bytes int64) {
	for {
		slash := strings.LastIndexByte(raw, '/')
		if slash < 0 {
			return bytes
		}
		component := len(raw)
		raw = raw[:slash]
		if _, ok := seen[raw]; ok {
			return bytes
		}
		seen[raw] = struct{}{}
		bytes += folderBytes + 2*int64(component-slash)
	}
}

// hasRoom returns an error if there is no memory for so many bytes more of an own group, or of one
// that another account owns. These take at most half of the memory together, so that own groups
// always go on. Whoever uses the bytes counts them. Needs Tree.mu.
func (t *Tree) hasRoom(owned bool, bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	if !owned {
		theirs := bytes
		for _, g := range t.groups {
			if !g.owned {
				theirs += g.held
			}
		}
		bytes = max(bytes, 2*theirs-t.counted)
	}
	err := t.remote.HoldList(bytes)
	_ = t.remote.HoldList(-bytes)
	return err
}
