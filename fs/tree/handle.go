package tree

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/sdk/blocks"
)

// Handle is an open file.
type Handle struct {
	f        *File
	group    *group // counts it, also once a rename took the file to another
	flags    OpenFlags
	late     bool   // the content is loaded by the first write, or read
	peeks    bool   // of a program that may want no more than to know the type
	control  []byte // content of a control file
	changed  bool   // something was written since it was closed or synced; by body.mu
	half     *half  // of writes through it that were refused; by body.mu
	released atomic.Bool
	reader   blocks.Reader // of a file of format version 2
}

func (f *File) newHandle(flags OpenFlags) *Handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handleIn(f.groupNow(), flags)
}

// handleIn opens the file, which is in g. Needs body.mu, except for a file that no other goroutine
// has yet.
func (f *File) handleIn(g *group, flags OpenFlags) *Handle {
	f.opens++
	if flags.Write {
		f.writers++
	}
	f.t.counts.open.Add(1)
	g.list.Open.Add(1)
	return &Handle{f: f, group: g, flags: flags}
}

// File returns the file that is open.
func (h *Handle) File() *File { return h.f }

// IsDirect reports whether the kernel must ask for every read: of a control file, and where
// the program may want only the first bytes. Else the kernel may keep pages, because content
// of an inode changes only through the kernel itself.
func (h *Handle) IsDirect() bool { return h.f.show != nil || h.peeks }

// ReadAt fills p from off; n < len(p) only at the end of the file, with err nil.
// It reads memory; it waits only while the file is being sealed and sent.
func (h *Handle) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	v, err := h.View(ctx, p, off)
	if err != nil {
		return 0, err
	}
	defer v.Done()
	return copy(p, v.Bytes), nil
}

// readsLate reports whether the first read retrieves the content.
func (h *Handle) readsLate() bool { return h.late && !h.peeks && !h.flags.Write }

// View returns the bytes that ReadAt would read: of committed content those in the cache,
// else a copy in p. The caller must call Done soon.
func (h *Handle) View(ctx context.Context, p []byte, off int64) (cache.View, error) {
	if h.f.show != nil {
		if off >= int64(len(h.control)) {
			return cache.View{}, nil
		}
		return cache.View{Bytes: p[:copy(p, h.control[off:])]}, nil
	}
	if h.peeks {
		if err := h.loadPeeked(ctx, off, len(p)); err != nil {
			return cache.View{}, h.f.failed("read", err)
		}
	}
	if h.readsLate() {
		if err := h.loadLate(ctx); err != nil {
			return cache.View{}, h.f.failed("read", err)
		}
	}
	v, err := h.view(ctx, p, off)
	for errors.Is(err, content.ErrEnded) {
		v, err = h.view(ctx, p, off)
	}
	if err != nil {
		return cache.View{}, h.f.failed("read", err)
	}
	return v, nil
}

func (h *Handle) view(ctx context.Context, p []byte, off int64) (cache.View, error) {
	f, r := h.f, &h.reader
	if v, done, err := f.viewStagedBlocks(ctx, r, p, off); done {
		return v, err
	}
	s, err := h.ready(ctx)
	if err != nil {
		return cache.View{}, err
	}
	if f.isLost() {
		f.mu.Unlock()
		return cache.View{}, content.ErrTaken
	}
	if s != nil {
		defer f.mu.Unlock()
		if s.Whole() == nil {
			return cache.View{}, content.ErrEnded // it was cut into blocks, or is another stage, by now
		}
		n, _, err := s.ReadAt(p, off)
		return cache.View{Bytes: p[:n]}, err
	}
	recorded := f.held
	f.mu.Unlock()
	if recorded == nil {
		return cache.View{}, nil // removed before it was saved
	}
	return recorded.View(ctx, r, p, off)
}

// viewStagedBlocks reads staged content in blocks, also while it is being sent; done is false for
// any other content.
func (f *File) viewStagedBlocks(ctx context.Context, r *blocks.Reader, p []byte, off int64) (v cache.View,
	done bool, err error) {
	f.mu.Lock()
	s := f.stage
	if s == nil || s.Whole() != nil {
		f.mu.Unlock()
		return v, false, nil
	}
	under := s.Under().Again()
	f.mu.Unlock()
	defer under.Release()
	if f.isLost() {
		return v, true, content.ErrTaken
	}
	n, err := s.ReadOver(ctx, under, r, p, off)
	return cache.View{Bytes: p[:n]}, true, err
}

func removedUnsaved() *Error {
	return &Error{Class: ClassStale, Err: errors.New("the file was removed before it was saved")}
}

func outOfGroup() *Error {
	return &Error{Class: ClassRevoked, Err: errors.New("this account was revoked from the group"),
		Hint: "Ask the owner of the group to add you again."}
}

// WriteAt writes to the staged copy. Nothing leaves the machine (W1).
func (h *Handle) WriteAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if !h.flags.Write {
		return 0, plain(ClassBadHandle, "write", h.f.Path(), "the file is not open for writing")
	}
	err = h.loadLate(ctx)
	if err == nil {
		err = h.writeAt(ctx, p, off)
	}
	if err != nil {
		err = h.f.failed("write", err)
		h.note(wrapRemote("write", "", err), off, off+int64(len(p)))
		return 0, err
	}
	return len(p), nil
}

// loadLate retrieves the content that opening left out.
func (h *Handle) loadLate(ctx context.Context) error {
	if !h.late {
		return nil
	}
	return h.f.load(ctx, h)
}

// Release closes the handle. Content that an interrupted close or a late page left
// uncommitted is committed in the background; a failure is noted, and the bytes stay
// pending.
func (h *Handle) Release() {
	if h.released.Swap(true) || h.f.show != nil {
		return
	}
	f := h.f
	h.reader.Leave()
	f.mu.Lock()
	f.opens--
	if h.flags.Write {
		f.writers--
	}
	f.t.counts.open.Add(-1)
	h.group.list.Open.Add(-1)
	h.endHalf()
	var unread *content.Recorded
	if f.opens == 0 {
		unread, f.held = f.held, nil
		f.dropUseless()
	}
	leftover := f.isLeftover()
	f.mu.Unlock()
	f.keep()
	unread.Close()
	if leftover {
		f.t.inBackground(func(ctx context.Context) {
			f.mu.Lock()
			still := f.isLeftover() // else a program opened it, and its close saves the file
			f.mu.Unlock()
			if !still {
				return
			}
			if err := f.commit(ctx, commitOnClose); err != nil {
				_ = f.failed("release", err)
			}
		})
	}
}
