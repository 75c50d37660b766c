package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// With an outbox, a save is recorded later: until then an entry of this mount stands for its
// record ([save.Entry]), and the name shows it. Package save has what waits.

// Outbox keeps saves until they are recorded, see [save.Outbox].
type Outbox = save.Outbox

// isWaiting reports whether e stands for a record that is not made yet.
func isWaiting(e *sdk.Entry) bool { return save.Waits(e) }

// refOf returns the newest version of a name that is known, "" for none.
func (g *group) refOf(raw string) sdk.Ref {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	return g.names[raw].newestRef()
}

// newestRef is the newest version, "" for none. Needs Tree.mu.
func (v *versions) newestRef() sdk.Ref {
	if v == nil || v.newest() == nil {
		return ""
	}
	return v.newest().Ref
}

// isTemporary reports whether the file would be saved under a scratch name, which the outbox alone may have.
func (f *File) isTemporary(raw string) bool {
	if f.rawName() != raw {
		return false
	}
	kept, _ := f.t.queue.At(f.entry.Load()) // of an earlier mount
	return f.isKind(fileScratch) || kept.Temporary
}

// readyNotice lets an item be sent, once no lock is held.
func (g *group) readyNotice(row *sdk.Entry) []notice {
	if !isWaiting(row) {
		return nil
	}
	return []notice{func(Kernel) { g.dir.t.queue.Ready(outbox.IDOf(row.Ref)) }}
}

// recordedSince returns the record of an entry that waited, if it was made meanwhile, else e. Needs
// Tree.mu.
func (g *group) recordedSince(e *sdk.Entry) *sdk.Entry {
	if !isWaiting(e) || g.waiting[e.Ref] != nil {
		return e
	}
	ref, _ := g.dir.t.queue.Recorded(outbox.IDOf(e.Ref))
	if now := g.view.Entry(ref); now != nil {
		return now
	}
	return e
}

// openWaiting opens content in blocks that waits. The result is nil if the content was recorded meanwhile.
func (g *group) openWaiting(e *sdk.Entry) (Blocks, *sdk.Entry, error) {
	t := g.dir.t
	opened, err := t.queue.Open(e, t.saver.BaseOf(nil))
	if err == nil {
		return opened, e, nil
	}
	if errors.Is(err, save.ErrRecorded) {
		t.mu.RLock()
		defer t.mu.RUnlock()
		if now := g.recordedSince(e); !isWaiting(now) {
			return nil, now, nil
		}
	}
	return nil, e, err
}

// entryNow returns the entry of a file, and of one that waited and was recorded since its record. The name shows
// that at once; a backup, which no name shows, takes it here.
func (f *File) entryNow() *sdk.Entry {
	e := f.entry.Load()
	if !isWaiting(e) {
		return e
	}
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	now := f.group.recordedSince(e)
	if now != e {
		f.entry.CompareAndSwap(e, now)
	}
	return now
}

// waitsOf returns what waits under the name of a file, and whether nothing else is under it and
// nothing of it was sent.
func (g *group) waitsOf(raw string) (list []sdk.Entry, alone bool) {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	v := g.names[raw]
	if v == nil {
		return nil, true
	}
	for _, e := range v.waiting {
		list = append(list, *e)
	}
	return list, v.newestRecord() == nil
}

// settle waits until what waits under the name of a file is recorded, unless nothing else is under it:
// then it can be renamed and removed where it waits.
func (f *File) settleWaiting(ctx context.Context, always bool) error {
	e := f.entry.Load()
	if !f.t.queue.IsOn() || e == nil {
		return nil
	}
	f.t.mu.RLock()
	g, raw := f.group, f.raw
	if now := f.record(); now != nil {
		raw = recordedName(now)
	}
	f.t.mu.RUnlock()
	list, alone := g.waitsOf(raw)
	if alone && !always {
		return nil
	}
	return f.t.queue.Settle(ctx, list)
}

// whileItWaits does a change of a file, which may wait, see [save.Change].
func (f *File) whileItWaits(ctx context.Context, change func() error) error {
	return save.Change(func(always bool) error { return f.settleWaiting(ctx, always) }, change)
}

// Told takes note of a step of an item. The outbox calls it.
func (t *Tree) Told(i outbox.Item, r sdk.Receipt) {
	t.queue.Told(i, r)
	if i.State == outbox.Recorded.String() {
		t.counts.uploads.Add(1)
	}
	t.change(func() []notice {
		g := t.groups[i.Group]
		switch {
		case i.State == outbox.Parked.String():
			return append(t.nowWaiting(i), t.noted(t.parked(i)))
		case i.State == outbox.Recorded.String() && g != nil:
			return g.nowRecorded(i, r)
		case i.State == outbox.Discarded.String() && g != nil:
			return g.forgetRow(i.Ref())
		case i.State == outbox.Conflict.String() && g != nil:
			return g.nowConflict(i)
		case g == nil && i.State != outbox.Waiting.String() && i.State != outbox.Sending.String():
			return nil
		}
		return t.nowWaiting(i)
	})
}

// AddWaiting shows what waits since an earlier mount. Call it once, when Told is called from then on.
func (t *Tree) AddWaiting() {
	for _, i := range t.queue.Items() {
		if i.Group != "" {
			t.change(func() []notice { return t.nowWaiting(i) })
		}
	}
}

// parked tells of an item that the service refused. Needs Tree.mu.
func (t *Tree) parked(i outbox.Item) *Error {
	hint := "svcfs outbox retry " + i.ID
	switch {
	case i.Temporary:
		hint = "Give it another name with mv, and it is sent; or: svcfs outbox discard " + i.ID
	case !i.Locked:
		hint += ", or move it to another group: svcfs outbox move " + i.ID + " GROUP"
	}
	return &Error{Class: ClassOther, Op: "send", Path: t.pathOf(i), Hint: hint,
		Err: errors.New("it was not recorded, and waits for you: " + i.Reason)}
}

