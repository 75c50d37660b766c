package tree

import (
	"context"
	"slices"

	"github.com/svcfs/svcfs/sdk"
)

// living returns copies of the uploads of a name that are not deleted, oldest
// first, so that what changes them one by one changes the name's look last.
func (t *Tree) living(g *group, raw string) []sdk.Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return livingOf(g.names[raw])
}

func livingOf(v *versions) (list []sdk.Entry) {
	if v == nil {
		return nil
	}
	for _, e := range v.entries {
		if e.Deleted == nil {
			list = append(list, *e)
		}
	}
	return list
}

// mayChange refuses to rename or delete uploads of which the service would refuse
// one: it obeys the uploader and the owner of the group.
func (t *Tree) mayChange(g *group, list []sdk.Entry, does string) *Error {
	t.mu.RLock()
	owned := g.owned
	t.mu.RUnlock()
	me := t.remote.Account()
	i := slices.IndexFunc(list, func(e sdk.Entry) bool { return !owned && e.Uploader != me })
	if i < 0 {
		return nil
	}
	return &Error{Class: ClassByDesign, Hint: "Ask one of them.", Err: errText("only " + string(list[i].Uploader) +
		", who uploaded it or an older version, and the owner of the group can " + does + " it")}
}

// renameUploads records another name for all versions of a file, one by one.
func (t *Tree) renameUploads(ctx context.Context, g *group, list []sdk.Entry, raw string) error {
	for i := range list {
		ctx, cancel := t.transfer(ctx, 0)
		err := t.spend(sdk.EventRenamed, func() (sdk.Amount, error) {
			return sdk.Amount{}, t.remote.RenameFile(ctx, g.id, list[i].Ref, raw)
		})
		cancel()
		if err != nil {
			return err
		}
		list[i].Name = raw
	}
	return nil
}

// mergeAll merges records that this mount renamed, and returns the names they
// touch. Needs Tree.mu.
func (g *group) mergeAll(list []sdk.Entry) map[*versions]bool {
	touched := make(map[*versions]bool)
	g.renames++
	for i := range list {
		g.renamed[list[i].Ref] = g.renames
		if known := g.byRef[list[i].Ref]; known != nil {
			list[i].ChangedSeq = known.ChangedSeq
		}
		g.merge(&list[i], touched)
	}
	for v := range touched {
		sortVersions(v)
		v.base = max(v.base, v.saved) // moving history about is no conflict
	}
	return touched
}

// placeAll needs Tree.mu.
func (t *Tree) placeAll(g *group, touched map[*versions]bool) (notices []notice) {
	for v := range touched {
		notices = append(notices, t.place(g, v)...)
	}
	return notices
}

// deleteUploads destroys the keys of all versions of a file (W9).
func (t *Tree) deleteUploads(ctx context.Context, f *File) error {
	t.mu.RLock()
	g, raw := f.group, f.raw
	t.mu.RUnlock()
	list := t.living(g, raw)
	if err := t.mayChange(g, list, "delete"); err != nil {
		return err
	}
	for i := range list {
		if err := t.deleteUpload(ctx, g, &list[i]); err != nil {
			return err
		}
		notices, _ := t.applyEntries(g, list[i:i+1], 0) // what it is called now is known
		t.tell(notices)
	}
	return nil
}

func (t *Tree) deleteUpload(ctx context.Context, g *group, e *sdk.Entry) error {
	ctx, cancel := t.transfer(ctx, 0)
	defer cancel()
	err := t.spend(sdk.EventDeleted, func() (sdk.Amount, error) {
		return sdk.Amount{}, t.remote.DeleteFile(ctx, g.id, e.Ref)
	})
	if err != nil && sdk.KindOf(err) != sdk.KindDeleted {
		return err
	}
	e.Deleted = &sdk.Deletion{Time: t.now(), By: t.remote.Account(), Reason: "OwnerRequest"}
	return nil
}
