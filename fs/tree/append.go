package tree

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Where the owner of a group switched it on, an append that others overtook is made on their version (W11.5): a file
// that no name shows is opened at that version, gets the bytes, and is saved as any other. The file that the program
// has open keeps its content, and the name shows the new version.

const (
	// mostAppends is how many versions of others an append is tried on before it is a conflict.
	mostAppends = 20
	// appendPause is how long an append waits after the first version of others that overtook it, and twice as long
	// each time up to mostAppendPause: who appends all the time is quicker than a retrieval and a save.
	appendPause, mostAppendPause = 10 * time.Millisecond, 200 * time.Millisecond
	// settingAge is how long a mount believes what a group makes of appends, and that it takes no files in blocks,
	// unless an event says otherwise.
	settingAge = 30 * time.Second
)

// appending is what a stage knows of the appends that made it, by body.mu or the state of the file.
type appending struct {
	group *group  // whose file they were made to; nil = none
	raw   string  // under which name
	at    int64   // where they begin
	bytes int64   // how many
	other bool    // something else was changed, too
	upon  *Handle // of a file that has the first tried of them on a version of others, and got no answer; nil = none
	tried int64
	// behind is the version that the content was made from, of content whose appends were made on others; nil = it is
	// as its file was opened
	behind *sdk.Ref
	merged *sdk.Entry // the version that has them; nil = none
	only   bool       // of a file of mergeAppend: it is recorded upon its version, or not at all
}

// mergeSetting is what a group makes of appends, as far as the mount knows. It is safe for concurrent use.
type mergeSetting struct {
	mu    sync.Mutex
	on    bool
	until time.Time
}

// forgetSetting has the service asked again what a group makes of appends and of large files.
func (t *Tree) forgetSetting(id sdk.GroupID) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if g := t.groups[id]; g != nil {
		g.merges.mu.Lock()
		defer g.merges.mu.Unlock()
		g.merges.until = time.Time{}
		g.whole.Store(0)
	}
}

// mergesAppends reports whether appends to files of g are made on what others saved. It asks the service, now and then.
func (t *Tree) mergesAppends(ctx context.Context, g *group) bool {
	if !t.cfg.Ours || g.waste {
		return false
	}
	g.merges.mu.Lock()
	on, known := g.merges.on, t.now().Before(g.merges.until)
	g.merges.mu.Unlock()
	if known {
		return on
	}
	ctx, cancel := network.WithPatience(ctx, t.cfg.MetadataTimeout)
	defer cancel()
	asked := t.now()
	said, err := t.remote.GroupAppends(ctx, g.id)
	if err != nil && sdk.KindOf(err) != sdk.ErrUnsupported {
		return false
	}
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	g.merges.on, g.merges.until = said == wire.AppendsMerge, asked.Add(settingAge)
	return g.merges.on
}

// noteWrite notes a write of bytes from off to end, and with off = -1 that the length was set. Needs body.mu and a
// stage.
func (h *Handle) noteWrite(off, end int64) {
	s := h.f.stage
	if !h.flags.Append || h.flags.Truncate || off != s.at+s.bytes {
		s.other = true
		return
	}
	s.bytes += end - off
	if s.group == nil {
		h.f.t.mu.RLock()
		s.group, s.raw = h.f.group, h.f.raw
		h.f.t.mu.RUnlock()
	}
}

// isAppend reports whether all that is to be recorded are bytes at the end of the file.
func (w *saving) isAppend() bool {
	f, s := w.f, w.s
	if s.other || s.bytes == 0 || s.at+s.bytes != s.Len() || s.group != w.g || s.raw != w.raw || f.target != "" ||
		!f.onlyWritten() {
		return false
	}
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return len(f.links) == 0 && f.isKind(fileReal) && !w.g.hasDatabase(w.raw)
}

// onlyWritten reports whether no program changed attributes since the record, but for the time of a write.
func (a *attributes) onlyWritten() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	was := valueOf(a.recorded)
	return !a.timed && a.runs == was.Executable && maps.Equal(a.xattrs, was.XAttrs)
}

// isSentNow reports whether a save goes past the outbox, after what waits of its group: an append that may meet those
// of others. While the service is away it waits as others do.
func (w *saving) isSentNow(ctx context.Context) bool {
	if w.s.only {
		return true
	}
	return w.isAppend() && w.f.t.look.Reached() && w.f.t.mergesAppends(ctx, w.g) &&
		w.f.t.queue.Before(ctx, w.g.id) == nil
}

var (
	// errMerged: the save is an append that was made on the version of others, stage.merged.
	errMerged = errors.New("it was made on the version of others")
	// errOvertaken: others overtook a save of a file of mergeAppend.
	errOvertaken = errors.New("the name has a newer version")
	// errApart: an append and the version of others do not fit together.
	errApart = errors.New("it is no append that is made on another version")
)

