package tree

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Content in blocks is sent in parts. Those that a program completed and left are sent while it
// still writes; the others when the file is saved, and then all is recorded.

const (
	// partsAtATime is how many parts of all files are on their way: each is in memory, sealed.
	partsAtATime = 3
	// sendersPerFile is how many of them are sent beside the program that writes a file, and by its save. A save begins
	// while those of the program are on their way.
	sendersPerFile = 2
)

// errCutOff ends a part of which a program cut blocks off meanwhile.
var errCutOff = errors.New("the block was cut off")

// blockSend is the upload of a stage in blocks. Nothing of it is recorded before the file is
// saved; an error costs the parts on their way, and the next attempt goes on.
type blockSend struct {
	t      *Tree
	group  sdk.GroupID
	c      *staging.Content
	under  *content.Recorded // the stage's
	life   context.Context
	end    context.CancelFunc
	beside sync.WaitGroup // senders beside the program that writes

	last   attempt // of the save; by the state of the file
	opened Blocks  // what the save recorded, open; nil = it is not; by the state of the file

	beginning gate
	mu        sync.Mutex
	senders   int
	early     map[int64]struct{} // blocks that senders have on their way
	stopped   bool               // no more senders: the file is being saved, or one failed
	up        BlockUpload        // nil until it is begun
	noBase    bool               // nothing can be taken over
	done      func()             // after the upload
}

// attempt is what a save tried to record.
type attempt struct {
	raw  string
	size int64
	turn uint64
}

func (t *Tree) newBlockSend(g sdk.GroupID, s *stage) *blockSend {
	b := &blockSend{t: t, group: g, c: s.Content, under: s.Under(), beginning: newGate(),
		early: make(map[int64]struct{})}
	b.life, b.end = context.WithCancel(context.Background())
	return b
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
	if g.waste || !f.t.cuts(g) {
		return
	}
	if s.sending == nil {
		s.sending = f.t.newBlockSend(g.id, s)
	}
	s.sending.startSender(f)
}

// startSender has one more part sent, if few are on their way.
func (b *blockSend) startSender(f *File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped || b.senders == sendersPerFile {
		return
	}
	b.senders++
	b.beside.Go(func() {
		err := guard(func() error { return b.sendWhatRests(f) })
		b.mu.Lock()
		defer b.mu.Unlock()
		b.senders--
		b.stopped = b.stopped || err != nil // the save tries again, and tells
	})
}

