package tree

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// state is the state of a file's content. Recorded content never changes: programs
// change a copy in memory, the stage, until the copy is recorded in turn. There is a stage
// in every state but committed. See [state.steps] for the ways from one to another.
type state uint32

const (
	stateCommitted state = iota // as recorded, or nothing yet
	stateCopied                 // the stage equals the committed content
	stateChanged                // the stage holds something that the ledger has not recorded
	stateWaiting                // changed: an empty file that was closed, or a link, until its moment comes (W5)
	stateSending                // changed: the stage is being sealed and sent, and belongs to the upload
)

// step is a way from one state to another, and when it is taken.
type step struct {
	to   state
	when string
}

// steps are all ways out of a state; [File.move] takes no other.
func (s state) steps() []step {
	switch s {
	case stateCommitted:
		return []step{{stateCopied, "a program is about to write"}, {stateChanged, "created, or truncated to nothing"}}
	case stateCopied:
		return []step{{stateChanged, "written, or to be recorded again"}, {stateCommitted, "closed without a write, or given up"}}
	case stateChanged:
		return []step{{stateSending, "closed, synced, renamed or linked"}, {stateWaiting, "closed while it is empty, or made as a link"},
			{stateCommitted, "the ledger has the same bytes already, or nobody can reach them any more"}}
	case stateWaiting:
		return []step{{stateChanged, "written, or its moment has come"}, {stateSending, "synced, renamed or linked"},
			{stateCommitted, "the ledger has the same bytes already, or nobody can reach them any more"}}
	case stateSending:
		return []step{{stateCommitted, "recorded"}, {stateChanged, "failed"}}
	}
	return nil
}

func (s state) String() string {
	return [...]string{"committed", "copied", "changed", "waiting", "sending"}[s]
}

// leadsTo reports whether there is a step from s to another state.
func (s state) leadsTo(to state) bool {
	for _, step := range s.steps() {
		if step.to == to {
			return true
		}
	}
	return false
}

// content is the committed and the staged content of a file.
type content struct {
	now atomic.Uint32 // the state; changed by [File.move] only

	// mu guards the fields below. It is held while bytes are copied, never while the
	// service is asked: then the state is sending, until stage.sent is closed.
	mu    sync.Mutex
	opens int          // handles
	lease *cache.Lease // committed content, while handles are open
	stage *stage       // nil while committed
	half  *half        // why the stage is no whole save; nil = it is
}

// stage is the copy of a file that programs change, in memory. Its fields are guarded by
// content.mu; while the state is sending, the bytes belong to the upload.
type stage struct {
	buf      *mem.Buffer
	reserved int64 // bytes of the staging budget
	since    time.Time
	failed   *Error        // of the last attempt to record it; nil when none failed
	sent     chan struct{} // closed when sending ends
	base     sdk.Seq       // newest upload of the name when the change began (W11)
	kept     int64         // length of the committed content
	replaces bool          // committed content was overwritten, or cut off
}

// is reports the state. Without content.mu the answer may be out of date at once.
func (c *content) is(s state) bool { return state(c.now.Load()) == s }

// isStaged reports whether there is a stage, which may differ from the committed content.
func (c *content) isStaged() bool { return !c.is(stateCommitted) }

// move takes a step. Needs content.mu, except for a file that no other goroutine has yet.
func (f *File) move(to state) {
	from := state(f.now.Swap(uint32(to)))
	if !from.leadsTo(to) {
		f.t.mistake("content that is " + from.String() + " cannot become " + to.String())
	}
	if to == stateCommitted {
		f.t.staged.Delete(f)
	} else {
		f.t.staged.Store(f, nil)
	}
}

// mistake reports an error of this program. With the race detector it panics, so that
// tests fail.
func (t *Tree) mistake(text string) {
	t.log.Error("please report this mistake of the program", "what", text)
	if raceEnabled {
		panic(text)
	}
}

// isLeftover reports whether a file that is closed has content that is not recorded, and
// no program got an error for that: a close was interrupted, or pages of a mapping came
// late. Needs content.mu.
func (f *File) isLeftover() bool {
	return f.opens == 0 && f.half == nil && (f.is(stateChanged) || f.is(stateSending)) && f.isKind(fileReal) && (f.stage.failed == nil || f.stage.failed.Class == ClassInterrupted)
}

