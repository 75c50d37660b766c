package tree

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
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
	if _, waits := h.f.t.unkept.Load(h.f); err == nil && waits {
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
	if err := f.nameGate().enter(ctx); err != nil {
		return err
	}
	defer f.nameGate().leave()
	f.t.mu.RLock()
	group, raw, real := f.group, f.raw, f.isKind(fileReal)
	f.t.mu.RUnlock()
	if !real {
		return nil
	}
	row, err := f.commitAs(ctx, when, group, raw)
	if row != nil {
		f.t.change(func() []notice { return f.t.record(f, group, raw, row) })
	}
	return err
}

// commitAs records the staged content under a name in a group. It returns the row that holds
// the content now, or nil when there was nothing to record. Needs nameGate.
func (f *File) commitAs(ctx context.Context, when commitWhen, g *group, raw string) (*sdk.Entry, error) {
	row, err := f.commitStage(ctx, when, g, raw)
	if err != nil && wrapRemote("", "", err).Class == ClassAccess {
		return nil, f.t.failedInGroup(ctx, g, "close", f.Path(), err)
	}
	if row != nil && f.t.isGone(g) { // the group was lost during the upload (M5)
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
	if s.Whole() == nil {
		return f.commitBlocks(ctx, s, when, g, raw)
	}
	way, row := f.wayOf(s, when, g, raw)
	switch way {
	case wayLater:
		f.delay(s)
		return nil, nil
	case wayNothing:
		f.setSavedBefore(row, f.entry.Load() == nil)
	default:
		if row, err = f.send(ctx, s, g, raw); err != nil {
			return nil, err
		}
	}
	f.settle(s, row, nil)
	return row, nil
}

// holding returns the newest upload of the name when it holds exactly the staged
// bytes, as a link or as a file: saving them again would buy nothing (W3). Needs the file's mu.
func (t *Tree) holding(s *stage, g *group, raw, target string) *sdk.Entry {
	newest := t.newestOf(g, raw)
	if newest == nil || newest.Size != s.Len() || targetOf(newest) != target || !t.hasProvenHash(newest) {
		return nil
	}
	if hash, known, err := s.Hash(); err != nil || !known || hash != newest.Hash {
		return nil
	}
	if target != "" && t.isForeign(newest) {
		return nil // a link of this account may lead where theirs may not
	}
	return newest
}

// hasProvenHash reports whether the recorded hash is that of the content: a reader of a file of another account that is
// cut into blocks proves the blocks, and not the hash.
func (t *Tree) hasProvenHash(e *sdk.Entry) bool { return !content.IsCut(e) || !t.isForeign(e) }

// newestOf returns the newest upload of a name, or nil.
func (t *Tree) newestOf(g *group, raw string) *sdk.Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if v := g.names[raw]; v != nil {
		return v.newest()
	}
	return nil
}

// send seals and uploads the stage, and returns its record. It releases body.mu while
// the service is asked; the state says that the bytes belong to the upload. Needs
// body.mu.
func (f *File) send(ctx context.Context, s *stage, g *group, raw string) (*sdk.Entry, error) {
	f.beginSending(s)
	row, err := guarded(func() (*sdk.Entry, error) { return f.upload(ctx, s, g, raw, s.Whole()) })
	f.endSending(s, err)
	return row, err
}

// beginSending makes the bytes those of the upload, and releases body.mu.
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

// upload records content that is whole. The caller is sending.
func (f *File) upload(ctx context.Context, s *stage, g *group, raw string, whole *mem.Buffer) (*sdk.Entry, error) {
	now := func() (*sdk.Entry, error) {
		compares := f.t.cfg.Ours && whole.Len() <= wire.WholeFileBytes
		return f.recordAs(ctx, g, raw, s, compares, func(name string, base *sdk.Ref,
			a sdk.Attributes) (sdk.Receipt, error) {
			r, err := f.t.remote.Upload(ctx, g.id, name, whole, base, a)
			if err != nil {
				err = f.t.unsure(g, raw, whole.Hash(), err)
			}
			return r, err
		})
	}
	if !f.t.queue.IsOn() {
		return now()
	}
	if f.isTemporary(raw) && !f.t.queue.Takes(whole.Len()) {
		return nil, &Error{Class: ClassTooBig, Err: errors.New("it is too large for the outbox")}
	}
	if f.t.queue.Takes(whole.Len()) {
		row, err := f.queueWhole(ctx, s, g, raw, whole)
		if !errors.Is(err, outbox.ErrFull) {
			return row, err
		}
		return f.fullOutbox(ctx, g, raw, err, now)
	}
	if err := f.t.queue.Before(ctx, g.id); err != nil {
		return nil, err
	}
	return now()
}

