package tree

import (
	"context"
	"slices"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

type commitWhen uint8

const (
	commitOnClose commitWhen = iota // an empty file may wait (W5)
	commitNow                       // rename, fsync by a program that wrote nothing
	commitSynced                    // fsync by a program that wrote to it
	commitAhead                     // a journal, because its database is being recorded (W6)
	commitLast                      // unmount
)

// Flush saves the file: it seals and uploads the staged content, and waits for the record (W2).
// With nothing new it does nothing and costs nothing (W3). An empty file waits a
// moment before it is uploaded (W5).
func (h *Handle) Flush(ctx context.Context) error {
	if !h.flags.Write && !h.flags.Truncate {
		return nil
	}
	if err := h.save(ctx, commitOnClose); err != nil {
		return h.f.failed("close", err)
	}
	return nil
}

// Fsync saves like Flush, also an empty file and attributes alone: nil means that the
// ledger has the record.
func (h *Handle) Fsync(ctx context.Context) error {
	if h.f.show != nil {
		return nil
	}
	err := h.save(ctx, commitNow)
	if err == nil && h.f.t.unrecorded.kept.has(h.f) {
		err = h.f.keepNow(ctx)
	}
	if err == nil {
		err = h.f.fsyncRecord(ctx)
	}
	if err != nil {
		return h.f.failed("fsync", err)
	}
	return nil
}

// save records the file, unless a write through h was refused (W15).
func (h *Handle) save(ctx context.Context, when commitWhen) error {
	h.f.mu.Lock()
	if when == commitNow && h.changed {
		when = commitSynced
	}
	h.changed = false
	h.f.mu.Unlock()
	if err := h.refusal(); err != nil {
		return err
	}
	return h.f.commit(ctx, when)
}

// commit records the staged content under the file's name. It returns nil when there
// is nothing to record: no stage, nothing new, a scratch name, a file without a
// name, or identical content. On failure the bytes stay staged and pending.
func (f *File) commit(ctx context.Context, when commitWhen) error {
	if !f.isKind(fileReal) {
		return nil
	}
	defer f.keep() // what changed while it was sent
	if err := f.recordJournal(ctx, when); err != nil {
		return err
	}
	leave, err := f.t.enterNames(ctx, nil, f)
	if err != nil {
		return err
	}
	defer leave()
	f.t.mu.RLock()
	group, raw, real := f.group, f.raw, f.isKind(fileReal)
	f.t.mu.RUnlock()
	if !real {
		return nil
	}
	row, err := f.commitAs(ctx, when, group, raw)
	if row != nil {
		f.t.change(func() []notice { return group.saved(f, raw, row) })
	}
	return err
}

// commitAs records the staged content under a name in a group. It returns the row that holds
// the content now, or nil when there was nothing to record. Needs nameGate.
func (f *File) commitAs(ctx context.Context, when commitWhen, g *group, raw string) (*sdk.Entry, error) {
	row, err := f.commitStage(ctx, when, g, raw)
	if err != nil && wrapRemote("", "", err).Class == ClassAccess {
		return nil, g.failed(ctx, "close", f.Path(), err)
	}
	if row != nil && g.isGone() { // the group was lost during the upload (M5)
		sent := content.KeyOf(row)
		f.t.contents.Cache.Purge(func(k cache.Key) bool { return k.IsOf(sent) })
	}
	return row, err
}

func (f *File) commitStage(ctx context.Context, when commitWhen, g *group, raw string) (*sdk.Entry, error) {
	s, err := f.quiet(ctx)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if f.now.Is(content.Committed) || f.now.Is(content.Copied) {
		return nil, nil
	}
	if err := f.heldBack(when); err != nil {
		return nil, err
	}
	if when != commitAhead && f.aid(raw) != policy.AidNone {
		return nil, nil
	}
	if refused := f.t.readOnlyIn(g); refused != nil {
		s.failed = refused
		return nil, refused
	}
	f.noteDatabase(s)
	before, w := f.entry.Load() == nil, &saving{f, s, g, raw}
	if s.Whole() == nil {
		row, whole, saved, err := f.sendBlocks(ctx, w, when)
		if err != nil {
			return nil, err
		}
		if saved {
			f.setSavedBefore(row, before)
		}
		f.settle(s, row, whole)
		return row, nil
	}
	way, row := w.way(when)
	switch way {
	case wayLater:
		f.delay(s)
		return nil, nil
	case wayNothing:
		f.setSavedBefore(row, before)
	default:
		f.beginSending(s)
		row, err = guarded(func() (*sdk.Entry, error) { return w.whole(ctx, s.Whole()) })
		if f.endSending(s, err); err != nil {
			return nil, err
		}
	}
	f.settle(s, row, nil)
	return row, nil
}

// sendBlocks is [saving.blocks] for staged content that it sends. It releases body.mu meanwhile. Needs body.mu.
func (f *File) sendBlocks(ctx context.Context, w *saving, when commitWhen) (row *sdk.Entry, whole *mem.Buffer,
	saved bool, err error) {
	b := f.senderTo(w.s, w.g)
	f.beginSending(w.s)
	err = guard(func() (err error) { row, whole, saved, err = w.blocks(ctx, when); return err })
	if f.endSending(w.s, err); err != nil {
		b.EndSave()
	}
	return row, whole, saved, err
}

// beginSending makes the bytes those of the upload, and releases body.mu: nothing may change them.
func (f *File) beginSending(s *stage) {
	s.sent = make(chan struct{})
	f.move(content.Sending)
	f.mu.Unlock()
	f.t.counts.sending.Add(1)
}

// endSending takes body.mu again.
func (f *File) endSending(s *stage, err error) {
	f.t.counts.sending.Add(-1)
	f.mu.Lock()
	close(s.sent)
	if err != nil {
		s.failed = wrapRemote("close", "", err)
		f.move(content.Changed)
	}
}

// settle turns the stage into the committed content of e and keeps it cached
// (R3). whole is the content where it was joined to one piece; the cache takes it. Needs body.mu.
func (f *File) settle(s *stage, e *sdk.Entry, whole *mem.Buffer) {
	if s.merged != nil {
		f.settleBehind(s, whole)
		return
	}
	old, size := f.held, s.Len()
	var open func() (content.Origin, content.Blocks)
	if f.opens > 0 {
		open = func() (content.Origin, content.Blocks) { return &origin{f, e}, s.sending.TakeOpened() }
	}
	f.held = s.Settle(e, &f.known, whole, open)
	f.endStage(s)
	s.Release()
	f.stage, f.half = nil, nil
	f.setEntry(e)
	f.setSize(size)
	f.move(content.Committed)
	old.Release()
	if f.opens == 0 {
		f.held.Release()
		f.held = nil
	}
}

// saved merges the row of a save into the names: the file shows it, unless a newer
// upload of the name came from elsewhere meanwhile. Needs Tree.mu.
func (g *group) saved(f *File, raw string, row *sdk.Entry) []notice {
	if f.ahead.Load() == row {
		return g.leaveName(f, raw)
	}
	row = g.recordedSince(row)
	if recordedName(row) != raw {
		return g.setAside(f, row, raw)
	}
	v := g.version(raw)
	touched := map[*versions]bool{v: true}
	if slices.ContainsFunc(v.entries, isLink) || slices.ContainsFunc(v.waiting, isLink) {
		g.noteLink() // others that led over it may be safe by now
	}
	if known := g.entry(row.Ref); known != nil { // the poller was faster, or it is an old row
		f.take(known)
	} else {
		g.mergeSave(touched, *row)
	}
	var notices []notice
	if f.raw == raw && f.isKind(fileReal) {
		if f.dir == nil {
			notices = g.showAgain(f, v, row)
		}
		if f.dir != nil {
			v.shown, v.hidden = f, ""
		}
	}
	return append(append(notices, g.placeMerged(touched)...), g.readyNotice(row)...)
}

// showAgain gives the name back to a file that lost it to an upload by others, and was saved
// after that upload: programs that have the file open, and those that look the name up, see
// one file. Needs Tree.mu.
func (g *group) showAgain(f *File, v *versions, row *sdk.Entry) []notice {
	if newest := v.newest(); g.gone || newest == nil || newest.Ref != row.Ref || len(f.links) > 0 {
		return nil
	}
	old := v.shown
	if old == nil {
		dir, name := g.slot(v.raw, string(row.Ref))
		return dir.attach(name, f)
	}
	if old.now.IsStaged() {
		return nil // that is saved after this one
	}
	dir, name := old.dir, old.name
	notices := dir.detach(name, old)
	return append(notices, dir.attach(name, f)...)
}

// mayWait reports whether the stage is uploaded a moment after it was closed, because a
// program may change or remove the file first: an empty file (W5), or a link (N6).
func (f *File) mayWait(s *stage) bool { return f.IsLink() || s.Len() == 0 }

// delayedUploads is how many such files are uploaded at a time once their moment
// has come. A program may have made thousands at once.
const delayedUploads = 8

// delay uploads a file that may wait later, unless it is written to before. Needs
// File.mu.
func (f *File) delay(s *stage) {
	if f.now.Is(content.Waiting) {
		return
	}
	f.move(content.Waiting)
	f.t.unrecorded.delayed.do(func(ctx context.Context) {
		f.mu.Lock()
		still := f.stage == s && f.now.Is(content.Waiting)
		if still {
			f.move(content.Changed)
		}
		f.mu.Unlock()
		if !still {
			return
		}
		if err := f.commit(ctx, commitNow); err != nil {
			_ = f.failed("close", err)
		}
	})
}

// inBackground runs work that outlives a request, until the tree is closed.
func (t *Tree) inBackground(work func(context.Context)) {
	t.done.Go(func() { t.alone("background", work) })
}
