package tree

import (
	"context"
	"errors"
	"slices"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// saving is one save of a file under a name of a group, and the [save.Names] of it. The stage is being sent while
// package save has it.
type saving struct {
	f   *File
	s   *stage
	g   *group
	raw string
}

func (w *saving) what(ctx context.Context) save.Save {
	return save.Save{Names: w, Group: w.g.id, Name: w.raw, Temporary: w.f.isTemporary(w.raw),
		Now: w.f.t.queue.IsOn() && w.isSentNow(ctx), Compared: w.s.only, Old: w.s.behind != nil}
}

// whole saves content in one piece.
func (w *saving) whole(ctx context.Context, whole *mem.Buffer) (*sdk.Entry, error) {
	return w.made(w.f.t.saver.Whole(ctx, w.what(ctx), whole))
}

// made takes note of what became of the save, and returns its row.
func (w *saving) made(m save.Made, err error) (*sdk.Entry, error) {
	if errors.Is(err, errMerged) {
		return w.s.merged, nil
	}
	if err != nil {
		return nil, err
	}
	t, row := w.f.t, &m.Entry
	t.mu.Lock()
	w.g.own[row.Ref] = struct{}{}
	if !isWaiting(row) {
		v := w.g.version(m.As)
		v.saved, v.base, v.unsure = row.Seq, w.replaced(v, m), nil
	}
	t.mu.Unlock()
	if !isWaiting(row) {
		t.counts.uploads.Add(1)
		w.g.view.Made(row.Number, m.Began)
	}
	w.f.setSaved(row.Attributes, true)
	return row, nil
}

// replaced returns the upload that a record of v replaces: what others saved after it is a conflict, unless the service
// compared that. Needs Tree.mu.
func (w *saving) replaced(v *versions, m save.Made) sdk.Seq {
	switch n := len(v.entries); {
	case m.Compared:
		return m.Seq
	case w.s.base != 0 || n == 0:
		return w.s.base
	default: // made anew, or under another name: it replaces all that was known
		was, ok := w.g.replacedBy(w.f, m.As)
		switch {
		case !ok:
			return v.entries[n-1].Seq
		case was == nil:
			return v.saved // what came before the last save from here was told then
		}
		return max(v.saved, was.Seq)
	}
}

// blocks saves content in blocks. saved means that row held the content before. whole is the content where row holds
// it in one piece.
func (w *saving) blocks(ctx context.Context, when commitWhen) (row *sdk.Entry, whole *mem.Buffer, saved bool,
	err error) {
	b := w.s.sending
	if err := b.BeginSave(ctx); err != nil {
		return nil, nil, false, err
	}
	switch way, row := w.way(when); way {
	case wayWhole:
		return w.joined(ctx)
	case wayNothing:
		if err := b.Wait(ctx); err != nil {
			return nil, nil, false, err
		}
		if content.IsCut(row) {
			return row, nil, true, nil
		}
		if whole, err := b.Join(ctx); err == nil { // else it is saved once more
			return row, whole, true, nil
		}
	}
	row, err = w.made(w.f.t.saver.Blocks(ctx, w.what(ctx), b))
	if errors.Is(err, sdk.ErrUnsupported) && !w.g.cuts() {
		return w.joined(ctx)
	}
	return row, nil, false, err
}

// joined saves content that is in blocks and not large, or large where the service has no
// blocks, as one piece.
func (w *saving) joined(ctx context.Context) (row *sdk.Entry, whole *mem.Buffer, saved bool, err error) {
	f, size := w.f, w.s.Len()
	if limit := min(f.t.cfg.MaxFileBytes, f.t.cfg.MaxUploadBytes); size > limit {
		return nil, nil, false, &Error{Class: ClassTooBig,
			Err: errors.New("the group takes files as one piece, and this one is larger than " +
				report.ByteText(limit)),
			Hint: "Split it, for example with: split -b 1G. The owner of the group changes that with: " +
				"svcfs group config GROUP format 2"}
	}
	if whole, err = w.s.sending.Join(ctx); err != nil {
		return nil, nil, false, err
	}
	row = w.unchanged()
	if row == nil {
		row = w.equal(func() ([32]byte, bool, error) { return whole.Hash(), true, nil })
	}
	if row != nil {
		return row, whole, true, nil
	}
	if row, err = w.whole(ctx, whole); err != nil {
		whole.Release()
		return nil, nil, false, err
	}
	return row, whole, false, nil
}

// holding returns the newest upload of the name when it holds exactly the staged
// bytes, as a link or as a file: saving them again would buy nothing (W3). Needs the file's mu.
func (w *saving) holding() *sdk.Entry { return w.equal(w.s.Hash) }

// equal is holding for bytes whose hash is asked for where it proves that they are equal.
func (w *saving) equal(hashOf func() ([32]byte, bool, error)) *sdk.Entry {
	newest := w.newest()
	if newest == nil || newest.Size != w.s.Len() || targetOf(newest) != w.f.target {
		return nil
	}
	// A reader of another account's file in blocks proves the blocks, and not the hash; and a link of this account may
	// lead where theirs may not.
	if w.f.t.isForeign(newest) && (content.IsCut(newest) || w.f.target != "") {
		return nil
	}
	if hash, known, err := hashOf(); err != nil || !known || hash != newest.Hash {
		return nil
	}
	return newest
}

// newest returns the newest upload of the name, nil where another save from here, which got no answer, may be newer.
func (w *saving) newest() *sdk.Entry {
	t := w.f.t
	t.mu.RLock()
	defer t.mu.RUnlock()
	v := w.g.names[w.raw]
	if v == nil {
		return nil
	}
	newest := v.newest()
	mayBeOther := func(h sdk.Digest) bool { return h != newest.Hash || h == sdk.Digest{} }
	if newest == nil || slices.ContainsFunc(v.unsure, mayBeOther) {
		return nil
	}
	return newest
}

// holdingBlocks is holding for content in blocks.
func (w *saving) holdingBlocks() *sdk.Entry {
	if row := w.unchanged(); row != nil {
		return row
	}
	return w.holding()
}

// unchanged returns the newest upload of the name when the staged blocks are those of it.
func (w *saving) unchanged() *sdk.Entry {
	if newest := w.newest(); newest != nil && w.s.Under() != nil && !w.s.Differs() {
		if from, _ := w.s.Under().Latest(); newest.Ref == w.g.Newest(from).Ref {
			return newest
		}
	}
	return nil
}

// Attributes implements [save.Names].
func (w *saving) Attributes() (a sdk.Attributes) {
	if w.f.t.cfg.Ours {
		a, _ = w.f.wanted(true)
	}
	a.Target = w.f.target
	return a
}

// Base implements [save.Names]: the version that the change began from, or, for a
// file made anew or under another name, what its program had opened there, or else the newest that is
// known.
func (w *saving) Base() sdk.Ref {
	f, g := w.f, w.g
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	if w.s.behind != nil {
		return *w.s.behind
	}
	if e := f.entry.Load(); w.s.base != 0 && e != nil && f.isKind(fileReal) && e.Name == w.raw && e.Group == g.id &&
		e.Deleted == nil {
		if known := g.entry(e.Ref); known == nil || known.Deleted == nil {
			return e.Ref
		}
	}
	switch was, ok := g.replacedBy(f, w.raw); {
	case !ok:
		return g.names[w.raw].newestRef()
	case was == nil: // what was opened is gone
		return ""
	default:
		return was.Ref
	}
}

// mostUnsure is how many contents of one name, saved without an answer, are remembered.
const mostUnsure = 8

// NoAnswer implements [save.Names].
func (w *saving) NoAnswer(name string, hash sdk.Digest) {
	w.f.t.mu.Lock()
	defer w.f.t.mu.Unlock()
	v := w.g.version(name)
	if !slices.Contains(v.unsure, hash) {
		v.unsure = append(v.unsure[max(0, len(v.unsure)-mostUnsure+1):], hash)
	}
}

// Aside implements [save.Names]: the save keeps its name if others removed what they saved, or if the newest version is
// a save from here whose answer was lost. An append may be made on the version of others instead: then the error is
// errMerged. Another name is the same in each attempt: what may be recorded under it is asked for again.
func (w *saving) Aside(ctx context.Context, n int) (name string, base sdk.Ref, err error) {
	t := w.f.t
	if n == 0 {
		if err := w.mergeAppend(ctx); err != nil {
			return "", "", err
		}
	}
	if err := w.g.lookAt(ctx, w.raw); err == nil && n == 0 {
		t.mu.RLock()
		defer t.mu.RUnlock()
		v := w.g.names[w.raw]
		if base = v.newestRef(); base == "" {
			return w.raw, base, nil
		}
		e := v.newest()
		if e.Uploader == t.remote.Account() && e.Hash != (sdk.Digest{}) && slices.Contains(v.unsure, e.Hash) {
			return w.raw, base, nil
		}
	}
	if w.s.aside.IsZero() {
		w.s.aside = t.now()
	}
	return outbox.ConflictName(w.raw, t.remote.Account(), w.s.aside, n), "", nil
}

// BeginBlocks implements [save.Group].
func (g *group) BeginBlocks(ctx context.Context, base Blocks, blockBytes int64) (save.Upload, error) {
	up, err := g.dir.t.blocks.BeginBlocks(ctx, g.id, base, blockBytes)
	if errors.Is(err, sdk.ErrUnsupported) {
		g.whole.Store(g.dir.t.now().Add(settingAge).UnixNano())
	}
	return up, err
}

// TakesOver implements [save.Group].
func (g *group) TakesOver(e *sdk.Entry, raw string) bool {
	now := g.Newest(e)
	return e.Group == g.id && !g.dir.t.isForeign(e) && recordedName(now) == raw && now.Deleted == nil
}

// Newest implements [save.Group].
func (g *group) Newest(e *sdk.Entry) *sdk.Entry {
	g.dir.t.mu.RLock()
	defer g.dir.t.mu.RUnlock()
	of := g.dir.t.groups[e.Group]
	if of == nil {
		return e
	}
	e = of.recordedSince(e)
	if now := of.entry(e.Ref); now != nil {
		return now
	}
	return e
}

// claimVersion opens a recorded version that a save was made from, which costs one claim.
func (t *Tree) claimVersion(ctx context.Context, from outbox.From) (opened save.Opened, err error) {
	t.mu.RLock()
	var e *sdk.Entry
	g := t.groups[from.Group]
	if g != nil {
		e = g.view.Entry(from.Ref)
	}
	t.mu.RUnlock()
	if e == nil && g != nil { // the name may be one that nobody looked at
		if err := g.knowAll(ctx); err != nil {
			return nil, err
		}
		e = g.view.Entry(from.Ref)
	}
	if e == nil {
		return nil, &Error{Class: ClassNotExist, Err: errors.New("the version that the file was made from, " +
			string(from.Ref) + ", is gone")}
	}
	err = t.spent.Spend("retrieve", func() (sdk.Amount, error) {
		blocks, err := t.blocks.OpenBlocks(ctx, *e)
		if err != nil {
			return sdk.Amount{}, err
		}
		opened = blocks
		return blocks.Fee(), nil
	})
	if err == nil {
		t.counts.retrieves.Add(1)
	}
	return opened, err
}

// sendRested sends parts that are complete and that the program left. Needs body.mu.
func (f *File) sendRested(s *stage) {
	if s.Whole() != nil || !s.HasRested() || !f.isKind(fileReal) || f.half != nil {
		return
	}
	if f.t.queue.IsOn() {
		return // it is sent from there
	}
	if _, beside := policy.DatabaseOf(f.rawName()); beside {
		return // a journal, which may never be saved
	}
	g := f.groupNow()
	if g.waste || !g.cuts() {
		return
	}
	if s.sending == nil {
		s.sending = f.t.saver.NewSender(g, s.Stage)
	}
	s.sending.SendRested(f.rawName)
}

// senderTo returns the sender of staged content to a group, another one after it was renamed to another group. Needs
// body.mu.
func (f *File) senderTo(s *stage, g *group) *save.Sender {
	if s.sending != nil && !s.sending.IsOf(g) {
		f.dropSender(s)
	}
	if s.sending == nil {
		s.sending = f.t.saver.NewSender(g, s.Stage)
	}
	return s.sending
}

// dropSender gives up what was sent of a stage in blocks, if anything was. Needs body.mu.
func (f *File) dropSender(s *stage) {
	if old := s.sending; old != nil {
		s.sending = nil
		old.Cancel()
		f.t.done.Go(old.Close)
	}
}

// endStage ends what a stage that goes has to do with the service. Needs body.mu.
func (f *File) endStage(s *stage) {
	b, under := s.sending, s.TakeUnder()
	s.sending = nil
	if s.upon != nil {
		f.t.done.Go(s.dropUpon)
	}
	if b == nil {
		under.Release()
		return
	}
	b.Cancel()
	f.t.done.Go(func() {
		b.Close()
		under.Release()
	})
}
