package save

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
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

// Upload is an upload of format version 2 in progress, see [sdk.BlockUpload].
type Upload interface {
	TakesOver() bool
	PartBlocks() int64
	PutPart(ctx context.Context, blocks format.Extents, read func(block int64, into []byte) (int, error)) error
	// Finish records the file.
	Finish(ctx context.Context, name string, size int64, hash sdk.Digest, o ...sdk.PutOptions) (sdk.Receipt, error)
	// Opened returns the recorded file after Finish, or nil: it needs no claim.
	Opened() content.Blocks
	Abandon()
}

// Group is what a [Sender] asks of the group of a file.
type Group interface {
	// BeginBlocks begins an upload. base is nil, or an earlier version of the name that is open. Free.
	BeginBlocks(ctx context.Context, base content.Blocks, blockBytes int64) (Upload, error)
	// TakesOver reports whether an upload of a name may take over blocks of an earlier version.
	TakesOver(e *sdk.Entry, name string) bool
	// Newest returns the newest form of a version, and of one that waited and was recorded since its record.
	Newest(e *sdk.Entry) *sdk.Entry
}

// Sender sends the content of one file in blocks. Nothing of it is recorded before the file is
// saved; an error costs the parts on their way, and the next attempt goes on.
type Sender struct {
	saver *Saver
	group Group
	c     *staging.Content
	under *content.Recorded // the stage's
	life  context.Context
	end   context.CancelFunc

	last   attempt        // of the save; by who saves the file
	unsure *tried         // that attempt got no answer: the upload takes no other; by who saves the file
	opened content.Blocks // what the save recorded, open; nil = it is not; by who saves the file

	beginning *semaphore.Weighted // one at a time
	mu        sync.Mutex
	senders   int                // beside the program that writes
	idle      chan struct{}      // closed while there are none
	early     map[int64]struct{} // blocks that senders have on their way
	stopped   bool               // no more senders: the file is being saved, or one failed
	up        Upload             // nil until it is begun
	noBase    bool               // nothing can be taken over
	done      func()             // after the upload
}

// attempt is what a save tried to record.
type attempt struct {
	name string
	size int64
	turn uint64
}

// tried is what the service was asked to record.
type tried struct {
	name       string
	hash       sdk.Digest
	base, upon *sdk.Ref
}

