package tree

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
)

// body is the committed and the staged content of a file.
type body struct {
	now   content.Machine // changed by [File.move] only
	known content.Known   // of committed content

	// mu guards the fields below. It is held while bytes are copied, never while the
	// service is asked: then the state is sending, until stage.sent is closed.
	mu      sync.Mutex
	opens   int               // handles
	writers int               // of them, those that may write: their close saves
	held    *content.Recorded // committed content, while handles are open
	stage   *stage            // nil while committed
	half    *half             // why the stage is no whole save; nil = it is
}

// stage is the copy of a file that programs change. Its fields are guarded by
// body.mu; while the state is sending, the bytes of content that is whole belong to the
// upload.
type stage struct {
	*content.Stage
	sending *save.Sender // of content in blocks; nil until something is sent
	since   time.Time
	failed  *Error        // of the last attempt to record it; nil when none failed
	sent    chan struct{} // closed when sending ends
	base    sdk.Seq       // the upload that was changed (W11); 0 = the file was made anew
	aside   time.Time     // of the name that it has since others overtook it; zero = they did not
	appending
}

// move takes a step. Needs body.mu, except for a file that no other goroutine has yet.
func (f *File) move(to content.State) {
	if err := f.now.Move(to); err != nil {
		f.t.mistake(err.Error())
	}
	if to == content.Committed {
		f.t.unrecorded.staged.remove(f)
	} else {
		f.t.unrecorded.staged.add(f)
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

// isLeftover reports whether a file that no writer has open has content that is not recorded, and
// no program got an error for that: a close was interrupted, or pages of a mapping came
// late. Needs body.mu.
func (f *File) isLeftover() bool {
	return f.writers == 0 && f.half == nil && (f.now.Is(content.Changed) || f.now.Is(content.Sending)) &&
		f.isKind(fileReal) && (f.stage.failed == nil || f.stage.failed.Class == ClassInterrupted)
}

// quiet waits until the file is not being sealed and returns its stage, or nil,
// with body.mu held. On error the lock is not held.
func (f *File) quiet(ctx context.Context) (*stage, error) {
	for {
		f.mu.Lock()
		if !f.now.Is(content.Sending) {
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

// addStage makes an empty stage. Needs body.mu, except for a file that no other goroutine
// has yet.
func (f *File) addStage(becomes content.State) error {
	e := f.entry.Load()
	s, err := f.t.contents.NewStage(f.IsLink(), e != nil && e.Size != 0)
	if err == nil {
		f.putStage(s, becomes)
	}
	return err
}

// putStage makes s the stage. Needs body.mu, except for a file that no other goroutine has
// yet.
func (f *File) putStage(s *content.Stage, becomes content.State) {
	f.stage = &stage{Stage: s, since: f.t.now(), appending: appending{at: s.Len()}}
	if e := f.entry.Load(); e != nil {
		f.stage.base = e.Seq
	}
	f.move(becomes)
}

// dropStage wipes the stage. Needs body.mu.
func (f *File) dropStage() {
	s := f.stage
	if s == nil {
		return
	}
	f.endStage(s)
	s.Release()
	f.stage, f.half = nil, nil
	f.move(content.Committed)
}

// dropUseless frees the staged copy of a closed file that is unlinked or unchanged.
// Needs body.mu.
func (f *File) dropUseless() {
	if f.opens > 0 || f.now.Is(content.Committed) || f.now.Is(content.Sending) {
		return
	}
	if f.isKind(fileRemoved) || f.now.Is(content.Copied) {
		f.dropStage()
	}
}

// dropUnused is dropUseless for a caller that does not hold body.mu.
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

// length returns the length of the content. Needs body.mu and a stage or recorded content, except
// for a file that was never written.
func (f *File) length() int64 {
	switch {
	case f.stage != nil:
		return f.stage.Len()
	case f.held != nil:
		return f.held.Layout().Size
	}
	return 0
}

// hasContent reports whether the content can be read, or was never recorded: a stage has it, or it is held.
// A handle that loads late, and content that was given up, leave a file without both. Needs body.mu.
func (f *File) hasContent() bool {
	return f.stage != nil || f.held != nil || f.entry.Load() == nil
}

// copyIn makes the stage from the committed content. Needs body.mu and hasContent.
func (f *File) copyIn() error {
	if f.held == nil {
		return removedUnsaved()
	}
	s, err := f.t.contents.StageOn(f.held)
	if err == nil {
		f.putStage(s, content.Copied)
	}
	return err
}

const splitIt = "Split it, for example with: split -b 1G. The operator of the service sets its limit."

// mayHold refuses a file of size bytes that this mount, or the service, would not take
// (W12).
func (f *File) mayHold(size int64) *Error {
	c := &f.t.cfg
	limit, hint := c.MaxFileBytes, "Mount with a larger --max-file-size."
	if f.groupNow().cuts() && size > c.WholeBytes {
		if limit = c.MaxBlocksBytes; limit != c.MaxFileBytes {
			hint = splitIt
		}
	} else if c.MaxUploadBytes <= limit {
		limit, hint = c.MaxUploadBytes, splitIt
	}
	if size <= limit {
		return nil
	}
	return &Error{Class: ClassTooBig, Hint: hint,
		Err: errors.New("the file would be larger than " + report.ByteText(limit))}
}

// cuts reports whether a large file of a group is saved in blocks.
func (g *group) cuts() bool {
	t := g.dir.t
	return t.cfg.WholeBytes > 0 && t.now().UnixNano() >= g.whole.Load()
}

// ready waits until the file is not being sealed, loads its content if nothing has it, and returns the
// stage, or nil, with body.mu held. On error the lock is not held.
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
// from off on are written, or with n = 0 before the length becomes off; body.mu is held. On
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
			return nil, content.ErrTaken
		}
		if s == nil {
			if err := f.copyIn(); err != nil {
				f.mu.Unlock()
				return nil, err
			}
			s = f.stage
		}
		missing := s.Needs(off, n, round == 0)
		if len(missing) == 0 {
			return s, nil
		}
		if round == mostRounds { // one takes the memory of the other
			f.mu.Unlock()
			return nil, refused(&staging.Full{Held: f.t.contents.Staging.Memory(), Limit: f.t.cfg.StagingBytes})
		}
		under := s.Under().Again()
		f.mu.Unlock()
		if under == nil {
			return nil, content.ErrTaken
		}
		err = s.Fetch(ctx, under, missing)
		under.Release()
		if err != nil {
			return nil, err
		}
	}
}

// mostRounds is how often blocks that a change needs are fetched.
const mostRounds = 20

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
	if err := s.WriteAt(p, off); err != nil {
		return err
	}
	f.setSize(s.Len())
	h.wrote(off, end)
	f.touched()
	f.sendRested(s)
	return nil
}

// touched notes that a program has changed the stage. Needs body.mu.
func (f *File) touched() {
	if !f.now.Is(content.Changed) {
		f.move(content.Changed)
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
	later := h != nil || f.writers > 1 && (f.now.Is(content.Changed) || f.now.Is(content.Sending))
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
		if err := f.addStage(content.Changed); err != nil {
			return err
		}
		f.setSize(0)
		h.cut(0)
		f.touched()
		return nil
	}
	same := s == nil && f.held.IsReadable() && f.length() == size
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
	if err := s.Resize(size); err != nil {
		return err
	}
	f.setSize(size)
	h.cut(size)
	f.touched()
	return nil
}
