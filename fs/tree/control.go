package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
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
	t.addControlFile(dir, "status", t.statusText)
	t.addControlFile(dir, "pending", t.pendingText)
	t.addControlFile(dir, "errors", t.errors.text)
	t.addControlFile(dir, "reasons", t.reasonsText)
	t.addControlFile(dir, "version", func() []byte { return []byte(t.cfg.Version + "\n") })
}

// Pending is a file whose staged content, or whose attributes, the ledger has not recorded.
type Pending struct {
	Path  string    `json:"path"`
	Size  int64     `json:"size"`            // bytes
	Since time.Time `json:"since"`           // when it was first changed
	Error string    `json:"error,omitempty"` // of the last attempt to upload it
	Open  bool      `json:"open"`            // some program still has it open
	// Attributes: only times, execute bit or extended attributes are left to record.
	Attributes bool `json:"attributes,omitempty"`
	// Outbox is the id of an item of the outbox: the save is on the disk, and survives the mount.
	Outbox string `json:"outbox,omitempty"`
}

// What says in words what of the file is not recorded.
func (p Pending) What() string {
	if p.Attributes {
		return "times and attributes only"
	}
	return fmt.Sprintf("%d bytes", p.Size)
}

// Pending lists the files whose content, or attributes, would be lost if the mount ended now, by path.
// Scratch files do not count.
func (t *Tree) Pending() []Pending {
	var list []Pending
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
	slices.SortFunc(list, func(a, b Pending) int { return strings.Compare(a.Path, b.Path) })
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

func (f *File) pending() (Pending, bool) {
	s, err, ok := f.unsaved()
	if !ok || !f.isKind(fileReal) || s.State == StagedScratch {
		return Pending{}, false
	}
	p := Pending{Path: s.Path, Size: s.Size, Since: s.Since, Open: s.Open}
	if err != nil {
		p.Error = err.Err.Error()
	}
	return p, true
}

// pendingAttributes is pending for a file whose content is recorded.
func (f *File) pendingAttributes() (Pending, bool) {
	f.t.mu.RLock()
	_, ok := f.isKept()
	f.t.mu.RUnlock()
	if !ok || f.isChanging() {
		return Pending{}, false
	}
	p := Pending{Path: f.Path(), Attributes: true}
	f.mu.Lock()
	p.Open = f.opens > 0
	f.mu.Unlock()
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.unkept == nil {
		return Pending{}, false
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
func (t *Tree) Drain(ctx context.Context) []Pending {
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
		return s.State == StagedHalf || s.State == StagedKilled || s.State == StagedFailed && !s.Open
	}
	return false
}

// Status is the content of /.svcfs/status, as JSON.
type Status struct {
	PID        int       `json:"pid"`
	Version    string    `json:"version"`
	Account    string    `json:"account"`
	Address    string    `json:"address"` // of the service
	Mountpoint string    `json:"mountpoint"`
	Started    time.Time `json:"started"`
	Reachable  bool      `json:"reachable"` // the service answered the last look at the ledger
	Service    string    `json:"service"`   // one of the words below
	Groups     int       `json:"groups"`
	Pending    int       `json:"pending"` // files not yet recorded
	Held       int       `json:"held"`    // of Pending: nothing sends them by itself
	Staged     int64     `json:"staged_bytes"`
	Unsent     int64     `json:"unsent_bytes"`     // content of Pending that the service does not have
	Moved      int64     `json:"moved_bytes"`      // to and from the service, content and lists
	Speed      int64     `json:"bytes_per_second"` // of that, in the last ten seconds
	LimitDown  int64     `json:"limit_down_bytes_per_second,omitempty"`
	LimitUp    int64     `json:"limit_up_bytes_per_second,omitempty"`
	Cached     int64     `json:"cached_bytes"`
	CacheLimit int64     `json:"cache_limit_bytes"`
	CacheHits  int64     `json:"cache_hits"`
	Retrieves  int64     `json:"retrieves"` // charged
	Uploads    int64     `json:"uploads"`   // charged
	Looks      int64     `json:"looks"`     // at the ledger, charged
	Crawlers   int64     `json:"crawlers_refused"`
	Spent      string    `json:"spent"` // tokens
	Budget     string    `json:"budget,omitempty"`
	Errors     int64     `json:"errors"`           // lines ever added to /.svcfs/errors
	Refreshed  time.Time `json:"refreshed"`        // when the last look at the ledger that succeeded began
	Sending    int       `json:"sending"`          // of Pending, being sent now
	Open       int       `json:"open"`             // handles of files, of all programs
	Proofs     string    `json:"proofs,omitempty"` // the proofs of the service, in words
	Files      string    `json:"files,omitempty"`  // how large files may be, and how large ones are kept, in words
	Confined   string    `json:"confined"`         // how the process is confined
	// Temporary are the first of [Tree.Temporary], TemporaryFiles how many there are.
	Temporary      []string `json:"temporary,omitempty"`
	TemporaryFiles int      `json:"temporary_files"`
	// Outbox is how it stands with the outbox; nil = the mount has none.
	Outbox *outbox.Status `json:"outbox,omitempty"`
	// FailedLook is the newest failure among the last looks at the list of groups and
	// at each group; nil when all succeeded.
	FailedLook *look.Failed `json:"failed_look,omitempty"`
}

// The words of Status.Service.
const (
	ServiceReachable    = "reachable"
	ServiceReconnecting = "reconnecting" // connections are refused or break, and opening and closing wait (E5)
	ServiceUnreachable  = "unreachable"  // and no longer wait; or the service did not answer the last look
)

// service returns the word for the service.
func (t *Tree) service(reachable bool) string {
	connection := network.Connected
	if t.cfg.Connection != nil {
		connection = t.cfg.Connection()
	}
	switch {
	case connection == network.Reconnecting:
		return ServiceReconnecting
	case connection == network.Disconnected || !reachable:
		return ServiceUnreachable
	}
	return ServiceReachable
}

// Status returns the state of the mount.
func (t *Tree) Status() Status {
	cached := t.contents.Cache.Stats()
	s := Status{
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
	s.Service = t.service(s.Reachable)
	t.errors.mu.Lock()
	s.Errors = t.errors.total
	t.errors.mu.Unlock()
	return s
}

func (t *Tree) statusText() []byte {
	text, err := json.MarshalIndent(t.Status(), "", "  ")
	if err != nil {
		return []byte(err.Error())
	}
	return append(text, '\n')
}

func (t *Tree) pendingText() []byte {
	var b strings.Builder
	for _, p := range append(t.Pending(), t.waiting()...) {
		what := strconv.FormatInt(p.Size, 10)
		if p.Attributes {
			what = "attributes"
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", p.Since.UTC().Format(time.RFC3339), what, p.Path, oneLine(p.Error))
	}
	return []byte(b.String())
}

// byteText prints a size for a person: "1.5 MiB".
func byteText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	value, names := float64(n), []string{"KiB", "MiB", "GiB", "TiB"}
	for i, name := range names {
		value /= unit
		if value < unit || i == len(names)-1 {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + name
		}
	}
	return ""
}
