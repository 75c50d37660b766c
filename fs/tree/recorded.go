package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
)

// A folder needs no record while a file beneath it is recorded. Where the service records folders, mkdir has
// it do so, so that an empty folder is there in every mount (N5). Where the service does not answer, or
// refuses, the folder is in this mount alone.

// record has the service record a folder of this mount. A failure changes nothing here.
func (d *Dir) record(ctx context.Context) {
	t := d.t
	t.mu.RLock()
	g, path, wanted := d.group, d.ownPath(), d.wantsRecord()
	t.mu.RUnlock()
	switch {
	case !wanted:
		return
	case !t.look.Reached(): // it looks by itself whether it is back
		d.noteUnrecorded(&Error{Class: ClassUnreachable, Err: errors.New("the service is away")})
		return
	}
	patient, cancel := network.WithPatience(ctx, look.Patience)
	defer cancel()
	began := t.now()
	made, err := t.remote.MakeFolder(patient, g.id, path)
	switch {
	case err != nil:
		if isAway(err) && sdk.KindOf(err) != sdk.ErrRateLimited {
			t.look.NoteReached(err)
		}
		d.noteUnrecorded(wrapRemote("", "", err))
		return
	case made.Ref == "": // others made it, or an answer was lost
		_ = g.list.Refresh(ctx, 0)
		return
	}
	g.view.Made(made.Number, began)
	var elsewhere bool
	t.change(func() []notice {
		notices := g.mergeEntries([]sdk.Entry{made})
		elsewhere = d.recorded != made.Ref
		return notices
	})
	if !elsewhere {
		return
	}
	// another program moved or removed d meanwhile
	if removed, err := t.remote.RemoveFolder(ctx, g.id, path); err == nil {
		t.change(func() []notice { return g.mergeEntries([]sdk.Entry{removed}) })
	}
}

// noteUnrecorded notes why a folder that was made here is in this mount alone, unless the folder above it is, too.
func (d *Dir) noteUnrecorded(err *Error) {
	d.t.mu.RLock()
	covered := d.parent == nil || d.parent.wantsRecord()
	d.t.mu.RUnlock()
	if covered {
		return
	}
	err.Err = fmt.Errorf("the folder is in this mount alone until a file is uploaded beneath it, because the service "+
		"did not record it: %w", err.Err)
	_ = d.failed("mkdir", "", err)
}

// recordAll records a folder that got another name, and those beneath it.
func (d *Dir) recordAll(ctx context.Context) {
	d.t.mu.RLock()
	list, _ := d.unrecorded(nil)
	d.t.mu.RUnlock()
	for _, beneath := range list {
		beneath.record(ctx)
	}
}

// unrecorded collects d, and the folders beneath it, without those above an uploaded file. Needs Tree.mu.
func (d *Dir) unrecorded(list []*Dir) (_ []*Dir, holdsFile bool) {
	at := len(list)
	for _, n := range d.children {
		switch n := n.(type) {
		case *File:
			holdsFile = holdsFile || n.isKind(fileReal) && n.entry.Load() != nil
		case *Dir:
			var holds bool
			list, holds = n.unrecorded(list)
			holdsFile = holdsFile || holds
		}
	}
	if !holdsFile && d.wantsRecord() {
		list = slices.Insert(list, at, d) // before those beneath
	}
	return list, holdsFile
}

// wantsRecord reports whether a folder was made in this mount and is to be there in others: neither the folder
// nor one above it has a scratch name. Needs Tree.mu.
func (d *Dir) wantsRecord() bool {
	if !d.t.cfg.Ours || d.kind != dirFolder || !d.local || d.recorded != "" || d.group.gone || d.group.waste {
		return false
	}
	for at := d; at.kind == dirFolder; at = at.parent {
		if at.parent == nil || at.parent.namesScratch(at.raw) || policy.IsWastebasket(at.raw) {
			return false
		}
	}
	return true
}

// ownPath is the recorded name of a folder. Needs Tree.mu.
func (d *Dir) ownPath() string {
	if d.parent == nil {
		return d.raw
	}
	return d.parent.rawPath(d.raw)
}

