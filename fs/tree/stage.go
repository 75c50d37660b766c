package tree

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk"
)

// stage is the changed copy of a file, in memory. Its fields are guarded by
// File.mu; the buffer's content by busy as well.
type stage struct {
	buf      *sdk.Buffer
	reserved int64 // bytes of the staging budget
	dirty    bool  // holds something the ledger has not recorded
	since    time.Time
	failed   *Error        // of the last commit; nil when none failed
	busy     chan struct{} // open while the content is sealed and sent; nil otherwise
	delayed  bool          // an empty file that waits for its moment (W5)
	base     sdk.Seq       // newest upload of the name when the change began (W11)
}

// isLeftover reports whether nobody has the file open, something in it is not
// recorded, and nobody was told so: an interrupted close, or pages of a mapping
// that came late. Needs File.mu.
func (f *File) isLeftover() bool {
	s := f.stage
	return f.opens == 0 && s != nil && s.dirty && !s.delayed && !f.scratch.Load() &&
		(s.failed == nil || s.failed.Class == ClassInterrupted)
}

// quiet waits until the file is not being sealed and returns its stage, or nil,
// with File.mu held. On error the lock is not held.
func (f *File) quiet(ctx context.Context) (*stage, error) {
	for {
		f.mu.Lock()
		if f.stage == nil || f.stage.busy == nil {
			return f.stage, nil
		}
		busy := f.stage.busy
		f.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin gives a new file its empty stage.
func (f *File) begin() *Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addStage(0)
}

// addStage makes an empty stage of size bytes. Needs File.mu.
func (f *File) addStage(size int64) *Error {
	buf, err := f.t.pool.Get(0)
	if err != nil {
		return &Error{Class: ClassNoMemory, Err: err}
	}
	f.stage = &stage{buf: buf, since: f.t.now(), dirty: true}
	if e := f.entry.Load(); e != nil {
		f.stage.base = e.Seq
	}
	f.markStaged(true)
	if err := f.resize(size); err != nil {
		f.dropStage()
		return err
	}
	return nil
}

func (f *File) markStaged(on bool) {
	f.staged.Store(on)
	f.t.stagedMu.Lock()
	defer f.t.stagedMu.Unlock()
	if on {
		f.t.staged[f] = struct{}{}
	} else {
		delete(f.t.staged, f)
	}
}

// dropStage wipes the stage. Needs File.mu.
func (f *File) dropStage() {
	s := f.stage
	if s == nil {
		return
	}
	s.buf.Release()
	f.t.staging.Add(-s.reserved)
	f.stage = nil
	f.markStaged(false)
}

// dropUseless wipes staged content when nobody has the file open that nobody can
// open any more, or that a refused write left unchanged. Needs File.mu.
func (f *File) dropUseless() {
	if f.opens > 0 || f.stage == nil || f.stage.busy != nil {
		return
	}
	f.t.mu.RLock()
	gone := f.unlinked
	f.t.mu.RUnlock()
	if gone || !f.stage.dirty {
		f.dropStage()
	}
}

// dropUnused is dropUseless for who does not hold File.mu.
func (f *File) dropUnused() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropUseless()
}

// discard wipes staged content, whoever has it open, once it is not being sent.
func (f *File) discard() {
	if s, err := f.quiet(context.Background()); err == nil {
		if s != nil {
			f.dropStage()
		}
		f.mu.Unlock()
	}
}

// length is that of the content. Needs File.mu and a stage or a lease, but for a file
// that was never written.
func (f *File) length() int64 {
	switch {
	case f.stage != nil:
		return f.stage.buf.Len()
	case f.lease != nil:
		return f.lease.Len()
	}
	return 0
}

// copyIn makes the stage from the committed content. Needs File.mu and a lease.
func (f *File) copyIn() *Error {
	if err := f.addStage(f.length()); err != nil {
		return err
	}
	f.stage.dirty = false
	if f.lease == nil {
		return nil
	}
	if _, err := f.lease.ReadAt(f.stage.buf.Bytes(), 0); err != nil {
		f.dropStage()
		return revoked()
	}
	return nil
}

// resize changes the staged length within the budget; what is refused leaves the
// content as it was (W12). Needs File.mu.
func (f *File) resize(size int64) *Error {
	s := f.stage
	need := max(size, s.reserved)
	if size > s.reserved {
		if total := f.t.staging.Add(need - s.reserved); total > f.t.cfg.StagingBytes {
			f.t.staging.Add(s.reserved - need)
			return &Error{Class: ClassNoMemory, Err: errText("files being written already hold " + byteText(total-need+s.reserved) +
				" of the " + byteText(f.t.cfg.StagingBytes) + " allowed"), Hint: "Close other files first, or mount with a larger --staging-size."}
		}
		s.reserved = need
	}
	if err := s.buf.Resize(size); err != nil {
		return &Error{Class: ClassNoMemory, Err: err}
	}
	f.setSize(size)
	return nil
}

