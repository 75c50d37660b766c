package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// With an outbox, a save is recorded later: until then an entry of this mount stands for its
// record, and the name shows it. Its reference is that of the item (outbox.Item.Ref), and its sequence is
// beyond that of all records.

// Outbox keeps saves until they are recorded. [*outbox.Outbox] is one.
type Outbox interface {
	Put(ctx context.Context, s outbox.Save) (outbox.Item, error)
	Ready(id string)
	Content(id string, b *mem.Buffer) error
	OpenBlocks(id string) (*outbox.WaitingBlocks, error)
	Item(id string) (outbox.Item, bool)
	Items() []outbox.Item
	Recorded(id string) (sdk.Ref, bool)
	Settle(ctx context.Context, id string) error
	Before(ctx context.Context, g sdk.GroupID) error
	Remove(ctx context.Context, id string) error
	Rename(ctx context.Context, id, name string, base sdk.Ref) error
	Lost(g sdk.GroupID)
	Again()
	Status() outbox.Status
}

// waitingSeq is where the sequences of entries that wait begin: beyond all records.
const waitingSeq sdk.Seq = 1 << 62

// isWaiting reports whether e stands for a record that is not made yet.
func isWaiting(e *sdk.Entry) bool { return e != nil && e.Seq >= waitingSeq }

// itemOf returns what waits behind an entry.
func (t *Tree) itemOf(e *sdk.Entry) (outbox.Item, bool) {
	if !isWaiting(e) || t.cfg.Outbox == nil {
		return outbox.Item{}, false
	}
	return t.cfg.Outbox.Item(outbox.IDOf(e.Ref))
}

// isLocked reports whether the content of e waits, and its key was not fetched since the restart.
func (t *Tree) isLocked(e *sdk.Entry) bool {
	i, ok := t.itemOf(e)
	return ok && i.Locked
}

func lockedItem() *Error {
	return &Error{Class: ClassUnreachable, Err: outbox.ErrLocked,
		Hint: "The key comes by itself once the service can be reached; svcfs outbox list shows what waits."}
}

// queue puts the staged content into the outbox. errFull: it takes none now.
func (f *File) queue(ctx context.Context, s *stage, g *group, raw string, whole *mem.Buffer) (*sdk.Entry, error) {
	return f.queueSave(ctx, s, g, raw, outbox.Save{Content: whole.Bytes()})
}

// queueBlocks is queue for content in blocks: those that changed since a recorded version wait.
func (f *File) queueBlocks(ctx context.Context, s *stage, b *blockSend, g *group, raw string) (*sdk.Entry, error) {
	large := f.t.changedSince(b)
	large.Read = b.read
	row, err := f.queueSave(ctx, s, g, raw, outbox.Save{Large: large})
	if err != nil {
		if large.Release != nil {
			large.Release()
		}
		return nil, err
	}
	if opened, _, err := f.t.openWaiting(g, row, b.under.again()); err == nil { // else who reads opens it
		b.opened = opened
	}
	return row, nil
}

// changedSince returns which blocks of content differ from the recorded version that it was made from. What was made
// from a save that waits, too, is compared with the version that this one was made from.
func (t *Tree) changedSince(b *blockSend) *outbox.Large {
	l := b.c.Layout()
	large := &outbox.Large{Layout: l}
	if hash, known, err := b.c.Hash(); err == nil && known {
		large.Hash = hash
	}
	also, from := t.recordedBase(b)
	for i := range l.Blocks() {
		if _, waits := also.Index(i); waits || from == (outbox.From{}) || !b.c.IsBased(i) {
			large.Changed = large.Changed.Add(i)
		}
	}
	if large.Changed.Blocks() == l.Blocks() {
		return large
	}
	large.From = from
	if hold := b.under.again(); hold != nil {
		large.Release = hold.release
		large.Open = func(ctx context.Context) (outbox.Blocks, func(), error) { return hold.openAs(ctx, from) }
	}
	return large
}

// recordedBase returns the recorded version that unchanged blocks come from, none if there is no such version, and
// which blocks wait because they differ from it already.
func (t *Tree) recordedBase(b *blockSend) (waiting format.Extents, from outbox.From) {
	if b.under == nil || b.under.source == nil {
		return nil, from
	}
	source := b.under.source.latest()
	t.mu.RLock()
	e := source.entry
	if g := t.groups[e.Group]; g != nil {
		e = t.recordedSince(g, e)
		if now := g.view.Entry(e.Ref); now != nil {
			e = now
		}
	}
	t.mu.RUnlock()
	switch item, ok := t.itemOf(e); {
	case source.Layout().BlockBytes != b.c.Layout().BlockBytes, e.Deleted != nil:
		return nil, from
	case ok:
		return item.Changed, item.From
	case isWaiting(e): // it was given up
		return nil, from
	}
	return nil, outbox.From{Group: e.Group, Ref: e.Ref}
}

