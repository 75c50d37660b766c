package tree

import (
	"slices"
	"sync"

	"github.com/svcfs/svcfs/sdk"
)

// openedKept is how many opens are remembered: 200 KB.
const openedKept = 4096

// opened remembers which version of a name a process saw: a program that reads a file, and later renames
// another one over it, replaces that version, whatever the mount learned in between (W11, O7). It is safe
// for concurrent use.
type opened struct {
	mu    sync.Mutex
	seqs  map[openedBy]sdk.Seq
	order []openedBy // in which they came; a ring
	next  int
}

type openedBy struct {
	pid   uint32
	group sdk.GroupID
	raw   string
}

// note remembers that a process opened a version of a name; process 0 is not known.
func (o *opened) note(by openedBy, seq sdk.Seq) {
	if by.pid == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seqs == nil {
		o.seqs = make(map[openedBy]sdk.Seq)
	}
	if _, ok := o.seqs[by]; !ok && len(o.order) < openedKept {
		o.order = append(o.order, by)
	} else if !ok {
		delete(o.seqs, o.order[o.next])
		o.order[o.next] = by
		o.next = (o.next + 1) % openedKept
	}
	o.seqs[by] = seq
}

func (o *opened) by(who openedBy) (seq sdk.Seq, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seq, ok = o.seqs[who]
	return seq, ok
}

// noteOpened remembers the version that a program opens under its name, not in the history or as a backup.
func (f *File) noteOpened(caller Caller) {
	if e := f.entry.Load(); e != nil && !isWaiting(e) && f.isKind(fileReal) {
		f.t.opened.note(openedBy{processOf(caller), e.Group, recordedName(e)}, e.Seq)
	}
}

// processOf is the process behind a request, 0 when it is not known.
func processOf(c Caller) uint32 {
	if c.Process != nil {
		return c.Process()
	}
	return c.PID
}

// replacedBy returns the newest upload that is not deleted of those that f replaces, a file that a program made anew
// and gave this name, as far as the program knew them: what it had opened under the name, and what this mount saved
// since. ok is false for a program that opened nothing there: it replaces what its folder shows. Needs Tree.mu.
func (g *group) replacedBy(f *File, raw string) (e *sdk.Entry, ok bool) {
	known, ok := f.t.opened.by(openedBy{f.maker, g.id, raw}) // process 0 has opened nothing
	v := g.names[raw]
	if !ok || v == nil {
		return nil, ok
	}
	if n := len(v.waiting); n > 0 {
		return v.waiting[n-1], true
	}
	for _, e := range slices.Backward(v.entries) {
		if _, ours := g.own[e.Ref]; e.Deleted == nil && (ours || e.Seq <= known) {
			return e, true
		}
	}
	return nil, true
}

// unseen returns the newest upload of a name that f replaces and its program did not know, nil if it knew all. Needs
// Tree.mu.
func (g *group) unseen(f *File, raw string) *sdk.Entry {
	was, ok := g.replacedBy(f, raw)
	if !ok || g.names[raw] == nil {
		return nil
	}
	if newest := g.names[raw].newest(); newest != nil && (was == nil || newest.Seq > was.Seq) {
		return newest
	}
	return nil
}
