package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree/staging"
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
		return []step{{stateChanged, "written, or to be recorded again"},
			{stateCommitted, "closed without a write, or given up"}}
	case stateChanged:
		return []step{{stateSending, "closed, synced, renamed or linked"},
			{stateWaiting, "closed while it is empty, or made as a link"},
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
	lease *cache.Lease // committed content, while handles are open; of a file of format version 2 it is remote
	stage *stage       // nil while committed
	half  *half        // why the stage is no whole save; nil = it is

	remote *blockSource          // of a file of format version 2, with lease; else nil
	shape  atomic.Pointer[shape] // of a file of format version 2 that was opened; else nil
}

// stage is the copy of a file that programs change. Its fields are guarded by
// content.mu; while the state is sending, the bytes of content that is whole belong to the
// upload.
type stage struct {
	*staging.Content
	under    *committedContent // that the content in blocks stands on; nil = none
	sending  *blockSend        // of content in blocks; nil until something is sent
	since    time.Time
	failed   *Error        // of the last attempt to record it; nil when none failed
	sent     chan struct{} // closed when sending ends
	base     sdk.Seq       // the upload that was changed (W11); 0 = the file was made anew
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
		panic(mistaken(text))
	}
}

// mistaken is what [Tree.mistake] panics with.
type mistaken string

// isLeftover reports whether a file that is closed has content that is not recorded, and
// no program got an error for that: a close was interrupted, or pages of a mapping came
// late. Needs content.mu.
func (f *File) isLeftover() bool {
	return f.opens == 0 && f.half == nil && (f.is(stateChanged) || f.is(stateSending)) && f.isKind(fileReal) &&
		(f.stage.failed == nil || f.stage.failed.Class == ClassInterrupted)
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

// addStage makes an empty stage. Needs content.mu, except for a file that no other goroutine
// has yet.
func (f *File) addStage(becomes state) *Error {
	make := f.t.store.New
	if f.IsLink() || f.t.blocks == nil {
		make = f.t.store.NewWhole
	}
	c, err := make()
	if err != nil {
		return &Error{Class: ClassNoMemory, Err: err}
	}
	f.putStage(&stage{Content: c}, becomes)
	if e := f.entry.Load(); e != nil {
		f.stage.replaces = e.Size != 0
	}
	return nil
}

// putStage makes s the stage. Needs content.mu, except for a file that no other goroutine has
// yet.
func (f *File) putStage(s *stage, becomes state) {
	s.since = f.t.now()
	if e := f.entry.Load(); e != nil {
		s.base = e.Seq
	}
	f.stage = s
	f.move(becomes)
}

// dropStage wipes the stage. Needs content.mu.
func (f *File) dropStage() {
	s := f.stage
	if s == nil {
		return
	}
	f.endStage(s)
	s.Release()
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
		return f.stage.Len()
	case f.remote != nil:
		return f.remote.Layout().Size
	case f.lease != nil:
		return f.lease.Len()
	}
	return 0
}

// hasContent reports whether the content can be read, or was never recorded: a stage or a lease has it.
// A handle that loads late, and content that was given up, leave a file without both. Needs content.mu.
func (f *File) hasContent() bool {
	return f.stage != nil || f.lease != nil || f.entry.Load() == nil
}

// copyIn makes the stage from the committed content: of format version 2 it fetches nothing,
// else it copies all. Needs content.mu and hasContent.
func (f *File) copyIn() *Error {
	if f.remote != nil {
		under := f.holdCommitted()
		if under == nil {
			return revoked()
		}
		layout, _ := under.layout()
		f.putStage(&stage{Content: f.t.store.NewOn(layout), under: under, kept: layout.Size}, stateCopied)
		return nil
	}
	if f.lease == nil {
		return removedUnsaved()
	}
	size := f.length()
	if err := f.addStage(stateCopied); err != nil {
		return err
	}
	f.stage.kept, f.stage.replaces = size, false
	if err := f.copyLease(size); err != nil {
		f.dropStage()
		return err
	}
	return nil
}