func (b *blockSend) sendWhatRests(f *File) error {
	for blocks := b.takeRested(); blocks != nil; blocks = b.takeRested() {
		err := b.putEarly(b.life, f, blocks)
		b.mu.Lock()
		for i := range blocks.All() {
			delete(b.early, i)
		}
		b.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// takeRested returns a part to send beside the program, none once the file is being saved.
func (b *blockSend) takeRested() format.Extents {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return nil
	}
	blocks := b.c.Rested()
	for i := range blocks.All() {
		b.early[i] = struct{}{}
	}
	return blocks
}

func (b *blockSend) putEarly(ctx context.Context, f *File, blocks format.Extents) error {
	up, err := b.begin(ctx, f, f.rawName())
	if err != nil {
		return err
	}
	return b.putAll(ctx, up, blocks, 1)
}

// begin begins the upload unless it was begun.
func (b *blockSend) begin(ctx context.Context, f *File, raw string) (BlockUpload, error) {
	if err := b.beginning.enter(ctx); err != nil {
		return nil, err
	}
	defer b.beginning.leave()
	b.mu.Lock()
	up := b.up
	b.mu.Unlock()
	if up != nil {
		return up, nil
	}
	base, done := b.baseFor(ctx, f, raw)
	up, err := b.t.blocks.BeginBlocks(ctx, b.group, base, b.c.Layout().BlockBytes)
	if err != nil {
		done()
		if errors.Is(err, sdk.ErrUnsupported) {
			f.groupNow().whole.Store(true)
		}
		return nil, err
	}
	b.mu.Lock()
	b.up, b.done = up, done
	b.mu.Unlock()
	return up, nil
}

// baseFor returns the open file whose blocks the upload may take over, or nil.
func (b *blockSend) baseFor(ctx context.Context, f *File, raw string) (base Blocks, done func()) {
	if b.noBase || b.under == nil {
		return nil, func() {}
	}
	if from, _ := b.under.Latest(); !f.t.takesOver(from, b.group, raw) {
		return nil, func() {}
	}
	base, done, err := b.under.Use(ctx)
	if err != nil {
		return nil, func() {}
	}
	return base, done
}

// takesOver reports whether an upload of a name may take over blocks of an earlier version.
func (t *Tree) takesOver(e *sdk.Entry, g sdk.GroupID, raw string) bool {
	t.mu.RLock()
	now := e
	if of := t.groups[e.Group]; of != nil {
		now = cmp.Or(of.view.Entry(e.Ref), e)
	}
	t.mu.RUnlock()
	return e.Group == g && !t.isForeign(e) && recordedName(now) == raw && now.Deleted == nil
}

// put sends one part.
func (b *blockSend) put(ctx context.Context, up BlockUpload, part format.Extents) error {
	if err := b.t.parts.enter(ctx); err != nil {
		return err
	}
	defer b.t.parts.leave()
	marks := make(map[int64]staging.Mark, part.Blocks())
	twice := false
	err := up.PutPart(ctx, part, func(i int64, into []byte) (int, error) {
		n, mark, err := b.readMarked(ctx, i, into)
		if was, read := marks[i]; read && was != mark {
			twice = true
		}
		marks[i] = mark
		return n, err
	})
	if err != nil || twice {
		return err
	}
	for i, mark := range marks {
		b.c.Sent(i, mark)
	}
	return nil
}

// stopEarly waits until no part is on its way beside the caller.
func (b *blockSend) stopEarly(ctx context.Context) error {
	_ = b.stop()
	idle := make(chan struct{})
	go func() {
		b.beside.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// goOn allows parts beside a program that writes again.
func (b *blockSend) goOn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = false
}

// abandon gives the upload up: the next one begins anew.
func (b *blockSend) abandon() {
	b.mu.Lock()
	up, done := b.up, b.done
	b.up, b.done = nil, nil
	b.mu.Unlock()
	b.last = attempt{}
	if opened := b.takeOpened(); opened != nil {
		_ = opened.Close() // it only wipes
	}
	if up != nil {
		up.Abandon()
		done()
	}
	b.c.Unsend()
}

// endStage ends what a stage that goes has to do with the service. Needs body.mu.
func (f *File) endStage(s *stage) {
	b, under := s.sending, s.TakeUnder()
	s.sending = nil
	if b == nil {
		under.Release()
		return
	}
	b.end()
	_ = b.stop()
	f.t.done.Go(func() {
		b.beside.Wait()
		b.abandon()
		under.Release()
	})
}

func (b *blockSend) stop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.stopped
	b.stopped = true
	return was
}

// commitBlocks records staged content in blocks. It releases body.mu meanwhile. Needs
// body.mu.
func (f *File) commitBlocks(ctx context.Context, s *stage, when commitWhen, g *group,
	raw string) (*sdk.Entry, error) {
	if s.sending != nil && s.sending.group != g.id { // it was renamed to another group
		old := s.sending
		s.sending = nil
		_ = old.stop()
		old.end()
		f.t.done.Go(func() {
			old.beside.Wait()
			old.abandon()
		})
	}
	if s.sending == nil {
		s.sending = f.t.newBlockSend(g.id, s)
	}
	b := s.sending
	before := f.entry.Load() == nil
	f.beginSending(s)
	var whole *mem.Buffer
	var saved bool
	row, err := guarded(func() (row *sdk.Entry, err error) {
		row, whole, saved, err = f.sendBlocks(ctx, s, b, when, g, raw)
		return row, err
	})
	f.endSending(s, err)
	if err != nil {
		b.goOn()
		return nil, err
	}
	if saved {
		f.setSavedBefore(row, before)
	}
	f.settle(s, row, whole)
	return row, nil
}

// sendBlocks sends what is not there and records the file. saved means that row held the content
// before. whole is the content where row holds it in one piece.
func (f *File) sendBlocks(ctx context.Context, s *stage, b *blockSend, when commitWhen, g *group,
	raw string) (row *sdk.Entry, whole *mem.Buffer, saved bool, err error) {
	_ = b.stop()
	if b.last != (attempt{}) { // what comes may give the upload up
		if err := b.stopEarly(ctx); err != nil {
			return nil, nil, false, err
		}
	}
	switch way, row := f.wayOf(s, when, g, raw); way {
	case wayWhole:
		return f.sendWhole(ctx, s, b, g, raw)
	case wayNothing:
		if err := b.stopEarly(ctx); err != nil {
			return nil, nil, false, err
		}
		if content.IsCut(row) {
			return row, nil, true, nil
		}
		if whole, err := f.gather(ctx, b); err == nil { // else it is saved once more
			return row, whole, true, nil
		}
	}
	if f.t.queue.IsOn() {
		row, err = f.saveWithOutbox(ctx, s, b, g, raw)
	} else {
		row, err = f.recordBlocks(ctx, s, b, g, raw)
	}
	if errors.Is(err, sdk.ErrUnsupported) && !f.t.cuts(g) {
		return f.sendWhole(ctx, s, b, g, raw)
	}
	return row, nil, false, err
}

// recordBlocks sends what is not there and records the file, beside the outbox.
func (f *File) recordBlocks(ctx context.Context, s *stage, b *blockSend, g *group,
	raw string) (row *sdk.Entry, err error) {
	for again := false; ; again = true {
		row, err = f.finishBlocks(ctx, s, b, g, raw)
		switch {
		case err == nil, errors.Is(err, sdk.ErrUnsupported) && !f.t.cuts(g):
			return row, err
		case hasCode(err, wire.CodeBase) && !again:
			b.abandon()
			b.noBase = true
		case hasCode(err, wire.CodeMissing) && !again:
			b.abandon()
		default:
			if class := wrapRemote("", "", err).Class; !class.isAway() && class != ClassInterrupted &&
				class != ClassBudget {
				b.abandon()
			}
			return nil, err
		}
	}
}

func hasCode(err error, code string) bool {
	var e *sdk.Error
	return errors.As(err, &e) && e.Code == code
}

// holdingBlocks is [Tree.holding] for content in blocks.
func (t *Tree) holdingBlocks(s *stage, g *group, raw, target string) *sdk.Entry {
	if newest := t.newestOf(g, raw); newest != nil && s.Under() != nil {
		if from, _ := s.Under().Latest(); t.isSame(g, newest, from) && !s.Differs() {
			return newest
		}
	}
	return t.holding(s, g, raw, target)
}

// finishBlocks sends what is not there, and records the file. It costs one upload.
func (f *File) finishBlocks(ctx context.Context, s *stage, b *blockSend, g *group, raw string) (*sdk.Entry, error) {
	tried := attempt{raw, s.Len(), s.Turn()}
	if b.last != (attempt{}) && b.last != tried {
		b.abandon() // it may be recorded: what changed since is another version
	}
	// its price is set aside before anything is sent
	return f.recordAs(ctx, g, raw, s, f.t.cfg.Ours, func(name string, base *sdk.Ref,
		a sdk.Attributes) (sdk.Receipt, error) {
		up, hash, err := b.sendAll(ctx, f, name)
		if err != nil {
			return sdk.Receipt{}, err
		}
		b.last = tried
		r, err := up.Finish(ctx, name, s.Len(), hash, base, a)
		if err == nil {
			b.opened = up.Opened()
		}
		return r, f.t.unsure(g, raw, hash, err)
	})
}

// sendAll sends what is not there: first what nobody has on its way, so that the line is never idle, and then what did
// not arrive so, or was changed meanwhile. No part is on its way beside the caller afterwards, unless ctx ended.
func (b *blockSend) sendAll(ctx context.Context, f *File, raw string) (up BlockUpload, hash sdk.Digest, err error) {
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life, func() { cancel(b.life.Err()) })()
	if up, err = b.begin(ctx, f, raw); err == nil {
		err = b.putAll(sending, up, b.c.Unsent(up.TakesOver()).Without(b.onTheirWay()), sendersPerFile)
	}
	if ended := b.stopEarly(ctx); ended != nil {
		return nil, hash, ended
	}
	if err == nil {
		err = b.putAll(sending, up, b.c.Unsent(up.TakesOver()), sendersPerFile)
	}
	if err != nil {
		return nil, hash, err
	}
	hash, err = b.hash(ctx, up)
	return up, hash, err
}