// saveWithOutbox saves content in blocks with an outbox.
func (f *File) saveWithOutbox(ctx context.Context, s *stage, b *blockSend, g *group, raw string) (*sdk.Entry, error) {
	record := func() (*sdk.Entry, error) { return f.recordBlocks(ctx, s, b, g, raw) }
	if b.last != (attempt{}) { // it was sent without the outbox, and may be recorded already
		if err := f.t.afterWaiting(ctx, g); err != nil {
			return nil, err
		}
		return record()
	}
	row, err := f.queueBlocks(ctx, s, b, g, raw)
	if !errors.Is(err, outbox.ErrFull) {
		return row, err
	}
	return f.fullOutbox(ctx, g, raw, err, record)
}

// queueSave puts a save into the outbox, whose group, name, base and attributes it sets.
func (f *File) queueSave(ctx context.Context, s *stage, g *group, raw string, save outbox.Save) (*sdk.Entry, error) {
	t := f.t
	var attrs sdk.Attributes
	if t.cfg.Ours {
		attrs, _ = f.wanted(true)
	}
	attrs.Target = f.target
	price := t.price("upload", sdk.Amount{})
	if err := t.spent.Reserve(t.now(), price); err != nil {
		return nil, &Error{Class: ClassBudget, Err: err,
			Hint: "Mount again with a larger --budget or --budget-per-hour."}
	}
	base := t.baseOf(f, g, raw, s)
	save.Group, save.Name, save.Base, save.Attributes = g.id, raw, &base, attrs
	save.Temporary = f.isTemporary(raw)
	item, err := t.cfg.Outbox.Put(ctx, save)
	if err != nil {
		t.spent.Settle(t.now(), price, sdk.Amount{})
		if errors.Is(err, outbox.ErrMoney) {
			return nil, &Error{Class: ClassBudget, Err: err,
				Hint: "Put tokens into the account, or discard what waits: svcfs outbox list"}
		}
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved[item.Ref()] = price
	row := t.waitingRow(g, item)
	row.Attributes = nil
	if !attrs.IsZero() {
		row.Attributes = &attrs
	}
	g.own[row.Ref] = struct{}{}
	f.setSaved(row.Attributes, true)
	return row, nil
}

// waitingRow is the entry of an item. Needs Tree.mu.
func (t *Tree) waitingRow(g *group, i outbox.Item) *sdk.Entry {
	e := &sdk.Entry{Group: g.id, Ref: i.Ref(), Hash: i.Hash, Uploader: t.remote.Account(), Time: i.Time,
		Seq: waitingSeq + sdk.Seq(i.Position), ChangedSeq: waitingSeq + sdk.Seq(i.Position),
		Name: i.Name, Size: i.Size}
	if !i.Attributes.IsZero() {
		e.Attributes = &i.Attributes
	}
	if i.BlockBytes > 0 { // stands for what the record will have
		e.Content = sdk.ComputeHash([]byte(e.Ref))
	}
	return e
}

// baseOf returns the version that a save replaces: the one that the change began from, or, for a
// file made anew or under another name, what its program had opened there, or else the newest that is
// known. "" = none.
func (t *Tree) baseOf(f *File, g *group, raw string, s *stage) sdk.Ref {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := f.entry.Load(); s.base != 0 && e != nil && f.isKind(fileReal) && e.Name == raw && e.Group == g.id &&
		e.Deleted == nil {
		if known := g.view.Entry(e.Ref); known == nil || known.Deleted == nil {
			return e.Ref
		}
	}
	switch was, ok := t.replacedBy(f, g, raw); {
	case !ok:
		return g.names[raw].newestRef()
	case was == nil: // what was opened is gone
		return ""
	default:
		return was.Ref
	}
}

// refOf returns the newest version of a name that is known, "" for none.
func (t *Tree) refOf(g *group, raw string) sdk.Ref {
	t.mu.RLock()
	defer t.mu.RUnlock()
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
	kept, _ := f.t.itemOf(f.entry.Load()) // of an earlier mount
	return f.isKind(fileScratch) || kept.Temporary
}

// fullOutbox saves without the outbox, after what waits of the group, while the outbox is full.
func (f *File) fullOutbox(ctx context.Context, g *group, raw string, full error,
	upload func() (*sdk.Entry, error)) (*sdk.Entry, error) {
	if f.isTemporary(raw) {
		return nil, full
	}
	err := f.t.cfg.Outbox.Before(ctx, g.id)
	if err == nil {
		var row *sdk.Entry
		if row, err = upload(); err == nil {
			return row, nil
		}
	}
	if errors.Is(err, outbox.ErrAway) || isAway(err) {
		return nil, noRoomAway(full)
	}
	return nil, err
}

// noRoomAway is the error of a save that a full outbox does not take while the service is away.
func noRoomAway(full error) *Error {
	return &Error{Class: ClassNoSpace, Err: fmt.Errorf("%w, and the service is away", full),
		Hint: "Saves go on once the service is back, or mount with a larger --outbox-size."}
}

// afterWaiting waits until what was saved before in a group is recorded: what cannot wait comes after it.
func (t *Tree) afterWaiting(ctx context.Context, g *group) error {
	if t.cfg.Outbox == nil {
		return nil
	}
	return waitingError(t.cfg.Outbox.Before(ctx, g.id))
}

// waitingError makes an error of the outbox one of ours.
func waitingError(err error) error {
	if errors.Is(err, outbox.ErrAway) {
		return &Error{Class: ClassUnreachable, Err: err,
			Hint: "Try again once the service is back: svcfs outbox list shows what waits."}
	}
	return err
}

// readyNotice lets an item be sent, once no lock is held.
func (t *Tree) readyNotice(row *sdk.Entry) []notice {
	if !isWaiting(row) {
		return nil
	}
	return []notice{func(Kernel) { t.cfg.Outbox.Ready(outbox.IDOf(row.Ref)) }}
}

// recordedSince returns the record of an entry that waited, if it was made meanwhile, else e. Needs
// Tree.mu.
func (t *Tree) recordedSince(g *group, e *sdk.Entry) *sdk.Entry {
	if !isWaiting(e) || g.view.Entry(e.Ref) != nil {
		return e
	}
	ref, _ := t.cfg.Outbox.Recorded(outbox.IDOf(e.Ref))
	if now := g.view.Entry(ref); now != nil {
		return now
	}
	return e
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
	now := f.t.recordedSince(f.group, e)
	if now != e {
		f.entry.CompareAndSwap(e, now)
	}
	return now
}

// retrieveWaiting reads content that waits. Free.
func (t *Tree) retrieveWaiting(e *sdk.Entry) (*mem.Buffer, error) {
	buf, err := t.pool.Get(0)
	if err != nil {
		return nil, &Error{Class: ClassNoMemory, Err: err}
	}
	switch err = t.cfg.Outbox.Content(outbox.IDOf(e.Ref), buf); {
	case err == nil:
		return buf, nil
	case errors.Is(err, outbox.ErrLocked):
		err = lockedItem()
	case errors.Is(err, outbox.ErrGone):
		err = &Error{Class: ClassStale, Err: errors.New("it was recorded just now")}
	default:
		err = damagedItem(err)
	}
	buf.Release()
	return nil, err
}

// waitsOf returns what waits under the name of a file, and whether nothing else is under it and
// nothing of it was sent.
func (t *Tree) waitsOf(g *group, raw string) (list []sdk.Entry, alone bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := livingOf(g.names[raw])
	for i := range all {
		if isWaiting(&all[i]) {
			list = append(list, all[i])
		}
	}
	return list, len(list) == len(all)
}

// settle waits until what waits under the name of a file is recorded, unless nothing else is under it:
// then it can be renamed and removed where it waits.
func (t *Tree) settleWaiting(ctx context.Context, f *File, always bool) error {
	e := f.entry.Load()
	if t.cfg.Outbox == nil || e == nil {
		return nil
	}
	f.t.mu.RLock()
	g, raw := f.group, f.raw
	if now := f.record(); now != nil {
		raw = recordedName(now)
	}
	f.t.mu.RUnlock()
	list, alone := t.waitsOf(g, raw)
	if alone && !always {
		return nil
	}
	return t.settleAll(ctx, list)
}

func (t *Tree) settleAll(ctx context.Context, list []sdk.Entry) error {
	for _, e := range list {
		if err := t.cfg.Outbox.Settle(ctx, outbox.IDOf(e.Ref)); err != nil {
			return waitingError(err)
		}
		if i, ok := t.itemOf(&e); ok {
			return &Error{Class: ClassBusy, Err: errors.New("it waits to be sent: " + i.Reason),
				Hint: "Look at it with: svcfs outbox list"}
		}
	}
	return nil
}

// whileItWaits does a change of a file, which may wait, and once more when the file was recorded
// meanwhile.
func (t *Tree) whileItWaits(ctx context.Context, f *File, change func() error) error {
	if err := t.settleWaiting(ctx, f, false); err != nil {
		return err
	}
	err := change()
	if errors.Is(err, outbox.ErrTried) || errors.Is(err, outbox.ErrGone) {
		if err := t.settleWaiting(ctx, f, true); err != nil {
			return err
		}
		err = change()
	}
	if errors.Is(err, outbox.ErrTried) || errors.Is(err, outbox.ErrGone) {
		return &Error{Class: ClassBusy, Err: errors.New("it was saved again, and that is being sent"),
			Hint: "Try again in a moment."}
	}
	return err
}

// settleFirst keeps versions from being replaced while they wait, or while what is to take their name was sent and
// has no answer: such a rename can fail after they are gone. It waits for their records, and the plan of who asked is
// out of date then, which is [outbox.ErrTried].
func (t *Tree) settleFirst(ctx context.Context, renamed, replaced []sdk.Entry) error {
	waiting := slices.DeleteFunc(slices.Clone(replaced), func(e sdk.Entry) bool { return !isWaiting(&e) })
	if err := t.settleAll(ctx, waiting); err != nil {
		return err
	}
	if len(waiting) > 0 || slices.ContainsFunc(renamed, t.wasTried) {
		return outbox.ErrTried
	}
	return nil
}

// wasTried reports whether a version waits, and the service may have it.
func (t *Tree) wasTried(e sdk.Entry) bool {
	i, ok := t.itemOf(&e)
	return ok && i.Tried
}

// removeWaiting takes what waits from the versions of a name: it is never sent.
func (t *Tree) removeWaiting(ctx context.Context, list []sdk.Entry) (rest []sdk.Entry, err error) {
	for _, e := range list {
		if !isWaiting(&e) {
			rest = append(rest, e)
			continue
		}
		if err := t.cfg.Outbox.Remove(ctx, outbox.IDOf(e.Ref)); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// Told takes note of a step of an item. The outbox calls it.
func (t *Tree) Told(i outbox.Item, r sdk.Receipt) {
	switch i.State {
	case outbox.Recorded.String():
		t.settleReserved(i.Ref(), t.price("upload", r.Fee))
		t.counts.uploads.Add(1)
		t.change(func() []notice { return t.nowRecorded(i, r) })
	case outbox.Discarded.String():
		t.settleReserved(i.Ref(), sdk.Amount{})
		t.change(func() []notice { return t.nowDiscarded(i) })
	case outbox.Conflict.String():
		t.change(func() []notice { return t.nowConflict(i) })
	case outbox.Parked.String():
		t.settleReserved(i.Ref(), sdk.Amount{})
		t.change(func() []notice { return append(t.nowWaiting(i), t.noted(t.parked(i))) })
	default:
		t.change(func() []notice { return t.nowWaiting(i) })
	}
}

// AddWaiting shows what waits since an earlier mount. Call it once, when Told is called from then on.
func (t *Tree) AddWaiting() {
	for _, i := range t.cfg.Outbox.Items() {
		if i.Group != "" {
			t.change(func() []notice { return t.nowWaiting(i) })
		}
	}
}

func (t *Tree) settleReserved(ref sdk.Ref, fee sdk.Amount) {
	t.mu.Lock()
	price, ok := t.reserved[ref]
	delete(t.reserved, ref)
	t.mu.Unlock()
	if ok || !fee.IsZero() {
		t.spent.Settle(t.now(), price, fee)
	}
}

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

// pathOf is the path of an item as the group has it.
func (t *Tree) pathOf(i outbox.Item) string {
	if g := t.groups[i.Group]; g != nil {
		return join(g.dir.path(), cmp.Or(i.Name, i.ID))
	}
	return join("/"+string(i.Group), cmp.Or(i.Name, i.ID))
}

// nowWaiting shows an item, also one that came to this group. Needs Tree.mu.
func (t *Tree) nowWaiting(i outbox.Item) (notices []notice) {
	for _, g := range t.groups {
		if g.id != i.Group && g.view.Entry(i.Ref()) != nil {
			notices = append(notices, t.forgetRow(g, i.Ref())...)
		}
	}
	g := t.groups[i.Group]
	if g == nil || i.Name == "" || g.view.Entry(i.Ref()) != nil {
		return notices
	}
	if _, ok := t.cfg.Outbox.Item(i.ID); !ok { // recorded meanwhile
		return notices
	}
	touched := make(map[*versions]bool)
	g.own[i.Ref()] = struct{}{}
	g.merge(touched, *t.waitingRow(g, i))
	return append(notices, t.placeAll(g, touched)...)
}

// forgetRow takes an entry out. Needs Tree.mu.
func (t *Tree) forgetRow(g *group, ref sdk.Ref) []notice {
	touched := make(map[*versions]bool)
	g.changed(touched, g.view.Drop(ref))
	delete(g.own, ref)
	return t.placeAll(g, touched)
}

// nowDiscarded needs Tree.mu.
func (t *Tree) nowDiscarded(i outbox.Item) []notice {
	g := t.groups[i.Group]
	if g == nil {
		return nil
	}
	return t.forgetRow(g, i.Ref())
}

// nowRecorded puts the record in the place of the entry that stood for it. Needs Tree.mu.
func (t *Tree) nowRecorded(i outbox.Item, r sdk.Receipt) []notice {
	g := t.groups[i.Group]
	if g == nil {
		return nil
	}
	was := g.view.Entry(i.Ref())
	if was == nil {
		was = t.waitingRow(g, i)
	}
	r.Name = i.Name // it may have got another since it was sent
	touched := make(map[*versions]bool)
	old := g.version(recordedName(was))
	g.changed(touched, g.view.Drop(was.Ref))
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
	t.cache.Move(t.keyOf(was), t.keyOf(row))
	if i.BlockBytes > 0 {
		for n := range (format.Layout{Size: i.Size, BlockBytes: i.BlockBytes}).Blocks() {
			t.cache.Move(t.keyOf(was).BlockOf(n, i.BlockBytes), t.keyOf(row).BlockOf(n, i.BlockBytes))
		}
	}
	var notices []notice
	if f := old.shown; f != nil {
		if e := f.entry.Load(); e != nil && e.Ref == was.Ref {
			f.setClosed(was.Time)
			f.reshape(was.Ref, row.Ref)
			if f.take(row) {
				notices = append(notices, attributesChanged(f.dir, f.name))
			}
			notices = append(notices, func(Kernel) { f.keep() })
		}
	}
	if v := g.version(recordedName(row)); r.Seq > v.saved {
		v.saved, v.base = r.Seq, r.Seq
	}
	return append(notices, t.placeAll(g, touched)...)
}

// nowConflict shows an item under the name that it has because others saved its own meanwhile. Needs
// Tree.mu.
func (t *Tree) nowConflict(i outbox.Item) (notices []notice) {
	g := t.groups[i.Group]
	if g == nil {
		return nil
	}
	row, f := t.waitingRow(g, i), g.version(i.Was).shown
	if was := g.view.Entry(i.Ref()); was != nil {
		kept := *was
		kept.Name = i.Name
		row = &kept
	}
	if f != nil && (f.entry.Load() == nil || f.entry.Load().Ref != row.Ref) {
		f = nil
	}
	return t.setAside(f, g, row, i.Was)
}

// FsyncRecord waits until the save of a file that waits is recorded.
func (f *File) fsyncRecord(ctx context.Context) error {
	if e := f.entry.Load(); f.t.cfg.FsyncRecord && isWaiting(e) {
		return f.t.settleAll(ctx, []sdk.Entry{*e})
	}
	return nil
}

// waiting lists what waits in the outbox.
func (t *Tree) waiting() (list []Pending) {
	if t.cfg.Outbox == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, i := range t.cfg.Outbox.Items() {
		p := Pending{Path: t.pathOf(i), Size: i.Size, Since: i.Time.UTC().Round(0), Error: i.Reason, Outbox: i.ID}
		list = append(list, p)
	}
	return list
}

// outboxStatus is for Status.
func (t *Tree) outboxStatus() *outbox.Status {
	if t.cfg.Outbox == nil {
		return nil
	}
	s := t.cfg.Outbox.Status()
	return &s
}

// inOutbox reports whether a save of n bytes may go through the outbox.
func (t *Tree) inOutbox(n int64) bool { return t.cfg.Outbox != nil && n <= wire.WholeFileBytes }
