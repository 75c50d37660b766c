package tree

import (
	"os"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/network"
)

// addControlDir attaches /.svcfs to the root: found by name, not listed, all
// read-only, and reading it never spends (N4).
func (t *Tree) addControlDir() {
	dir := t.newDir(t.root, names.Control, dirControl)
	t.root.hidden = map[string]Node{names.Control: dir}
	dir.addControlFile("status", func() []byte { return t.Status().Show() })
	dir.addControlFile("pending", func() []byte {
		return report.ShowPending(append(t.Pending(), t.unrecorded.inOutbox()...))
	})
	dir.addControlFile("errors", t.errors.Show)
	dir.addControlFile("reasons", func() []byte { return report.ShowReasons(t.Reasons()) })
	dir.addControlFile("version", func() []byte { return []byte(t.cfg.Version + "\n") })
}

// Status returns the state of the mount.
func (t *Tree) Status() report.Status {
	cached := t.contents.Cache.Stats()
	s := report.Status{
		PID: os.Getpid(), Version: t.cfg.Version, Account: string(t.remote.Account()), Address: t.cfg.Address,
		Mountpoint: t.cfg.Mountpoint, Left: t.cfg.Left, Files: t.cfg.Files, Confined: t.cfg.Confined,
		Started: t.started.UTC(), Reachable: t.look.Reached(), Pending: len(t.Pending()),
		Staged: t.contents.Staging.Memory(),
		Cached: cached.Bytes, CacheLimit: t.cfg.CacheBytes, CacheHits: cached.Hits,
		Retrieves: t.counts.retrieves.Load(),
		Uploads:   t.counts.uploads.Load(), Looks: t.look.Paid(), Crawlers: t.counts.crawlers.Load(),
		Spent: t.spent.Spent().Tokens(),
	}
	for _, f := range t.unrecorded.staged.all() {
		if f.isHeld() {
			s.Held++
		}
	}
	s.Unsent = t.unrecorded.bytes("")
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
	connection := network.Connected
	if t.cfg.Connection != nil {
		connection = t.cfg.Connection()
	}
	s.Service = report.ServiceWord(connection, s.Reachable)
	s.Errors = t.errors.Total()
	return s
}