// NewSender returns a Sender of staged content in a group. The stage outlives it.
func (s *Saver) NewSender(g Group, stage *content.Stage) *Sender {
	b := &Sender{saver: s, group: g, c: stage.Content, under: stage.Under(), beginning: semaphore.NewWeighted(1),
		early: make(map[int64]struct{}), idle: make(chan struct{})}
	close(b.idle)
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// IsOf reports whether the content goes to a group.
func (b *Sender) IsOf(g Group) bool { return b.group == g }

// SendRested has one more part sent that is complete and that the program left, if few are on their way.
func (b *Sender) SendRested(name func() string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped || b.senders == sendersPerFile {
		return
	}
	if b.senders == 0 {
		b.idle = make(chan struct{})
	}
	b.senders++
	go func() {
		err := b.saver.opt.Guard(func() error { return b.sendWhatRests(name) })
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stopped = b.stopped || err != nil // the save tries again, and tells
		if b.senders--; b.senders == 0 {
			close(b.idle)
		}
	}()
}

func (b *Sender) sendWhatRests(name func() string) error {
	for blocks := b.takeRested(); blocks != nil; blocks = b.takeRested() {
		up, err := b.begin(b.life, name())
		if err == nil {
			err = b.putAll(b.life, up, blocks, 1)
		}
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
func (b *Sender) takeRested() format.Extents {
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

// begin begins the upload unless it was begun.
func (b *Sender) begin(ctx context.Context, name string) (Upload, error) {
	if err := b.beginning.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer b.beginning.Release(1)
	b.mu.Lock()
	up := b.up
	b.mu.Unlock()
	if up != nil {
		return up, nil
	}
	base, done := b.baseFor(ctx, name)
	up, err := b.group.BeginBlocks(ctx, base, b.c.Layout().BlockBytes)
	if err != nil {
		done()
		return nil, err
	}
	b.mu.Lock()
	b.up, b.done = up, done
	b.mu.Unlock()
	return up, nil
}

// baseFor returns the open file whose blocks the upload may take over, or nil.
func (b *Sender) baseFor(ctx context.Context, name string) (base content.Blocks, done func()) {
	if b.noBase || b.under == nil {
		return nil, func() {}
	}
	if from, _ := b.under.Latest(); !b.group.TakesOver(from, name) {
		return nil, func() {}
	}
	base, done, err := b.under.Use(ctx)
	if err != nil {
		return nil, func() {}
	}
	return base, done
}

// put sends one part.
func (b *Sender) put(ctx context.Context, up Upload, part format.Extents) error {
	if err := b.saver.parts.Acquire(ctx, 1); err != nil {
		return err
	}
	defer b.saver.parts.Release(1)
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

// BeginSave lets no more parts be sent beside the program. Where what comes may give the upload up, it waits for those
// on their way.
func (b *Sender) BeginSave(ctx context.Context) error {
	b.stop()
	if b.last == (attempt{}) {
		return nil
	}
	return b.Wait(ctx)
}

// Wait waits until no part is on its way beside the caller, and none will be.
func (b *Sender) Wait(ctx context.Context) error {
	select {
	case <-b.stop():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// EndSave allows parts beside a program that writes again.
func (b *Sender) EndSave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = false
}

// stop returns what is closed once no part is on its way beside the caller.
func (b *Sender) stop() (idle chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return b.idle
}

// Cancel ends what is on its way. [Sender.Close] follows.
func (b *Sender) Cancel() {
	b.end()
	b.stop()
}

// Close waits for the end of what is on its way, and gives the upload up.
func (b *Sender) Close() {
	<-b.stop()
	b.abandon()
}

// abandon gives the upload up: the next one begins anew.
func (b *Sender) abandon() {
	b.mu.Lock()
	up, done := b.up, b.done
	b.up, b.done = nil, nil
	b.mu.Unlock()
	b.last, b.unsure = attempt{}, nil
	if opened := b.TakeOpened(); opened != nil {
		_ = opened.Close() // it only wipes
	}
	if up != nil {
		up.Abandon()
		done()
	}
	b.c.Unsend()
}

// TakeOpened returns the recorded file that is open, once; nil if there is none, or b is nil.
func (b *Sender) TakeOpened() content.Blocks {
	if b == nil {
		return nil
	}
	opened := b.opened
	b.opened = nil
	return opened
}

// recordBlocks sends what is not there and records the file, without the outbox.
func (s *Saver) recordBlocks(ctx context.Context, w Save, b *Sender) (Made, error) {
	for again := false; ; again = true {
		m, err := s.finish(ctx, w, b)
		switch {
		case err == nil:
			return m, nil
		case hasCode(err, wire.CodeBase) && !again:
			b.abandon()
			b.noBase = true
		case hasCode(err, wire.CodeMissing) && !again:
			b.abandon()
		default:
			if !s.opt.GoesOn(err) && b.unsure == nil { // else another upload may be a second record
				b.abandon()
			}
			return m, err
		}
	}
}

// finish sends what is not there, and records the file. It costs one upload.
func (s *Saver) finish(ctx context.Context, w Save, b *Sender) (Made, error) {
	now := attempt{w.Name, b.c.Len(), b.c.Turn()}
	if b.last != (attempt{}) && b.last != now {
		b.abandon() // it may be recorded: what changed since is another version
	}
	// its price is set aside before anything is sent
	return s.record(ctx, w, b.unsure, func(name string, o sdk.PutOptions) (sdk.Receipt, error) {
		up, hash, err := b.sendAll(ctx, name)
		if err != nil {
			return sdk.Receipt{}, err
		}
		if b.unsure != nil { // another hash is known where blocks came or went
			hash = b.unsure.hash
		}
		b.last, b.unsure = now, &tried{name, hash, o.Base, o.Upon}
		r, err := up.Finish(ctx, name, b.c.Len(), hash, o)
		if err == nil {
			b.opened = up.Opened()
		}
		if !w.note(name, hash, err) {
			b.unsure = nil
		}
		return r, err
	})
}

// sendAll sends what is not there: first what nobody has on its way, so that the line is never idle, and then what did
// not arrive so, or was changed meanwhile. No part is on its way beside the caller afterwards, unless ctx ended.
func (b *Sender) sendAll(ctx context.Context, name string) (up Upload, hash sdk.Digest, err error) {
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life, func() { cancel(b.life.Err()) })()
	if up, err = b.begin(ctx, name); err == nil {
		err = b.putAll(sending, up, b.c.Unsent(up.TakesOver()).Without(b.onTheirWay()), sendersPerFile)
	}
	if ended := b.Wait(ctx); ended != nil {
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
func (b *Sender) onTheirWay() (list format.Extents) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(b.early)) {
		list = list.Add(i)
	}
	return list
}

// putAll sends blocks, some parts at a time.
func (b *Sender) putAll(ctx context.Context, up Upload, list format.Extents, atOnce int) error {
	return blocks.PutParts(ctx, list, up.PartBlocks(), atOnce, func(ctx context.Context, part format.Extents) error {
		return b.saver.opt.Guard(func() error { return b.put(ctx, up, part) })
	})
}

// hash returns the hash of the content, zero if that would need blocks that are taken over.
func (b *Sender) hash(ctx context.Context, up Upload) (hash sdk.Digest, err error) {
	sum, known, err := b.c.Hash()
	if err != nil || known || up.TakesOver() {
		return sum, err
	}
	buf, err := b.saver.opt.Pool.Get(b.c.Layout().BlockBytes)
	if err != nil {
		return hash, err
	}
	defer buf.Release()
	return blocks.Hash(ctx, b.c.Layout(), buf.Bytes(), b.read)
}

// read reads a block, from the base where it is unchanged.
func (b *Sender) read(ctx context.Context, i int64, into []byte) (int, error) {
	n, _, err := b.readMarked(ctx, i, into)
	return n, err
}

// readMarked is read, with what tells whether a program changed the block meanwhile.
func (b *Sender) readMarked(ctx context.Context, i int64, into []byte) (int, staging.Mark, error) {
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

// Join returns the content as one buffer, which is the caller's.
func (b *Sender) Join(ctx context.Context) (*mem.Buffer, error) {
	l := b.c.Layout()
	whole, err := b.saver.opt.Pool.Get(l.Size)
	if err != nil {
		return nil, &content.NoRoom{Err: err}
	}
	for i := range l.Blocks() {
		if _, err := b.read(ctx, i, whole.Bytes()[i*l.BlockBytes:][:l.Plain(i)]); err != nil {
			whole.Release()
			return nil, err
		}
	}
	return whole, nil
}

// changed returns which blocks of the content differ from the recorded version that it was made from. What was made
// from a save that waits, too, is compared with the version that this one was made from.
func (b *Sender) changed() *outbox.Large {
	l := b.c.Layout()
	large := &outbox.Large{Layout: l, Read: b.read}
	if hash, known, err := b.c.Hash(); err == nil && known {
		large.Hash = hash
	}
	also, from := b.recordedBase()
	for i := range l.Blocks() {
		if _, waits := also.Index(i); waits || from == (outbox.From{}) || !b.c.IsBased(i) {
			large.Changed = large.Changed.Add(i)
		}
	}
	if large.Changed.Blocks() == l.Blocks() {
		return large
	}
	large.From = from
	if base := b.under.Again(); base != nil {
		large.Release = base.Release
		large.Open = func(ctx context.Context) (outbox.Blocks, func(), error) { return held{base}.Open(ctx, from) }
	}
	return large
}

// recordedBase returns the recorded version that unchanged blocks come from, none if there is no such version, and
// which blocks wait because they differ from it already.
func (b *Sender) recordedBase() (waiting format.Extents, from outbox.From) {
	if b.under == nil {
		return nil, from
	}
	e, layout := b.under.Latest()
	e = b.group.Newest(e)
	switch item, ok := b.saver.At(e); {
	case layout.BlockBytes != b.c.Layout().BlockBytes, e.Deleted != nil:
		return nil, from
	case ok:
		return item.Changed, item.From
	case Waits(e): // it was given up
		return nil, from
	}
	return nil, outbox.From{Group: e.Group, Ref: e.Ref}
}
