package tree

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// Reason is why something failed at a path, and what is left there: one line of
// /.svcfs/reasons. There is one for every path with an error that is remembered, and for
// every file with bytes that the ledger has not recorded.
type Reason struct {
	Time      time.Time `json:"time"`                // of the error; where there is none, of the first change
	Path      string    `json:"path"`                // below the mount, as the file was called then
	Name      string    `json:"name,omitempty"`      // the name that the bytes were for, when Path is another
	Operation string    `json:"operation,omitempty"` // empty: no error
	Class     string    `json:"class,omitempty"`
	Error     string    `json:"error,omitempty"`
	Hint      string    `json:"hint,omitempty"`
	Recorded  *Recorded `json:"recorded,omitempty"` // newest version of Name, else of Path; nil = none
	Staged    *Staged   `json:"staged,omitempty"`   // bytes in the memory of the mount; nil = none

	Waits *outbox.Item `json:"waits,omitempty"` // the newest save of Path in the outbox; nil = none
}

// Recorded is a version of a file in the ledger.
type Recorded struct {
	Version  string        `json:"version"` // where the mount shows it, below the mount
	Size     int64         `json:"size"`    // bytes, -1 when unknown
	Time     time.Time     `json:"time"`    // zero when unknown
	Uploader sdk.AccountID `json:"uploader"`
}

// Staged is the content of a file that the ledger has not recorded. The only copy is in the
// memory of the mount.
type Staged struct {
	Path  string    `json:"path"`           // where it can be read, below the mount
	Size  int64     `json:"size"`           // bytes
	Since time.Time `json:"since"`          // when it was first changed
	State string    `json:"state"`          // one of the constants below
	Open  bool      `json:"open"`           // some program has it open
	Link  bool      `json:"link,omitempty"` // a symbolic link: its folder is synced to send it
}

// The states of staged content.
const (
	StagedHalf    = "half"    // a write was refused: it is not sent (W15)
	StagedKilled  = "killed"  // its program was killed: it is sent when it is synced (W15)
	StagedFailed  = "failed"  // whole, but the last attempt to send it failed
	StagedAway    = "away"    // the same, and it is sent by itself once the service is back
	StagedWritten = "written" // it is sent when it is closed, or is being sent
	StagedScratch = "scratch" // it is not sent under this name, or not without its database (W6)
)

// unsaved returns the staged content of a file that has a name, with the reason why it is
// not recorded; nil = it just is not yet.
func (f *File) unsaved() (Staged, *Error, bool) {
	scratch := f.isKind(fileScratch)
	if !scratch && !f.isKind(fileReal) {
		return Staged{}, nil, false
	}
	path := f.Path()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Is(content.Committed) || f.now.Is(content.Copied) {
		return Staged{}, nil, false
	}
	s := Staged{Path: path, Size: f.Attr().Size, Since: f.stage.since.UTC(), State: StagedWritten, Open: f.opens > 0,
		Link: f.IsLink()}
	switch {
	case f.half != nil && f.half.killed:
		s.State = StagedKilled
		return s, f.half.err, true
	case f.half != nil:
		s.State = StagedHalf
		return s, f.half.err, true
	case scratch || f.aid(f.rawName()) != policy.AidNone:
		s.State = StagedScratch
	case f.stage.failed != nil:
		s.State = StagedFailed
		if f.stage.failed.Class.isAway() && f.opens == 0 {
			s.State = StagedAway
		}
	}
	return s, f.stage.failed, true
}