// quiet waits until the file is not being sealed and returns its stage, or nil,
// with content.mu held. On error the lock is not held.
func (f *File) quiet(ctx context.Context) (*stage, error) {
	for {
		f.mu.Lock()
		if !f.is(stateSending) {
			return f.stage, nil
		}
		sent := f.stage.sent
		f.mu.Unlock()
		select {
		case <-sent:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// addStage makes a stage of size zero bytes, of which committed content may then take the
// place. Needs content.mu, except for a file that
// no other goroutine has yet.
func (f *File) addStage(size int64, becomes state) *Error {
	buf, err := f.t.pool.Get(0)
	if err != nil {
		return &Error{Class: ClassNoMemory, Err: err}
	}
	f.stage = &stage{buf: buf, since: f.t.now()}
	if e := f.entry.Load(); e != nil {
		f.stage.base = e.Seq
		f.stage.kept, f.stage.replaces = size, e.Size != 0 && size == 0
	}
	f.move(becomes)
	if err := f.resize(size); err != nil {
		f.dropStage()
		return err
	}
	return nil
}

// dropStage wipes the stage. Needs content.mu.
func (f *File) dropStage() {
	s := f.stage
	if s == nil {
		return
	}
	s.buf.Release()
	f.t.staging.Add(-s.reserved)
	f.stage, f.half = nil, nil
	f.move(stateCommitted)
}

// dropUseless frees the staged copy of a closed file that is unlinked or unchanged.
// Needs content.mu.
func (f *File) dropUseless() {
	if f.opens > 0 || f.is(stateCommitted) || f.is(stateSending) {
		return
	}
	if f.isKind(fileRemoved) || f.is(stateCopied) {
		f.dropStage()
	}
}

// dropUnused is dropUseless for a caller that does not hold content.mu.
func (f *File) dropUnused() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropUseless()
}

// discard wipes staged content, also of a file that is open, once it is not being sent.
func (f *File) discard() {
	if s, err := f.quiet(context.Background()); err == nil {
		if s != nil {
			f.dropStage()
		}
		f.mu.Unlock()
	}
}

// length returns the length of the content. Needs content.mu and a stage or a lease, except
// for a file that was never written.
func (f *File) length() int64 {
	switch {
	case f.stage != nil:
		return f.stage.buf.Len()
	case f.lease != nil:
		return f.lease.Len()
	}
	return 0
}

// copyIn makes the stage from the committed content. Needs content.mu and a lease.
func (f *File) copyIn() *Error {
	if err := f.addStage(f.length(), stateCopied); err != nil {
		return err
	}
	if f.lease == nil {
		return nil
	}
	if _, err := f.lease.ReadAt(f.stage.buf.Bytes(), 0); err != nil {
		f.dropStage()
		return revoked()
	}
	return nil
}

// resize changes the staged length within the budget. A refused change leaves the
// content as it was (W12). Needs content.mu.
func (f *File) resize(size int64) *Error {
	s := f.stage
	need := max(size, s.reserved)
	if size > s.reserved {
		if total := f.t.staging.Add(need - s.reserved); total > f.t.cfg.StagingBytes {
			f.t.staging.Add(s.reserved - need)
			return &Error{Class: ClassNoMemory, Err: errors.New("files being written already hold " + byteText(total-need+s.reserved) +
				" of the " + byteText(f.t.cfg.StagingBytes) + " allowed"), Hint: "Close other files first, remove unfinished ones that .svcfs/pending lists, or mount with a larger --staging-size."}
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
	return &Error{Class: ClassTooBig, Err: errors.New("the file would be larger than " + byteText(limit)), Hint: hint}
}

func (h *Handle) writeAt(ctx context.Context, p []byte, off int64) error {
	f := h.f
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
	s.replaces = s.replaces || off < s.kept
	h.wrote(off, off+int64(len(p)))
	f.touched()
	return nil
}

// touched notes that a program has changed the stage. Needs content.mu.
func (f *File) touched() {
	if !f.is(stateChanged) {
		f.move(stateChanged)
	}
	f.setChanged(f.t.now())
}

// Truncate sets the length. To zero it needs no content; to anything else of an
// uploaded file it retrieves it first, which costs one claim. Without a handle (h
// is nil) the change is saved at once, unless a program is writing to the file: its close
// saves both changes.
func (f *File) Truncate(ctx context.Context, size int64, h *Handle) error {
	if f.show != nil {
		return f.failed("truncate", controlOnly())
	}
	if err := f.Changeable("truncate"); err != nil {
		return err
	}
	if f.isKind(fileVersion) {
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
	later := h != nil || f.opens > 1 && (f.is(stateChanged) || f.is(stateSending))
	f.mu.Unlock()
	if err := own.setLength(ctx, size); err != nil {
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

func (h *Handle) setLength(ctx context.Context, size int64) error {
	f := h.f
	s, err := f.quiet(ctx)
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	if err := f.t.cfg.mayHold(size); err != nil {
		return err
	}
	if s == nil && size == 0 {
		if err := f.addStage(0, stateChanged); err != nil {
			return err
		}
		f.setSize(0)
		h.cut(0)
		f.touched()
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
		h.cut(size)
		return nil
	}
	if err := f.resize(size); err != nil {
		return err
	}
	h.cut(size)
	f.stage.replaces = f.stage.replaces || size < f.stage.kept
	f.touched()
	return nil
}

func (t *Tree) stagedFiles() []*File {
	var files []*File
	for f := range t.staged.Range {
		files = append(files, f.(*File))
	}
	return files
}

var _ cache.Buffer = (*mem.Buffer)(nil)