// mergeAppend makes an append that others overtook on their version: then the error is errMerged. No error means that
// the save is a conflict.
func (w *saving) mergeAppend(ctx context.Context) error {
	s := w.s
	if s.only {
		return errOvertaken
	}
	if !w.isAppend() || !w.f.t.mergesAppends(ctx, w.g) {
		return nil
	}
	for pause, n := appendPause, 0; n < mostAppends; n++ {
		row, err := w.appendOnce(ctx)
		switch {
		case errors.Is(err, errApart):
			return nil
		case errors.Is(err, errOvertaken):
			select {
			case <-time.After(pause/2 + rand.N(pause)):
			case <-ctx.Done():
				return ctx.Err()
			}
			pause = min(2*pause, mostAppendPause)
			continue
		case err != nil:
			return err
		}
		if s.behind == nil {
			s.behind = new(sdk.Ref)
			if e := w.f.entry.Load(); e != nil {
				*s.behind = e.Ref
			}
		}
		s.at, s.bytes, s.tried = s.at+s.tried, s.bytes-s.tried, 0
		if s.bytes == 0 {
			s.merged = row
			return errMerged
		}
	}
	return nil
}

// appendOnce is one attempt, which goes on with one that got no answer.
func (w *saving) appendOnce(ctx context.Context) (*sdk.Entry, error) {
	if err := w.g.lookAt(ctx, w.raw); err != nil {
		return nil, err
	}
	if w.s.upon == nil {
		h, err := w.appended(ctx)
		if err != nil {
			return nil, err
		}
		w.s.upon, w.s.tried = h, w.s.bytes
	}
	n := w.s.upon.f
	err := n.commit(ctx, commitNow)
	switch {
	case err == nil, errors.Is(err, errOvertaken):
		w.s.dropUpon()
	case errors.Is(err, save.ErrNotCompared), sdk.KindOf(err) == sdk.ErrUnsupported:
		w.s.dropUpon()
		err = errApart
	}
	return n.entry.Load(), err
}

// uponWhat returns the version that an append is made on; nil = it is a conflict, also because a save from here that
// got no answer may have the bytes already.
func (w *saving) uponWhat() *sdk.Entry {
	t, base := w.f.t, w.Base()
	t.mu.RLock()
	defer t.mu.RUnlock()
	v := w.g.names[w.raw]
	if v == nil || v.newest() == nil || isWaiting(v.newest()) || targetOf(v.newest()) != "" {
		return nil
	}
	for _, e := range slices.Backward(v.entries) {
		if e.Ref == base { // what is older was here when the append began
			break
		}
		if e.Uploader == t.remote.Account() && slices.Contains(v.unsure, e.Hash) {
			return nil
		}
	}
	return v.newest()
}

// appendStep is how much is appended at a time, in bytes.
const appendStep = 1 << 20

// appended returns an open file that no name shows, with the version of others and the append behind it. It costs a
// retrieval.
func (w *saving) appended(ctx context.Context) (*Handle, error) {
	t, on := w.f.t, w.uponWhat()
	if on == nil {
		return nil, errApart
	}
	t.mu.Lock()
	n := w.g.dir.newFile(path.Base(w.raw))
	n.group, n.raw = w.g, w.raw
	n.setEntry(on)
	t.mu.Unlock()
	h := n.newHandle(OpenFlags{Read: true, Write: true, Append: true})
	err := n.load(ctx, h)
	if err == nil {
		err = w.copyAppend(ctx, h)
	}
	if err == nil {
		return h, nil
	}
	n.discard()
	h.Release()
	if class := wrapRemote("", "", err).Class; !class.isAway() && class != ClassInterrupted {
		return nil, errApart
	}
	return nil, err
}

// copyAppend writes the append to the end of an open file.
func (w *saving) copyAppend(ctx context.Context, h *Handle) error {
	n, s := h.f, w.s
	n.mu.Lock()
	end := n.length()
	n.mu.Unlock()
	buf, err := w.f.t.contents.Pool.Get(min(appendStep, s.bytes))
	if err != nil {
		return err
	}
	defer buf.Release()
	for at := int64(0); at < s.bytes; {
		got, rest, err := s.ReadAt(buf.Bytes()[:min(buf.Len(), s.bytes-at)], s.at+at)
		if err != nil || got == 0 || len(rest) > 0 {
			return errApart
		}
		if err := h.writeAt(ctx, buf.Bytes()[:got], end+at); err != nil {
			return err
		}
		at += int64(got)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stage.only = true
	return nil
}

// dropUpon ends the file of an append that is recorded, or will never be.
func (s *stage) dropUpon() {
	if s.upon == nil {
		return
	}
	h := s.upon
	s.upon = nil
	h.f.discard()
	h.Release()
}

// settleBehind keeps the stage for the programs that have the file open: stage.merged has its appends, and the content
// of others before them. whole, which may be nil, is released. Needs body.mu.
func (f *File) settleBehind(s *stage, whole *mem.Buffer) {
	if whole != nil {
		whole.Release()
	}
	f.dropSender(s)
	f.ahead.Store(s.merged)
	s.appending, s.failed, s.aside = appending{at: s.Len(), behind: s.behind}, nil, time.Time{}
	f.move(content.Copied)
	f.dropUseless()
}

// isBehind reports whether the file has no name, because a version of others has its appends: a program that opens it
// looks the name up again.
func (f *File) isBehind() bool {
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	return f.dir == nil && f.ahead.Load() != nil
}

// leaveName has the name of a file show the version that has its appends. Needs Tree.mu.
func (g *group) leaveName(f *File, raw string) (notices []notice) {
	if f.dir != nil {
		notices = f.dir.detach(f.name, f)
	}
	return append(notices, g.placeMerged(map[*versions]bool{g.version(raw): true})...)
}