// mayHold refuses a file of size bytes that this mount, or the service, would not take
// (W12).
func (c *Config) mayHold(size int64) *Error {
	limit, hint := c.MaxFileBytes, "Mount with a larger --max-file-size."
	if c.MaxUploadBytes <= limit {
		limit, hint = c.MaxUploadBytes, "Split it, for example with: split -b 1G. The operator of the service sets its limit."
	}
	if size <= limit {
		return nil
	}
	return &Error{Class: ClassTooBig, Err: errText("the file would be larger than " + byteText(limit)), Hint: hint}
}

func (f *File) writeAt(ctx context.Context, p []byte, off int64) error {
	s, err := f.quiet(ctx)
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.isLost() {
		return revoked()
	}
	if err := f.t.cfg.mayHold(max(off+int64(len(p)), f.length())); err != nil {
		return err
	}
	if s == nil {
		if err := f.copyIn(); err != nil {
			return err
		}
		s = f.stage
	}
	if end := off + int64(len(p)); end > s.buf.Len() {
		if err := f.resize(end); err != nil {
			return err
		}
	}
	if _, err := s.buf.WriteAt(p, off); err != nil {
		return &Error{Class: ClassNoMemory, Err: err}
	}
	f.touched(s)
	return nil
}

// touched marks the stage changed now. Needs File.mu.
func (f *File) touched(s *stage) {
	s.dirty, s.delayed = true, false
	f.changed()
}

// Truncate sets the length. To zero it needs no content; to anything else of an
// uploaded file it retrieves it first, which costs one claim. Without a handle (h
// is nil) the change is committed at once, unless somebody is writing to the file:
// closing it commits both.
func (f *File) Truncate(ctx context.Context, size int64, h *Handle) error {
	if f.show != nil {
		return f.failed("truncate", controlOnly())
	}
	if err := f.Changeable("truncate"); err != nil {
		return err
	}
	if f.old {
		return f.failed("truncate", oldVersion())
	}
	own := h
	if h == nil {
		own = f.newHandle(OpenFlags{Write: true})
		own.late = true
		defer own.Release()
	}
	if size != 0 {
		if err := own.loadLate(ctx); err != nil {
			return f.failed("truncate", err)
		}
	}
	f.mu.Lock()
	later := h != nil || f.opens > 1 && f.stage != nil && f.stage.dirty && !f.stage.delayed
	f.mu.Unlock()
	if err := f.setLength(ctx, size); err != nil {
		return f.failed("truncate", err)
	}
	if later {
		return nil
	}
	if err := f.commit(ctx, commitOnClose); err != nil {
		return f.failed("truncate", err)
	}
	return nil
}

func (f *File) setLength(ctx context.Context, size int64) error {
	s, err := f.quiet(ctx)
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	if err := f.t.cfg.mayHold(size); err != nil {
		return err
	}
	if s == nil && size == 0 {
		if err := f.addStage(0); err != nil {
			return err
		}
		f.setSize(0)
		f.touched(f.stage)
		return nil
	}
	if s == nil {
		if f.lease != nil && f.lease.Len() == size {
			return nil
		}
		if err := f.copyIn(); err != nil {
			return err
		}
	}
	if f.stage.buf.Len() == size {
		return nil
	}
	if err := f.resize(size); err != nil {
		return err
	}
	f.touched(f.stage)
	return nil
}

type commitWhen uint8

const (
	commitOnClose commitWhen = iota // an empty file may wait (W5)
	commitNow                       // fsync, rename, unmount
)

// commit records what is staged under the file's name. It returns nil when there
// is nothing to record: no stage, nothing new, a scratch name, a file without a
// name, or identical content. On failure the bytes stay staged and pending.
func (f *File) commit(ctx context.Context, when commitWhen) error {
	if f.scratch.Load() {
		return nil
	}
	if err := f.nameGate().enter(ctx); err != nil {
		return err
	}
	defer f.nameGate().leave()
	f.t.mu.RLock()
	group, raw, named := f.group, f.raw, !f.unlinked && !f.scratch.Load()
	f.t.mu.RUnlock()
	if !named {
		return nil
	}
	row, err := f.commitAs(ctx, when, group, raw)
	if row != nil {
		f.t.adopt(f, group, raw, row)
	}
	return err
}

