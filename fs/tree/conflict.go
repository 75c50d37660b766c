package tree

import (
	"context"
	"errors"
	"slices"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A save says which version of its name it replaces. Where others saved the name meanwhile, the service refuses it, and
// it is recorded under a name of its own (W11, O7).

// mostConflicts is how many names are tried for one save.
const mostConflicts = 20

// mostUnsure is how many saves of one name without an answer are remembered.
const mostUnsure = 8

// unsure returns the error of an upload, and remembers its content: without an answer it may be recorded.
func (t *Tree) unsure(g *group, raw string, hash sdk.Digest, err error) error {
	if err == nil || hasCode(err, wire.CodeHead) || hash == (sdk.Digest{}) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := g.version(raw)
	v.unsure = append(v.unsure[max(0, len(v.unsure)-mostUnsure+1):], hash)
	return err
}

// nameAside returns the name for a save that others overtook, and the version that it replaces there: its own name if
// they removed what they saved, or if the version is a save from here whose answer was lost.
func (t *Tree) nameAside(ctx context.Context, g *group, raw string, n int) (name string, base sdk.Ref) {
	if err := g.list.Refresh(ctx, 0); err == nil && n == 0 {
		t.mu.RLock()
		defer t.mu.RUnlock()
		v := g.names[raw]
		if base = v.newestRef(); base == "" {
			return raw, base
		}
		if e := v.newest(); e.Uploader == t.remote.Account() && slices.Contains(v.unsure, e.Hash) {
			return raw, base
		}
	}
	return outbox.ConflictName(raw, t.remote.Account(), t.now(), n), ""
}

// setAside shows a save under a name of its own, and the name that it was made under as others saved it. A program that
// has the file f open goes on with it under the new name; f may be nil. Needs Tree.mu.
func (t *Tree) setAside(f *File, g *group, row *sdk.Entry, was string) (notices []notice) {
	touched := map[*versions]bool{g.version(was): true}
	g.mergeSave(touched, *row)
	if v := g.version(recordedName(row)); f != nil && f.isKind(fileReal) {
		named := f.dir != nil || len(f.links) == 0 // else its other names stay, and a new file shows this one
		if f.dir != nil {
			notices = f.dir.detach(f.name, f)
		}
		f.raw = v.raw
		f.take(row)
		if v.shown == nil && named {
			v.shown = f
			dir, name := t.slot(g, v.raw, string(row.Ref))
			notices = append(notices, dir.attach(name, f)...)
		}
	}
	notices = append(notices, t.placeAll(g, touched)...)
	path := g.dir.path()
	return append(notices, t.noted(&Error{Class: ClassConflict, Op: "save", Path: join(path, was),
		Err: errors.New("somebody else saved this name meanwhile; the save from here is recorded as '" +
			join(path, row.Name) + "'"),
		Hint: "See both, and settle it, with: svcfs conflicts"}), func(Kernel) { g.list.Begin(0) })
}