// pathInGroup is the recorded name of a folder, "" of the directory of a group. Needs Tree.mu.
func (d *Dir) pathInGroup() string {
	if d.kind != dirFolder {
		return ""
	}
	return d.ownPath()
}

// unrecord takes back that a folder was recorded, if it was; d may be nil. The folder stays in this mount.
func (d *Dir) unrecord(ctx context.Context) error {
	if d == nil {
		return nil
	}
	t := d.t
	t.mu.Lock()
	if d.recorded == "" {
		t.mu.Unlock()
		return nil
	}
	g, path, maker, was := d.group, d.ownPath(), d.group.view.Entry(d.recorded).Uploader, d.local
	d.local = true
	t.mu.Unlock()
	removed, err := t.remote.RemoveFolder(ctx, g.id, path)
	if err == nil {
		t.change(func() []notice { return g.mergeEntries([]sdk.Entry{removed}) })
		return nil
	}
	t.mu.Lock()
	d.local = was
	t.mu.Unlock()
	switch sdk.KindOf(err) {
	case sdk.ErrNotFound: // others were faster
		return g.list.Refresh(ctx, 0)
	case sdk.ErrConflict: // others put something there, or it hides uploads (W8)
		_ = g.list.Refresh(ctx, 0)
		return &Error{Class: ClassNotEmpty, Err: errors.New("for others there is something in the folder")}
	case sdk.ErrNotAuthorized:
		if maker != t.remote.Account() {
			return &Error{Class: ClassByDesign, Err: errors.New("only " + string(maker) +
				", who made the folder, and the owner of the group can remove it"), Hint: "Ask one of them."}
		}
	}
	return err
}

// setRecorded makes d show a recorded folder. Needs Tree.mu.
func (d *Dir) setRecorded(ref sdk.Ref) {
	d.recorded, d.local = ref, false
	d.group.folders[ref] = d
}

// isRecorded reports whether a row of a folder is the one of now.
func (g *group) isRecorded(e *sdk.Entry) bool { return e.Deleted == nil && g.view.Entry(e.Ref) == e }

// unplaceFolders takes from folders the records that were removed, are not known any more, or have another name, and
// returns these folders. What is there already gets its record. Needs Tree.mu.
func (g *group) unplaceFolders(list []*sdk.Entry) (left []*Dir) {
	for _, e := range list {
		if d := g.folders[e.Ref]; d != nil && (!g.isRecorded(e) || d.ownPath() != e.Name) {
			if d.recorded == e.Ref {
				d.recorded = ""
			}
			delete(g.folders, e.Ref)
			left = append(left, d)
		}
	}
	for _, e := range list {
		if there := g.folderAt(e.Name); there != nil && g.isRecorded(e) && g.folders[e.Ref] == nil {
			there.setRecorded(e.Ref)
		}
	}
	return left
}

// folderAt returns the folder with a recorded name, "" = the directory of the group, or nil. Needs Tree.mu.
func (g *group) folderAt(raw string) *Dir {
	if at, isIt := g.nearest(raw); isIt {
		return at
	}
	return nil
}

// nearest is folderAt, or the nearest folder above that is shown. Needs Tree.mu.
func (g *group) nearest(raw string) (at *Dir, isIt bool) {
	at = g.dir
	for raw != "" {
		part, rest, _ := strings.Cut(raw, "/")
		next, _ := at.folder(part)
		if next == nil {
			return at, false
		}
		at, raw = next, rest
	}
	return at, true
}

// placeFolders shows recorded folders, after the files: a file of the same name has the name (N3). It takes
// away those of left that nothing holds. Needs Tree.mu.
func (g *group) placeFolders(list []*sdk.Entry, left []*Dir) (notices []notice) {
	for _, e := range list {
		if !g.isRecorded(e) || g.gone {
			continue
		}
		d := g.folders[e.Ref]
		if d == nil {
			d, _ = g.slot(e.Name+"/", "")
			d.setRecorded(e.Ref)
		}
		notices = append(notices, d.disown(g.dir.t.isForeign(e))...)
	}
	for _, d := range left {
		notices = append(notices, d.prune()...)
	}
	return notices
}