// commitAs commits under a recorded name in a group and returns the row that
// holds the content now, or nil when there was nothing to record. Needs naming.
func (f *File) commitAs(ctx context.Context, when commitWhen, g *group, raw string) (*sdk.Entry, error) {
	s, err := f.quiet(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil || !s.dirty {
		f.mu.Unlock()
		return nil, nil
	}
	if s.buf.Len() == 0 && when == commitOnClose {
		f.delay(s)
		f.mu.Unlock()
		return nil, nil
	}
	if held := f.t.holding(s, g, raw); held != nil {
		f.settle(s, held)
		f.mu.Unlock()
		return held, nil
	}
	s.busy = make(chan struct{})
	f.mu.Unlock()

	receipt, err := f.upload(ctx, s, g, raw)

	f.mu.Lock()
	close(s.busy)
	s.busy = nil
	if err != nil {
		failed := wrapRemote("close", "", err)
		s.failed = failed
		f.mu.Unlock()
		if failed.Class == ClassAccess {
			return nil, f.t.failedInGroup(ctx, g, "close", f.Path(), err)
		}
		return nil, err
	}
	row := f.t.entryOf(g, raw, receipt)
	f.t.noteOwn(g, row, s.base)
	f.settle(s, row)
	f.mu.Unlock()
	f.t.dropIfLost(g, f.key(row))
	return row, nil
}

// holding returns the newest upload of the name when it holds exactly the staged
// bytes: saving them again would buy nothing (W3). Needs the file's mu.
func (t *Tree) holding(s *stage, g *group, raw string) *sdk.Entry {
	t.mu.RLock()
	var newest *sdk.Entry
	if v := g.names[raw]; v != nil {
		newest = v.newest()
	}
	t.mu.RUnlock()
	if newest == nil || newest.Size != s.buf.Len() || s.buf.Hash() != newest.Hash {
		return nil
	}
	return newest
}

// dropIfLost keeps content out of the cache that was sent while its group was
// taken away (M5).
func (t *Tree) dropIfLost(g *group, key cache.Key) {
	if t.isGone(g) {
		t.cache.Purge(func(k cache.Key) bool { return k == key })
	}
}

func (f *File) upload(ctx context.Context, s *stage, g *group, raw string) (sdk.Receipt, error) {
	f.t.counts.sending.Add(1)
	defer f.t.counts.sending.Add(-1)
	var receipt sdk.Receipt
	err := f.t.spend("upload", func() (fee sdk.Amount, err error) {
		receipt, err = f.t.remote.Upload(ctx, g.id, raw, s.buf)
		return receipt.Fee, err
	})
	if err == nil {
		f.t.counts.uploads.Add(1)
	}
	return receipt, err
}

// settle turns the stage into the committed content of e and keeps it cached
// (R3). Needs File.mu.
func (f *File) settle(s *stage, e *sdk.Entry) {
	old := f.lease
	lease := f.t.cache.Add(f.key(e), s.buf)
	f.t.staging.Add(-s.reserved)
	f.stage, f.lease = nil, lease
	f.setEntry(e)
	f.setSize(lease.Len())
	f.markStaged(false)
	if old != nil {
		old.Release()
	}
	if f.opens == 0 {
		f.lease = nil
		lease.Release()
	}
}

// entryOf makes the ledger's row for what was just recorded.
func (t *Tree) entryOf(g *group, raw string, r sdk.Receipt) *sdk.Entry {
	return &sdk.Entry{Group: g.id, Ref: r.Ref, Tx: r.Tx, Hash: r.Hash, Uploader: t.remote.Account(), Time: r.Time,
		Seq: r.Seq, ChangedSeq: r.Seq, Name: raw, Size: r.Size}
}

// adopt merges the row of a commit into the namespace: the file shows it, unless
// a newer upload of the name came from elsewhere meanwhile.
func (t *Tree) adopt(f *File, g *group, raw string, row *sdk.Entry) {
	t.mu.Lock()
	notices := t.record(f, g, raw, row)
	t.mu.Unlock()
	t.tell(notices)
}

// record is adopt for who holds Tree.mu.
func (t *Tree) record(f *File, g *group, raw string, row *sdk.Entry) []notice {
	touched := map[*versions]bool{g.version(raw): true}
	if known := g.byRef[row.Ref]; known != nil { // the poller was faster, or it is an old row
		f.entry.Store(known)
	} else {
		g.merge(row, touched)
	}
	if f.raw == raw && f.dir != nil && !f.scratch.Load() {
		v := g.version(raw)
		v.shown, v.hidden = f, ""
	}
	return t.placeMerged(g, touched)
}

// delayedUploads is how many empty files are uploaded at a time once their moment
// has come. A program may have made thousands at once.
const delayedUploads = 8

// delay uploads an empty file later, unless it is written to before (W5). Needs
// File.mu.
func (f *File) delay(s *stage) {
	if s.delayed {
		return
	}
	s.delayed = true
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
		still := f.stage == s && s.delayed && s.dirty && s.buf.Len() == 0
		s.delayed = false
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
	t.done.Go(func() { work(t.life) })
}

func (t *Tree) stagedFiles() []*File {
	t.stagedMu.Lock()
	defer t.stagedMu.Unlock()
	files := make([]*File, 0, len(t.staged))
	for f := range t.staged {
		files = append(files, f)
	}
	return files
}

var _ cache.Buffer = (*sdk.Buffer)(nil)

// isDelayed reports whether the file is an empty one that was closed and waits to
// be recorded (W5).
func (f *File) isDelayed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage != nil && f.stage.delayed
}