// onTheirWay returns the blocks that senders beside the caller have on their way. No others come once they are stopped.
func (b *blockSend) onTheirWay() (list format.Extents) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(b.early)) {
		list = list.Add(i)
	}
	return list
}

// putAll sends blocks, some parts at a time.
func (b *blockSend) putAll(ctx context.Context, up BlockUpload, list format.Extents, atOnce int) error {
	return blocks.PutParts(ctx, list, up.PartBlocks(), atOnce, func(ctx context.Context, part format.Extents) error {
		return guard(func() error { return b.put(ctx, up, part) })
	})
}

// hash returns the hash of the content, zero if that would need blocks that are taken over.
func (b *blockSend) hash(ctx context.Context, up BlockUpload) (hash sdk.Digest, err error) {
	sum, known, err := b.c.Hash()
	if err != nil || known || up.TakesOver() {
		return sum, err
	}
	buf, err := b.t.contents.Pool.Get(b.c.Layout().BlockBytes)
	if err != nil {
		return hash, err
	}
	defer buf.Release()
	return blocks.Hash(ctx, b.c.Layout(), buf.Bytes(), b.read)
}

// read reads a block, from the base where it is unchanged.
func (b *blockSend) read(ctx context.Context, i int64, into []byte) (int, error) {
	n, _, err := b.readMarked(ctx, i, into)
	return n, err
}

