package tree

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// unrecorded is what this mount has and the ledger has not: what would be lost if the mount ended now, and what waits
// for the service to come back.
type unrecorded struct {
	t      *Tree
	staged fileSet // that have a stage
	kept   fileSet // whose attributes wait to be recorded

	delayed   later       // uploads of empty files and links (W5, N6)
	keeping   later       // requests that record attributes (W16)
	keepsFail atomic.Bool // the last of them found the service away
}

// fileSet is a set of files. It is safe for concurrent use.
type fileSet struct{ set sync.Map }

func (s *fileSet) add(f *File)    { s.set.Store(f, nil) }
func (s *fileSet) remove(f *File) { s.set.Delete(f) }

func (s *fileSet) has(f *File) bool {
	_, ok := s.set.Load(f)
	return ok
}

func (s *fileSet) all() (list []*File) {
	for f := range s.set.Range {
		list = append(list, f.(*File))
	}
	return list
}

// later does work a moment after it was asked for, a few at a time: programs may have asked for thousands at once.
type later struct {
	t     *Tree
	delay time.Duration
	gate  policy.Gate
}

// do does work, unless the tree is closed before.
func (l *later) do(work func(context.Context)) {
	l.t.inBackground(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.delay):
		}
		if l.gate.Enter(ctx) == nil {
			defer l.gate.Leave()
			work(ctx)
		}
	})
}