// copyStep is how much is copied at a time, in bytes.
const copyStep = 1 << 20

// copyLease copies committed content into the empty stage. Needs content.mu.
func (f *File) copyLease(size int64) *Error {
	if err := f.t.refused(f.stage.Resize(size)); err != nil {
		return err
	}
	if whole := f.stage.Whole(); whole != nil {
		if _, err := f.lease.ReadAt(whole.Bytes(), 0); err != nil {
			return revoked()
		}
		return nil
	}
	step, err := f.t.pool.Get(copyStep)
	if err != nil {
		return &Error{Class: ClassNoMemory, Err: err}
	}
	defer step.Release()
	for off := int64(0); off < size; off += copyStep {
		n, err := f.lease.ReadAt(step.Bytes(), off)
		if err != nil {
			return revoked()
		}
		if err := f.t.refused(f.stage.WriteAt(step.Bytes()[:n], off)); err != nil {
			return err
		}
	}
	return nil
}

// refused is the error of a change for which there is no room. The content is as it was (W12).
func (t *Tree) refused(err error) *Error {
	var full *staging.Full
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &full):
		return &Error{Class: ClassNoMemory, Err: err}
	case full.Err != nil:
		return &Error{Class: ClassNoSpace,
			Err:  fmt.Errorf("the disk takes no more of the files being written: %w", full.Err),
			Hint: "Make room on the disk of the cache folder, or close other files first."}
	}
	held := errors.New("files being written already hold " + byteText(full.Held) + " of the " + byteText(full.Limit) +
		" allowed")
	if full.Disk {
		return &Error{Class: ClassNoSpace, Err: fmt.Errorf("%w on this machine's disk", held),
			Hint: "Close other files first, remove unfinished ones that .svcfs/pending lists, or mount with a larger " +
				"--spool-size."}
	}
	return &Error{Class: ClassNoMemory, Err: held,
		Hint: "Close other files first, remove unfinished ones that .svcfs/pending lists, or mount with a larger " +
			"--staging-size."}
}

const splitIt = "Split it, for example with: split -b 1G. The operator of the service sets its limit."

// mayHold refuses a file of size bytes that this mount, or the service, would not take
// (W12).
func (f *File) mayHold(size int64) *Error {
	c := &f.t.cfg
	limit, hint := c.MaxFileBytes, "Mount with a larger --max-file-size."
	if f.t.cuts(f.groupNow()) && size > c.WholeBytes {
		if limit = c.MaxBlocksBytes; limit != c.MaxFileBytes {
			hint = splitIt
		}
	} else if c.MaxUploadBytes <= limit {
		limit, hint = c.MaxUploadBytes, splitIt
	}
	if size <= limit {
		return nil
	}
	return &Error{Class: ClassTooBig, Err: errors.New("the file would be larger than " + byteText(limit)), Hint: hint}
}

// cuts reports whether a large file of a group is saved in blocks.
func (t *Tree) cuts(g *group) bool {
	return t.blocks != nil && t.cfg.WholeBytes > 0 && !g.whole.Load()
}

// ready waits until the file is not being sealed, loads its content if nothing has it, and returns the
// stage, or nil, with content.mu held. On error the lock is not held.
func (h *Handle) ready(ctx context.Context) (*stage, error) {
	for {
		s, err := h.f.quiet(ctx)
		if err != nil || h.f.hasContent() {
			return s, err
		}
		h.f.mu.Unlock()
		if err := h.f.load(ctx, h); err != nil {
			return nil, err
		}
	}
}