// readMarked is read, with what tells whether a program changed the block meanwhile.
func (b *blockSend) readMarked(ctx context.Context, i int64, into []byte) (int, staging.Mark, error) {
	n, mark, isBase, err := b.c.Block(i, into)
	if err == nil && n == 0 {
		err = errCutOff
	}
	if err != nil || !isBase {
		return n, mark, err
	}
	into = into[:n]
	n, err = b.under.ReadAt(ctx, nil, into, i*b.c.Layout().BlockBytes)
	if err == nil && n < len(into) {
		err = content.ErrTaken
	}
	return n, mark, err
}

// sendWhole records content that is in blocks and not large, or large where the service has no
// blocks, as one.
func (f *File) sendWhole(ctx context.Context, s *stage, b *blockSend, g *group, raw string) (row *sdk.Entry,
	whole *mem.Buffer, saved bool, err error) {
	size := s.Len()
	if limit := min(f.t.cfg.MaxFileBytes, f.t.cfg.MaxUploadBytes); size > limit {
		return nil, nil, false, &Error{Class: ClassTooBig,
			Err: errors.New("the group takes files as one piece, and this one is larger than " +
				report.ByteText(limit)),
			Hint: "Split it, for example with: split -b 1G. The owner of the group changes that with: " +
				"svcfs group config GROUP format 2"}
	}
	if whole, err = f.gather(ctx, b); err != nil {
		return nil, nil, false, err
	}
	if newest := f.t.newestOf(g, raw); newest != nil && newest.Size == size && newest.Hash == whole.Hash() &&
		targetOf(newest) == f.target {
		return newest, whole, true, nil
	}
	if row, err = f.upload(ctx, s, g, raw, whole); err != nil {
		whole.Release()
		return nil, nil, false, err
	}
	return row, whole, false, nil
}

// gather returns content in blocks as one buffer, which is the caller's.
func (f *File) gather(ctx context.Context, b *blockSend) (*mem.Buffer, error) {
	l := b.c.Layout()
	whole, err := f.t.contents.Pool.Get(l.Size)
	if err != nil {
		return nil, &Error{Class: ClassNoMemory, Err: err}
	}
	for i := range l.Blocks() {
		if _, err := b.read(ctx, i, whole.Bytes()[i*l.BlockBytes:][:l.Plain(i)]); err != nil {
			whole.Release()
			return nil, err
		}
	}
	return whole, nil
}

// takeOpened returns the recorded file that is open, once; nil if there is none.
func (b *blockSend) takeOpened() Blocks {
	if b == nil {
		return nil
	}
	opened := b.opened
	b.opened = nil
	return opened
}

// isSame reports whether newest is e, or the record that e became.
func (t *Tree) isSame(g *group, newest, e *sdk.Entry) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return newest.Ref == g.recordedSince(e).Ref
}