// Pending lists the files whose content, or attributes, would be lost if the mount ended now, by path.
// Scratch files do not count.
func (t *Tree) Pending() []report.Pending {
	var list []report.Pending
	for _, f := range t.unrecorded.staged.all() {
		if p, ok := f.pending(); ok {
			list = append(list, p)
		}
	}
	for _, f := range t.unrecorded.kept.all() {
		if p, ok := f.pendingAttributes(); ok {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b report.Pending) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// Temporary lists the paths of files that have a temporary name, and content that the ledger does not have (W6):
// it ends with the mount.
func (t *Tree) Temporary() (paths []string) {
	for _, f := range t.unrecorded.staged.all() {
		if s, _, ok := f.unsaved(); ok && f.isKind(fileScratch) && s.Size > 0 {
			paths = append(paths, s.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// maxTemporary is how many of them a Status names.
const maxTemporary = 100

func (f *File) pending() (report.Pending, bool) {
	s, err, ok := f.unsaved()
	if !ok || !f.isKind(fileReal) || s.State == report.StagedScratch {
		return report.Pending{}, false
	}
	p := report.Pending{Path: s.Path, Size: s.Size, Since: s.Since, Open: s.Open}
	if err != nil {
		p.Error = err.Err.Error()
	}
	return p, true
}

// pendingAttributes is pending for a file whose content is recorded.
func (f *File) pendingAttributes() (report.Pending, bool) {
	f.t.mu.RLock()
	_, ok := f.isKept()
	f.t.mu.RUnlock()
	if !ok || f.isChanging() {
		return report.Pending{}, false
	}
	p := report.Pending{Path: f.Path(), Attributes: true}
	f.mu.Lock()
	p.Open = f.writers > 0
	f.mu.Unlock()
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.unkept == nil {
		return report.Pending{}, false
	}
	p.Size, p.Since = f.size, f.unkept.since
	if f.unkept.failed != nil {
		p.Error = f.unkept.failed.Err.Error()
	}
	return p, true
}

// drainRounds is how often Drain looks for files, which programs make while it commits others.
const drainRounds = 3

// Drain commits everything staged, also of files that are still open, and the attributes
// that wait. It returns the files that are still pending.
func (t *Tree) Drain(ctx context.Context) []report.Pending {
	tried := make(map[*File]bool)
	for range drainRounds {
		for _, f := range t.unrecorded.staged.all() {
			if _, ok := f.pending(); !ok || tried[f] {
				continue
			}
			tried[f] = true
			if err := f.commit(ctx, commitLast); err != nil {
				_ = f.failed("drain", err)
			}
		}
	}
	t.KeepAttributes(ctx)
	t.unrecorded.keepTemporary(ctx)
	return t.Pending()
}

// keepTemporary keeps files with a temporary name in the outbox: the next mount has them (O12).
func (u *unrecorded) keepTemporary(ctx context.Context) {
	if !u.t.queue.IsOn() {
		return
	}
	for _, f := range u.staged.all() {
		if s, _, ok := f.unsaved(); !ok || !f.isKind(fileScratch) || s.Size == 0 || f.groupNow().waste {
			continue
		}
		leave, err := u.t.enterNames(ctx, nil, f)
		if err == nil {
			var row *sdk.Entry
			if row, err = f.commitAs(ctx, commitLast, f.groupNow(), f.rawName()); row != nil {
				u.t.queue.Ready(outbox.IDOf(row.Ref))
			}
			leave()
		}
		if err != nil {
			_ = f.failed("keep", err)
		}
	}
}

// retry commits the content, and the attributes, that could not be sent while the
// service was away.
func (u *unrecorded) retry(ctx context.Context) {
	for _, f := range u.staged.all() {
		if !f.isUnsent() {
			continue
		}
		if err := f.commit(ctx, commitNow); err != nil {
			_ = f.failed("retry", err)
		}
	}
	u.keep(ctx, slices.DeleteFunc(u.kept.all(), func(f *File) bool { return !f.isUnkept() }))
}

// isAwaiting reports whether something waits for the service to come back.
func (u *unrecorded) isAwaiting() bool {
	return slices.ContainsFunc(u.staged.all(), (*File).isUnsent) ||
		slices.ContainsFunc(u.kept.all(), (*File).isUnkept)
}

// isUnsent reports whether the file could not be sent because the service was away, and
// no writer has it open, whose close would try again.
func (f *File) isUnsent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage != nil && f.half == nil && f.stage.failed != nil && f.stage.failed.Class.isAway() &&
		f.writers == 0
}

// isHeld reports whether the file is pending, and nothing sends it by itself: somebody has to write it anew, sync it or
// remove it.
func (f *File) isHeld() bool {
	if s, _, ok := f.unsaved(); ok && f.isKind(fileReal) {
		return s.State == report.StagedHalf || s.State == report.StagedKilled ||
			s.State == report.StagedFailed && !s.Open
	}
	return false
}

// KeepAttributes records the attributes that wait (W16). Free.
func (t *Tree) KeepAttributes(ctx context.Context) { t.unrecorded.keep(ctx, t.unrecorded.kept.all()) }

// keep records the attributes of files, a few at a time. It ends early when the
// service does not answer.
func (u *unrecorded) keep(ctx context.Context, files []*File) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	next := make(chan *File)
	for range delayedRequests {
		workers.Go(func() {
			for f := range next {
				err := guard(func() error { return f.keepNow(ctx) })
				if err == nil || ctx.Err() != nil {
					continue
				}
				u.noteUnkept(f, err)
				if wrapRemote("", "", err).Class.isAway() {
					cancel()
				}
			}
		})
	}
	for _, f := range files {
		next <- f
	}
	close(next)
	workers.Wait()
}

// noteUnkept notes why attributes were not recorded. While the service is away, or
// has enough of requests, one line is for all files.
func (u *unrecorded) noteUnkept(f *File, err error) {
	if wrapRemote("", "", err).Class.isAway() && u.keepsFail.Swap(true) {
		return
	}
	_ = f.failed("set attributes", err)
}

// bytes returns the bytes that programs wrote and the service does not have, in a group or
// with "" in all.
func (u *unrecorded) bytes(g sdk.GroupID) (sum int64) {
	for _, f := range u.staged.all() {
		if !f.isKind(fileReal) || g != "" && f.groupNow().id != g {
			continue
		}
		f.mu.Lock()
		if f.stage != nil && !f.now.Is(content.Copied) {
			sum += f.stage.Unstored()
		}
		f.mu.Unlock()
	}
	return sum
}

// inOutbox lists what waits in the outbox.
func (u *unrecorded) inOutbox() (list []report.Pending) {
	u.t.mu.RLock()
	defer u.t.mu.RUnlock()
	for _, i := range u.t.queue.Items() {
		p := report.Pending{Path: u.t.pathOf(i), Size: i.Size, Since: i.Time.UTC().Round(0), Error: i.Reason,
			Outbox: i.ID}
		list = append(list, p)
	}
	return list
}