// pathOf is the path of an item as the group has it. Needs Tree.mu.
func (t *Tree) pathOf(i outbox.Item) string {
	if g := t.groups[i.Group]; g != nil {
		return join(g.dir.path(), cmp.Or(i.Name, i.ID))
	}
	return join("/"+string(i.Group), cmp.Or(i.Name, i.ID))
}

// nowWaiting shows an item, also one that came to this group. Needs Tree.mu.
func (t *Tree) nowWaiting(i outbox.Item) (notices []notice) {
	for _, g := range t.groups {
		if g.id != i.Group && g.waiting[i.Ref()] != nil {
			notices = append(notices, g.forgetRow(i.Ref())...)
		}
	}
	g := t.groups[i.Group]
	if g == nil || i.Name == "" || g.waiting[i.Ref()] != nil {
		return notices
	}
	if _, ok := t.queue.Item(i.ID); !ok { // recorded meanwhile
		return notices
	}
	touched := make(map[*versions]bool)
	g.own[i.Ref()] = struct{}{}
	g.mergeSave(touched, *save.Entry(i, t.remote.Account()))
	return append(notices, g.placeAll(touched)...)
}

// entry returns the record of a reference, or what stands for it while it waits; nil = not known. Needs Tree.mu.
func (g *group) entry(ref sdk.Ref) *sdk.Entry {
	if e := g.waiting[ref]; e != nil {
		return e
	}
	return g.view.Entry(ref)
}

// waitsBeneath returns what waits beneath a folder. Needs Tree.mu.
func (g *group) waitsBeneath(prefix string) (list []sdk.Entry) {
	for _, e := range g.waiting {
		if strings.HasPrefix(e.Name, prefix) {
			list = append(list, *e)
		}
	}
	return list
}

// mergeSave is merge for a save of this mount, which may wait. Needs Tree.mu.
func (g *group) mergeSave(touched map[*versions]bool, row sdk.Entry) {
	if !isWaiting(&row) {
		g.merge(touched, row)
		return
	}
	g.endWaiting(touched, row.Ref)
	g.waiting[row.Ref] = &row
	g.hold(row.Footprint())
	v := g.version(recordedName(&row))
	v.waiting = append(v.waiting, &row)
	slices.SortFunc(v.waiting, func(a, b *sdk.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	touched[v] = true
}

// endWaiting takes a save out that waits no more. Needs Tree.mu.
func (g *group) endWaiting(touched map[*versions]bool, ref sdk.Ref) {
	e := g.waiting[ref]
	if e == nil {
		return
	}
	delete(g.waiting, ref)
	g.hold(-e.Footprint())
	v := g.names[recordedName(e)]
	v.waiting = slices.DeleteFunc(v.waiting, func(waits *sdk.Entry) bool { return waits == e })
	touched[v] = true
}

// forgetRow takes an entry out. Needs Tree.mu.
func (g *group) forgetRow(ref sdk.Ref) []notice {
	touched := make(map[*versions]bool)
	g.endWaiting(touched, ref)
	delete(g.own, ref)
	return g.placeAll(touched)
}

// nowRecorded puts the record in the place of the entry that stood for it. Needs Tree.mu.
func (g *group) nowRecorded(i outbox.Item, r sdk.Receipt) []notice {
	was := g.waiting[i.Ref()]
	if was == nil {
		was = save.Entry(i, g.dir.t.remote.Account())
	}
	r.Name = i.Name // it may have got another since it was sent
	touched := make(map[*versions]bool)
	old := g.version(recordedName(was))
	g.endWaiting(touched, was.Ref)
	delete(g.own, was.Ref)
	g.own[r.Ref] = struct{}{}
	if g.view.Entry(r.Ref) == nil { // else the listing was faster
		g.merge(touched, r.Entry)
	}
	row := g.view.Entry(r.Ref)
	touched[old], touched[g.version(recordedName(row))] = true, true
	if old.hidden == was.Ref { // a backup was made of it
		old.hidden, g.version(recordedName(row)).hidden = "", row.Ref
	}
	g.dir.t.contents.Rename(was, row, format.Layout{Size: i.Size, BlockBytes: i.BlockBytes})
	var notices []notice
	if f := old.shown; f != nil {
		if e := f.entry.Load(); e != nil && e.Ref == was.Ref {
			f.setClosed(was.Time)
			f.known.Rename(was, row)
			if f.take(row) {
				notices = append(notices, attributesChanged(f.dir, f.name))
			}
			notices = append(notices, func(Kernel) { f.keep() })
		}
	}
	if v := g.version(recordedName(row)); r.Seq > v.saved {
		v.saved, v.base = r.Seq, r.Seq
	}
	return append(notices, g.placeAll(touched)...)
}

// nowConflict shows an item under the name that it has because others saved its own meanwhile. Needs
// Tree.mu.
func (g *group) nowConflict(i outbox.Item) (notices []notice) {
	row, f := save.Entry(i, g.dir.t.remote.Account()), g.version(i.Was).shown
	if was := g.waiting[i.Ref()]; was != nil {
		kept := *was
		kept.Name = i.Name
		row = &kept
	}
	if f != nil && (f.entry.Load() == nil || f.entry.Load().Ref != row.Ref) {
		f = nil
	}
	return g.setAside(f, row, i.Was)
}

// FsyncRecord waits until the save of a file that waits is recorded.
func (f *File) fsyncRecord(ctx context.Context) error {
	if e := f.entry.Load(); f.t.cfg.FsyncRecord && isWaiting(e) {
		return f.t.queue.Settle(ctx, []sdk.Entry{*e})
	}
	return nil
}
