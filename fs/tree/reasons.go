package tree

import (
	"slices"
	"strings"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// unsaved returns the staged content of a file that has a name, with the reason why it is
// not recorded; nil = it just is not yet.
func (f *File) unsaved() (report.Staged, *Error, bool) {
	scratch := f.isKind(fileScratch)
	if !scratch && !f.isKind(fileReal) {
		return report.Staged{}, nil, false
	}
	path := f.Path()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Is(content.Committed) || f.now.Is(content.Copied) {
		return report.Staged{}, nil, false
	}
	s := report.Staged{Path: path, Size: f.Attr().Size, Since: f.stage.since.UTC(), State: report.StagedWritten,
		Open: f.writers > 0, Link: f.IsLink()}
	switch {
	case f.half != nil && f.half.killed:
		s.State = report.StagedKilled
		return s, f.half.err, true
	case f.half != nil:
		s.State = report.StagedHalf
		return s, f.half.err, true
	case scratch || f.aid(f.rawName()) != policy.AidNone:
		s.State = report.StagedScratch
	case f.stage.failed != nil:
		s.State = report.StagedFailed
		if f.stage.failed.Class.isAway() && f.writers == 0 {
			s.State = report.StagedAway
		}
	}
	return s, f.stage.failed, true
}

// Reasons returns the last error of each path and what is left there, the oldest error
// first. It asks the service for nothing.
func (t *Tree) Reasons() []report.Reason {
	staged := make(map[string]report.Staged)
	told := make(map[string]bool) // paths with an error, and the names they were for
	var list []report.Reason
	for _, f := range t.errors.Last() {
		if f.Name == "" {
			f.Name = t.root.meant(f.Path)
		}
		list = append(list, report.ReasonOf(f, f.Name))
		told[report.OneLine(f.Path)], told[f.Name] = true, true
	}
	for _, f := range t.unrecorded.staged.all() {
		s, err, ok := f.unsaved()
		if !ok {
			continue
		}
		staged[s.Path] = s
		if told[s.Path] || err == nil && s.State == report.StagedScratch {
			continue
		}
		r := report.Reason{Time: s.Since, Path: s.Path, Name: t.root.meant(s.Path)}
		if err != nil {
			r = report.ReasonOf(failureOf(s.Since, wrapRemote("close", s.Path, err), t.hint(err)), r.Name)
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
			list = append(list, report.Reason{Time: i.Time.UTC(), Path: path})
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
		r.Recorded = t.root.recordedAt(r.Path)
		if r.Name != "" {
			r.Recorded = t.root.recordedAt(r.Name)
		}
	}
	return list
}

// meant returns the path of the file that a program saves through a scratch name, or "".
func (d *Dir) meant(path string) string {
	i := strings.LastIndexByte(path, '/')
	name, ok := policy.Meant(path[i+1:])
	if !ok || i < 0 { // its name points elsewhere by now
		return ""
	}
	d.t.mu.RLock()
	defer d.t.mu.RUnlock()
	if in, ok := d.nodeAt(path[:i]).(*Dir); ok && in.find(name) == nil && in.find("."+name) != nil {
		name = "." + name
	}
	return path[:i+1] + name
}

// nodeAt returns the node of a path below the root d, nil when the mount does not know it.
// Needs Tree.mu.
func (d *Dir) nodeAt(path string) Node {
	var at Node = d
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		in, ok := at.(*Dir)
		if !ok {
			return nil
		}
		if part != "" {
			at = in.find(part)
		}
	}
	return at
}

// recordedAt returns the newest version of a path. Needs Tree.mu for writing.
func (d *Dir) recordedAt(path string) *report.Recorded {
	i := strings.LastIndexByte(path, '/')
	d, ok := d.nodeAt(path[:max(i, 0)]).(*Dir)
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
	return &report.Recorded{Version: where + "/" + versionName(slices.Index(v.entries, e), e), Size: e.Size,
		Time: e.Time.UTC(), Uploader: e.Uploader}
}