// Reasons returns the last error of each path and what is left there, the oldest error
// first. It asks the service for nothing.
func (t *Tree) Reasons() []Reason {
	staged := make(map[string]Staged)
	told := make(map[string]bool) // paths with an error, and the names they were for
	var list []Reason
	for _, r := range t.errors.last() {
		name := r.name
		if name == "" {
			name = t.meant(r.err.Path)
		}
		list = append(list, reasonOf(r.at, r.err, oneLine(r.hint), name))
		told[oneLine(r.err.Path)], told[name] = true, true
	}
	for _, f := range t.stagedFiles() {
		s, err, ok := f.unsaved()
		if !ok {
			continue
		}
		staged[s.Path] = s
		if told[s.Path] || err == nil && s.State == StagedScratch {
			continue
		}
		r := Reason{Time: s.Since, Path: s.Path, Name: t.meant(s.Path)}
		if err != nil {
			r = reasonOf(s.Since, &Error{Class: err.Class, Op: "close", Path: s.Path, Err: err.Err},
				oneLine(t.hint(err)), r.Name)
		}
		list = append(list, r)
	}
	paths := make(map[string]bool)
	for _, r := range list {
		paths[r.Path] = true
	}
	items := t.queue.Items()
	t.mu.Lock()
	defer t.mu.Unlock()
	waits := make(map[string]*outbox.Item)
	for _, i := range items { // in the order of the saves
		if i.Name == "" { // its key was not fetched since the restart
			continue
		}
		path := t.pathOf(i)
		if waits[path] == nil && !paths[path] {
			list = append(list, Reason{Time: i.Time.UTC(), Path: path})
		}
		waits[path] = &i
	}
	failed := t.look.Failed()
	for i := range list {
		r := &list[i]
		r.Waits = waits[r.Path]
		if r.Waits != nil && r.Waits.Reason != "" && r.Hint == "" && failed != nil && failed.Away {
			r.Hint = failed.Hint
		}
		s, ok := staged[r.Path]
		if !ok && !paths[r.Name] { // else that one tells of it
			s, ok = staged[r.Name]
		}
		if ok {
			r.Staged = &s
		}
		r.Recorded = t.recordedAt(r.Path)
		if r.Name != "" {
			r.Recorded = t.recordedAt(r.Name)
		}
	}
	return list
}

func reasonOf(at time.Time, err *Error, hint, name string) Reason {
	return Reason{Time: at.UTC(), Path: oneLine(err.Path), Name: name, Operation: err.Op, Class: err.Class.String(),
		Error: sentenceOf(err), Hint: hint}
}

// meant returns the path of the file that a program saves through a scratch name, or "".
func (t *Tree) meant(path string) string {
	i := strings.LastIndexByte(path, '/')
	name, ok := policy.Meant(path[i+1:])
	if !ok || i < 0 { // its name points elsewhere by now
		return ""
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if d, ok := t.nodeAt(path[:i]).(*Dir); ok && d.find(name) == nil && d.find("."+name) != nil {
		name = "." + name
	}
	return path[:i+1] + name
}

// nodeAt returns the node of a path below the mount, nil when the mount does not know it.
// Needs Tree.mu.
func (t *Tree) nodeAt(path string) Node {
	var at Node = t.root
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		d, ok := at.(*Dir)
		if !ok {
			return nil
		}
		if part != "" {
			at = d.find(part)
		}
	}
	return at
}

// recordedAt returns the newest version of a path. Needs Tree.mu for writing.
func (t *Tree) recordedAt(path string) *Recorded {
	i := strings.LastIndexByte(path, '/')
	d, ok := t.nodeAt(path[:max(i, 0)]).(*Dir)
	if !ok || d.group == nil || d.isControl() {
		return nil
	}
	raw := d.rawPath(path[i+1:])
	if f, ok := d.find(path[i+1:]).(*File); ok && f.isKind(fileReal) {
		raw = f.raw
	}
	v := d.group.names[raw]
	if v == nil {
		return nil
	}
	e := v.newestRecord()
	if e == nil {
		return nil
	}
	d.group.learnPast()
	at, where := d.group.history, d.group.dir.path()+"/"+names.Control+"/"+historyName
	for part := range strings.SplitSeq(v.raw, "/") {
		at = at.step(d.group, part)
		where += "/" + at.name
	}
	return &Recorded{Version: where + "/" + versionName(slices.Index(v.entries, e), e), Size: e.Size,
		Time: e.Time.UTC(), Uploader: e.Uploader}
}

func (t *Tree) reasonsText() []byte {
	var text []byte
	for _, r := range t.Reasons() {
		line, err := json.Marshal(r)
		if err != nil {
			continue
		}
		text = append(append(text, line...), '\n')
	}
	return text
}
