package tree

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// addControlDir attaches /.svcfs to the root: found by name, not listed, all
// read-only, and reading it never spends (N4).
func (t *Tree) addControlDir() {
	dir := t.newDir(t.root, names.Control, dirControl)
	t.root.hidden = map[string]Node{names.Control: dir}
	dir.addControlFile("status", func() []byte { return t.Status().Show() })
	dir.addControlFile("pending", func() []byte {
		return report.ShowPending(append(t.Pending(), t.waiting()...))
	})
	dir.addControlFile("errors", t.errors.Show)
	dir.addControlFile("reasons", func() []byte { return report.ShowReasons(t.Reasons()) })
	dir.addControlFile("version", func() []byte { return []byte(t.cfg.Version + "\n") })
}

// Pending lists the files whose content, or attributes, would be lost if the mount ended now, by path.
// Scratch files do not count.
func (t *Tree) Pending() []report.Pending {
	var list []report.Pending
	for _, f := range t.stagedFiles() {
		if p, ok := f.pending(); ok {
			list = append(list, p)
		}
	}
	for _, f := range t.unkeptFiles() {
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
	for _, f := range t.stagedFiles() {
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
	p.Open = f.opens > 0
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
		for _, f := range t.stagedFiles() {
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
	t.keepTemporary(ctx)
	return t.Pending()
}

// keepTemporary keeps files with a temporary name in the outbox: the next mount has them (O12).
func (t *Tree) keepTemporary(ctx context.Context) {
	if !t.queue.IsOn() {
		return
	}
	for _, f := range t.stagedFiles() {
		if s, _, ok := f.unsaved(); !ok || !f.isKind(fileScratch) || s.Size == 0 || f.groupNow().waste {
			continue
		}
		err := f.nameGate().enter(ctx)
		if err == nil {
			var row *sdk.Entry
			if row, err = f.commitAs(ctx, commitLast, f.groupNow(), f.rawName()); row != nil {
				t.queue.Ready(outbox.IDOf(row.Ref))
			}
			f.nameGate().leave()
		}
		if err != nil {
			_ = f.failed("keep", err)
		}
	}
}

// retryPending commits the content, and the attributes, that could not be sent while the
// service was away.
func (t *Tree) retryPending(ctx context.Context) {
	for _, f := range t.stagedFiles() {
		if !f.isUnsent() {
			continue
		}
		if err := f.commit(ctx, commitNow); err != nil {
			_ = f.failed("retry", err)
		}
	}
	t.keepAll(ctx, slices.DeleteFunc(t.unkeptFiles(), func(f *File) bool { return !f.isUnkept() }))
}

// hasUnsent reports whether something waits for the service to come back.
func (t *Tree) hasUnsent() bool {
	return slices.ContainsFunc(t.stagedFiles(), (*File).isUnsent) ||
		slices.ContainsFunc(t.unkeptFiles(), (*File).isUnkept)
}

// isUnsent reports whether the file could not be sent because the service was away, and
// no open handle is left whose close would try again.
func (f *File) isUnsent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage != nil && f.half == nil && f.stage.failed != nil && f.stage.failed.Class.isAway() && f.opens == 0
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

// Status returns the state of the mount.
func (t *Tree) Status() report.Status {
	cached := t.contents.Cache.Stats()
	s := report.Status{
		PID: os.Getpid(), Version: t.cfg.Version, Account: string(t.remote.Account()), Address: t.cfg.Address,
		Mountpoint: t.cfg.Mountpoint, Files: t.cfg.Files, Confined: t.cfg.Confined,
		Started: t.started.UTC(), Reachable: t.look.Reached(), Pending: len(t.Pending()),
		Staged: t.contents.Staging.Memory(),
		Cached: cached.Bytes, CacheLimit: t.cfg.CacheBytes, CacheHits: cached.Hits,
		Retrieves: t.counts.retrieves.Load(),
		Uploads:   t.counts.uploads.Load(), Looks: t.look.Paid(), Crawlers: t.counts.crawlers.Load(),
		Spent: t.spent.Spent().Tokens(),
	}
	for _, f := range t.stagedFiles() {
		if f.isHeld() {
			s.Held++
		}
	}
	s.Unsent = t.unstored("")
	s.Temporary = t.Temporary()
	s.TemporaryFiles = len(s.Temporary)
	s.Temporary = s.Temporary[:min(len(s.Temporary), maxTemporary)]
	if t.cfg.Traffic != nil {
		traffic := t.cfg.Traffic()
		s.Moved, s.Speed = traffic.Moved, traffic.Speed
	}
	if t.cfg.Limit != nil {
		limit := t.cfg.Limit()
		s.LimitDown, s.LimitUp = limit.Down, limit.Up
	}
	if t.cfg.Proofs != nil {
		s.Proofs = t.cfg.Proofs()
	}
	if !t.cfg.Budget.IsZero() {
		s.Budget = t.cfg.Budget.Tokens()
	}
	s.Outbox = t.queue.Status()
	s.Sending, s.Open = int(t.counts.sending.Load()), int(t.counts.open.Load())
	t.mu.RLock()
	s.Groups = len(t.groups)
	t.mu.RUnlock()
	s.Refreshed, s.FailedLook = t.look.RefreshedAt().UTC(), t.look.Failed()
	s.Reachable = s.Reachable || s.FailedLook != nil && !s.FailedLook.Away
	connection := network.Connected
	if t.cfg.Connection != nil {
		connection = t.cfg.Connection()
	}
	s.Service = report.ServiceWord(connection, s.Reachable)
	s.Errors = t.errors.Total()
	return s
}
