package tree

import (
	"errors"

	"github.com/svcfs/svcfs/fs/tree/content"
)

// half is the reason why written content is not a whole save, and not recorded (W15). By
// body.mu.
type half struct {
	err      *Error
	killed   bool  // the program that wrote it was; else a write was refused
	mended   bool  // the refused bytes were written later, or cut off
	open     int   // handles that were refused a write, and are open
	from, to int64 // bytes that were refused
}

// note remembers that a write of bytes from off to end failed. An interrupted program
// writes again, and a file that is gone takes no save.
func (h *Handle) note(failed *Error, off, end int64) {
	switch failed.Class {
	case ClassInterrupted, ClassRevoked, ClassReadOnly:
		return
	}
	f := h.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.half == nil || h.half.mended {
		h.half = &half{err: failed, from: off, to: end}
		if f.half != nil && !f.half.killed {
			h.half = f.half
		}
		h.half.open++
	}
	h.half.from, h.half.to = min(h.half.from, off), max(h.half.to, end)
	if f.now.IsStaged() {
		f.half = h.half
	}
}

// wrote notes that bytes from off to end were written through h. A program that writes
// the refused bytes makes the save whole, and so does any change after the program closed it.
// Needs body.mu.
func (h *Handle) wrote(off, end int64) {
	f := h.change()
	h.noteWrite(off, end)
	if f.half == nil {
		return
	}
	if off <= f.half.from {
		f.half.from = max(f.half.from, end)
	}
	if f.half.open == 0 || f.half.from >= f.half.to {
		f.mend()
	}
}

// cut notes that the length was set through h. A program that cuts the refused bytes off
// makes the save whole. Needs body.mu.
func (h *Handle) cut(size int64) {
	h.noteWrite(-1, size)
	if f := h.change(); f.half != nil && (f.half.open == 0 || size <= f.half.from) {
		f.mend()
	}
}

// change notes a write through h: from now on its refused writes concern every save of the
// file. Needs body.mu.
func (h *Handle) change() *File {
	h.changed = true
	if h.half != nil && !h.half.mended {
		h.f.half = h.half
	}
	return h.f
}

// mend needs body.mu.
func (f *File) mend() {
	f.half.mended = true
	f.half = nil
}

// endHalf ends what h has to do with writes that were refused. Needs body.mu.
func (h *Handle) endHalf() {
	if h.half != nil && !h.half.mended {
		h.half.open--
	}
	h.half = nil
}

// refusal returns why a save through h is none: a write through it was refused, and
// nothing made up for it.
func (h *Handle) refusal() error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.half == nil || h.half.mended {
		return nil
	}
	return h.half.err
}

// Unsaved reports whether something was written through h since it was last closed or
// synced.
func (h *Handle) Unsaved() bool {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	return h.changed && h.f.now.Is(content.Changed)
}

// Abandon is Flush for a program that was killed: its content may be half a save, and is not
// recorded before a user or a program asks for that.
func (h *Handle) Abandon() {
	f := h.f
	f.mu.Lock()
	if !h.changed || !f.now.Is(content.Changed) || !f.isKind(fileReal) || f.half != nil {
		f.mu.Unlock()
		return
	}
	killed := &Error{Class: ClassInterrupted, Err: errors.New("the program that wrote it was killed before it closed " +
		"the file"),
		Hint: "'sync FILE' sends it as it is; writing it again replaces it."}
	f.half = &half{err: killed, killed: true}
	f.mu.Unlock()
	_ = f.failed("close", killed)
}

// heldBack returns why the stage may not be recorded now. Needs body.mu and a stage.
func (f *File) heldBack(when commitWhen) error {
	switch h := f.half; {
	case h == nil:
		return nil
	case !h.lets(when, f.stage):
		return h.err
	case when != commitLast:
		f.half = nil
	}
	return nil
}

// lets reports whether content that a killed program left may be recorded now: when
// somebody asks for it, and at unmount when it replaces nothing.
func (h *half) lets(when commitWhen, s *stage) bool {
	switch when {
	case commitNow, commitSynced, commitAhead:
		return h.killed
	case commitLast:
		return h.killed && !s.Replaces()
	}
	return false
}