// recordAs makes a record of the content with the attributes of the moment, and pays for it. do is told under which
// name and, where the service compares it, which version the save replaces: others may have saved the name meanwhile
// (W11).
func (f *File) recordAs(ctx context.Context, g *group, raw string, s *stage, compares bool,
	do func(name string, base *sdk.Ref, a sdk.Attributes) (sdk.Receipt, error)) (*sdk.Entry, error) {
	var sent sdk.Attributes
	var base *sdk.Ref
	if f.t.cfg.Ours {
		sent, _ = f.wanted(true)
	}
	if compares {
		known := f.baseOf(g, raw, s)
		base = &known
	}
	sent.Target = f.target
	var receipt sdk.Receipt
	began, name := f.t.now(), raw
	upload := func() error {
		return f.t.spent.Spend("upload", func() (fee sdk.Amount, err error) {
			receipt, err = do(name, base, sent)
			return receipt.Fee, err
		})
	}
	err := upload()
	if compares && errors.Is(err, sdk.ErrUnsupported) { // not while the key of its vault is away
		base = nil
		err = upload()
	}
	for n := 0; hasCode(err, wire.CodeHead) && n < mostConflicts; n++ {
		var replaced sdk.Ref
		name, replaced = f.t.nameAside(ctx, g, raw, n)
		base = &replaced
		err = upload()
	}
	if err != nil {
		return nil, err
	}
	f.t.counts.uploads.Add(1)
	row := f.t.ownRecord(f, g, name, receipt, s, sent, base != nil)
	g.view.Made(receipt.Number, began)
	f.setSaved(row.Attributes, true)
	return row, nil
}

// ownRecord makes the row of an upload that this mount has just made of a stage, and remembers the upload that it
// replaces, unless the service compared that. Takes Tree.mu.
func (t *Tree) ownRecord(f *File, g *group, raw string, r sdk.Receipt, s *stage, a sdk.Attributes,
	compared bool) *sdk.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, base := g.version(raw), s.base
	if n := len(v.entries); base == 0 && n > 0 { // made anew, or under another name: it replaces all that was known
		base = v.entries[n-1].Seq
		if was, ok := t.replacedBy(f, g, raw); ok {
			base = v.saved // what came before the last save from here was told then
			if was != nil {
				base = max(base, was.Seq)
			}
		}
	}
	if compared {
		base = r.Seq
	}
	v.saved, v.base, v.unsure = r.Seq, base, nil
	g.own[r.Ref] = struct{}{}
	r.Attributes = nil
	if !a.IsZero() { // the hosted service records none
		r.Attributes = &a
	}
	return &r.Entry
}

// settle turns the stage into the committed content of e and keeps it cached
// (R3). whole is the content where it was joined to one piece; the cache takes it. Needs body.mu.
func (f *File) settle(s *stage, e *sdk.Entry, whole *mem.Buffer) {
	old, size := f.held, s.Len()
	var open func() (content.Origin, content.Blocks)
	if f.opens > 0 {
		open = func() (content.Origin, content.Blocks) { return &origin{f, e}, s.sending.takeOpened() }
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

// record merges the row of a save into the names: the file shows it, unless a newer
// upload of the name came from elsewhere meanwhile. Needs Tree.mu.
func (t *Tree) record(f *File, g *group, raw string, row *sdk.Entry) []notice {
	row = g.recordedSince(row)
	if recordedName(row) != raw {
		return t.setAside(f, g, row, raw)
	}
	touched := map[*versions]bool{g.version(raw): true}
	if v := g.version(raw); slices.ContainsFunc(v.entries, isLink) || slices.ContainsFunc(v.waiting, isLink) {
		t.noteLink(g) // others that led over it may be safe by now
	}
	if known := g.entry(row.Ref); known != nil { // the poller was faster, or it is an old row
		f.take(known)
	} else {
		g.mergeSave(touched, *row)
	}
	var notices []notice
	if v := g.version(raw); f.raw == raw && f.isKind(fileReal) {
		if f.dir == nil {
			notices = t.showAgain(f, g, v, row)
		}
		if f.dir != nil {
			v.shown, v.hidden = f, ""
		}
	}
	return append(append(notices, t.placeMerged(g, touched)...), g.readyNotice(row)...)
}

// showAgain gives the name back to a file that lost it to an upload by others, and was saved
// after that upload: programs that have the file open, and those that look the name up, see
// one file. Needs Tree.mu.
func (t *Tree) showAgain(f *File, g *group, v *versions, row *sdk.Entry) []notice {
	if newest := v.newest(); g.gone || newest == nil || newest.Ref != row.Ref || len(f.links) > 0 {
		return nil
	}
	old := v.shown
	if old == nil {
		dir, name := t.slot(g, v.raw, string(row.Ref))
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
	f.t.inBackground(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.t.cfg.EmptyDelay):
		}
		if f.t.delayed.enter(ctx) != nil {
			return
		}
		defer f.t.delayed.leave()
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