// stageFor returns the stage, made if there is none, with all that is needed before bytes
// from off on are written, or with n = 0 before the length becomes off; content.mu is held. On
// error the lock is not held.
func (h *Handle) stageFor(ctx context.Context, off, n int64) (*stage, error) {
	f := h.f
	for round := 0; ; round++ {
		s, err := h.ready(ctx)
		if err != nil {
			return nil, err
		}
		if f.isLost() {
			f.mu.Unlock()
			return nil, revoked()
		}
		if s == nil {
			if err := f.copyIn(); err != nil {
				f.mu.Unlock()
				return nil, err
			}
			s = f.stage
		}
		missing := s.Missing(off, n)
		if round == 0 {
			missing = f.t.withReplaced(s, off, n, missing)
		}
		if len(missing) > 0 && round == mostRounds { // one takes the memory of the other
			f.mu.Unlock()
			return nil, f.t.refused(&staging.Full{Held: f.t.store.Memory(), Limit: f.t.cfg.StagingBytes})
		}
		if len(missing) == 0 {
			return s, nil
		}
		under := s.under.again()
		f.mu.Unlock()
		if under == nil {
			return nil, revoked()
		}
		err = f.t.fetchInto(ctx, s.Content, under, missing)
		under.release()
		if err != nil {
			return nil, err
		}
	}
}

// mostRounds is how often blocks that a change needs are fetched.
const mostRounds = 20

// withReplaced adds to the blocks that a write needs those that it replaces as a whole, where they are in memory and
// need not be fetched: they tell whether the bytes are those that were recorded (W3).
func (t *Tree) withReplaced(s *stage, off, n int64, missing []int64) []int64 {
	if s.under == nil || s.under.source == nil {
		return missing
	}
	for _, i := range s.Replaced(off, n) {
		if !slices.Contains(missing, i) && t.cache.Contains(s.under.source.key.BlockOf(i, s.Layout().BlockBytes)) {
			missing = append(missing, i)
		}
	}
	return missing
}

// fetchInto fetches blocks that a change needs.
func (t *Tree) fetchInto(ctx context.Context, c *staging.Content, under *committedContent, blocks []int64) error {
	layout, _ := under.layout()
	buf, err := t.pool.Get(layout.BlockBytes)
	if err != nil {
		return &Error{Class: ClassNoMemory, Err: err}
	}
	defer buf.Release()
	for _, i := range blocks {
		plain := buf.Bytes()[:layout.Plain(i)]
		if n, err := under.readAt(ctx, plain, i*layout.BlockBytes); err != nil || n < len(plain) {
			return cmp.Or[error](err, revoked())
		}
		if err := t.refused(c.Fetched(i, plain)); err != nil {
			return err
		}
	}
	return nil
}

// again holds the content once more, nil if it was taken away, or c is nil.
func (c *committedContent) again() *committedContent {
	if c == nil {
		return nil
	}
	lease := c.lease.Again()
	if lease == nil {
		return nil
	}
	return &committedContent{lease, c.source}
}

func (h *Handle) writeAt(ctx context.Context, p []byte, off int64) error {
	f := h.f
	end := off + int64(len(p))
	f.mu.Lock()
	size := max(end, f.length())
	f.mu.Unlock()
	if err := f.mayHold(size); err != nil {
		return err
	}
	s, err := h.stageFor(ctx, off, int64(len(p)))
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	if err := f.t.refused(s.WriteAt(p, off)); err != nil {
		return err
	}
	f.setSize(s.Len())
	s.replaces = s.replaces || off < s.kept
	h.wrote(off, end)
	f.touched()
	f.sendRested(s)
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
	if err := f.mayHold(size); err != nil {
		return err
	}
	s, err := f.quiet(ctx)
	if err != nil {
		return err
	}
	if s == nil && size == 0 {
		defer f.mu.Unlock()
		if err := f.addStage(stateChanged); err != nil {
			return err
		}
		f.setSize(0)
		h.cut(0)
		f.touched()
		return nil
	}
	same := s == nil && f.lease != nil && !isPurged(f.lease) && f.length() == size
	f.mu.Unlock()
	if same {
		return nil
	}
	if s, err = h.stageFor(ctx, size, 0); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if s.Len() == size {
		h.cut(size)
		return nil
	}
	if err := f.t.refused(s.Resize(size)); err != nil {
		return err
	}
	f.setSize(size)
	h.cut(size)
	s.replaces = s.replaces || size < s.kept
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
