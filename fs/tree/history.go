package tree

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// historyName is the folder of older versions in GROUP/.svcfs.
const historyName = "history"

// past is a directory of GROUP/.svcfs/history: one for each component of the
// names that were ever recorded, with the versions of the name that ends there. In
// GROUP/.svcfs/trash it is the same for the versions that are in the trash.
// It is made at the first look, and then kept, so that its inodes stay. By Tree.mu.
type past struct {
	dir   *Dir             // nil until it is looked at
	under map[string]*past // by component as shown
	raw   string           // recorded component
	name  string           // the component as shown
	v     *versions        // of the name that ends here; nil when none does
	files map[sdk.Ref]*File
	trash bool
}

// shows reports whether a version is in the directory of its name.
func (p *past) shows(e *sdk.Entry) bool {
	if p.trash {
		return e.Deleted != nil && e.Deleted.InTrash
	}
	return e.Deleted == nil
}

// learnPast puts the names of the group that are not in its history yet there.
// Needs Tree.mu for writing.
func (g *group) learnPast() {
	for v := range g.unlearned {
		for _, at := range []*past{g.history, g.trash} {
			for _, part := range strings.Split(v.raw, "/") {
				at = at.step(g, part)
			}
			at.v = v
		}
	}
	clear(g.unlearned)
}

// unlearnPast takes a name out that no upload has. Needs Tree.mu.
func (g *group) unlearnPast(v *versions) {
	if _, isNew := g.unlearned[v]; isNew {
		delete(g.unlearned, v)
		return
	}
	parts := strings.Split(v.raw, "/")
	g.history.forget(g, parts)
	g.trash.forget(g, parts)
}

// forget takes the name of components beneath p out, with directories that are empty then.
func (p *past) forget(g *group, parts []string) {
	if len(parts) == 0 {
		g.hold(-int64(len(p.files)) * versionBytes)
		p.v, p.files = nil, nil
		return
	}
	shown := p.shownAs(parts[0])
	next := p.under[shown]
	if next == nil {
		return
	}
	next.forget(g, parts[1:])
	if next.v == nil && len(next.under) == 0 {
		delete(p.under, shown)
		g.hold(-pastBytes)
	}
}

// shownAs returns how a component is shown in p.
func (p *past) shownAs(raw string) string {
	shown := names.Component(raw)
	if next := p.under[shown]; len(shown) > names.MaxBytes || next != nil && next.raw != raw {
		shown = names.WithSuffix(shown, raw)
	}
	return shown
}

// step returns the directory of a component, making it.
func (p *past) step(g *group, raw string) *past {
	shown := p.shownAs(raw)
	next := p.under[shown]
	if next == nil {
		next = &past{raw: raw, name: shown, trash: p.trash}
		if p.under == nil {
			p.under = make(map[string]*past)
		}
		p.under[shown] = next
		g.hold(pastBytes)
	}
	return next
}

// lives reports whether a version shows at p or beneath.
func (p *past) lives() bool {
	if p.v != nil && slices.ContainsFunc(p.v.entries, p.shows) {
		return true
	}
	for _, next := range p.under {
		if next.lives() {
			return true
		}
	}
	return false
}

// refreshPast brings the children of a history directory up to date with the ledger:
// one directory per component, one file per version that it shows.
func (d *Dir) refreshPast() {
	t := d.t
	t.mu.Lock()
	defer t.mu.Unlock()
	d.group.learnPast()
	if d.seen == d.group.changes && d.seen > 0 {
		return
	}
	d.seen = d.group.changes
	children := make(map[string]Node)
	for name, next := range d.past.under {
		if !next.lives() {
			continue
		}
		if next.dir == nil {
			next.dir = t.newDir(d, name, dirHistory)
			next.dir.past = next
		}
		children[name] = next.dir
	}
	for name, f := range d.pastFiles() {
		if children[name] != nil {
			name = names.WithSuffix(name, string(f.entry.Load().Ref))
			f.name = name
		}
		children[name] = f
	}
	d.children = children
	t.countHeld()
}

// pastFiles returns the files of the versions in d, by name. Needs Tree.mu.
func (d *Dir) pastFiles() map[string]*File {
	p, named := d.past, make(map[string]*File)
	if p.v == nil {
		return nil
	}
	files := make(map[sdk.Ref]*File)
	for i, e := range p.v.entries {
		if !p.shows(e) {
			continue
		}
		f := p.files[e.Ref]
		if f == nil {
			f = d.newFile(versionName(i, e))
			f.dir, f.group, f.raw = d, d.group, p.v.raw
			f.become(fileVersion)
			f.setEntry(e)
		}
		f.take(e)
		files[e.Ref], named[f.name] = f, f
	}
	for ref, f := range p.files {
		if files[ref] == nil {
			d.spend(f.name, f) // it may be open still when it comes back
		}
	}
	d.group.hold(int64(len(files)-len(p.files)) * versionBytes)
	p.files = files
	return named
}

// versionName names a version by sequence, date and uploader, with the extension
// from which programs know its type. i is used where the ledger has no sequence.
func versionName(i int, e *sdk.Entry) string {
	seq := int64(e.Seq)
	if seq == 0 {
		seq = int64(i + 1)
	}
	date := "unknown"
	if !e.Time.IsZero() {
		date = e.Time.UTC().Format("20060102T150405Z")
	}
	name := names.Component(fmt.Sprintf("%06d-%s-%s%s", seq, date, e.Uploader, path.Ext(path.Base(recordedName(e)))))
	if len(name) > names.MaxBytes {
		return names.WithSuffix(name, string(e.Ref))
	}
	return name
}
