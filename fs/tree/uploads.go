package tree

import (
	"context"
	"errors"
	"slices"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// livingOf returns copies of the uploads of a name that are not deleted, oldest first:
// whoever changes them one by one changes the upload that is shown last. Needs Tree.mu.
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

// uploaderOf returns an account whose upload the service would not rename or delete for
// this account, or "". The service obeys the uploader and the owner of the group. Needs Tree.mu.
func (t *Tree) uploaderOf(g *group, list []sdk.Entry) sdk.AccountID {
	me := t.remote.Account()
	i := slices.IndexFunc(list, func(e sdk.Entry) bool { return !g.owned && e.Uploader != me })
	if i < 0 {
		return ""
	}
	return list[i].Uploader
}

func uploadedBy(account sdk.AccountID, does string) *Error {
	return &Error{Class: ClassByDesign, Hint: "Ask one of them.", Err: errors.New("only " + string(account) +
		", who uploaded it or an older version, and the owner of the group can " + does + " it")}
}

// renameUploads has the service rename uploads, one by one (W8). When one fails, those
// that have their new names are shown under them.
func (t *Tree) renameUploads(ctx context.Context, g *group, list []sdk.Entry, rename func(old string) string) error {
	for i := range list {
		var err error
		if isWaiting(&list[i]) {
			base := t.refOf(g, rename(list[i].Name))
			if i > 0 {
				base = list[i-1].Ref
			}
			err = t.cfg.Outbox.Rename(ctx, outbox.IDOf(list[i].Ref), rename(list[i].Name), base)
		} else {
			err = t.spend(sdk.EventRenamed, func() (sdk.Amount, error) {
				return sdk.Amount{}, t.remote.RenameFile(ctx, g.id, list[i].Ref, rename(list[i].Name))
			})
		}
		if err != nil {
			t.change(func() []notice { return t.placeAll(g, g.mergeRenamed(list[:i], rename, 0)) })
			return err
		}
	}
	return nil
}

// mergeRenamed merges the names that this mount gave uploads, which are as they
// were before, and returns the names it touches. An upload that a listing shows
// under a third name by now was renamed by others as well, and the listing wins. at is the
// sequence of the record, 0 where it is not known: a later rename of a folder states it as
// seen. Needs Tree.mu.
func (g *group) mergeRenamed(list []sdk.Entry, rename func(old string) string, at sdk.Seq) map[*versions]bool {
	touched := make(map[*versions]bool)
	for i := range list {
		known := g.byRef[list[i].Ref]
		if known == nil { // it waited, and was recorded meanwhile, under its new name
			continue
		}
		row, name := *known, rename(list[i].Name)
		if row.Name != list[i].Name && row.Name != name {
			if row.Folder {
				continue
			}
			touched[g.version(row.Name)], touched[g.version(name)] = true, true
			continue
		}
		row.Name, row.ChangedSeq = name, max(row.ChangedSeq, at)
		g.here[row.Ref] = g.listings
		g.merge(&row, touched)
	}
	for v := range touched {
		sortEntries(v.entries)
		v.base = max(v.base, v.saved) // moving history about is no conflict
	}
	return touched
}

// trashUploads puts all versions of a file into the trash of its group (W9).
func (t *Tree) trashUploads(ctx context.Context, f *File) error {
	t.mu.RLock()
	g := f.group
	list := livingOf(g.names[f.raw])
	t.mu.RUnlock()
	return t.trashVersions(ctx, g, list)
}

// trashVersions puts the versions of a name into the trash, with one request. The
// service knows whether every writer may.
func (t *Tree) trashVersions(ctx context.Context, g *group, list []sdk.Entry) error {
	list, err := t.removeWaiting(ctx, list)
	if err != nil || len(list) == 0 {
		return err
	}
	err = t.spend(sdk.EventRemoved, func() (sdk.Amount, error) {
		return sdk.Amount{}, t.remote.RemoveVersions(ctx, g.id, list)
	})
	if sdk.KindOf(err) == sdk.ErrNotAuthorized {
		t.mu.RLock()
		theirs := t.uploaderOf(g, list)
		t.mu.RUnlock()
		if theirs != "" {
			return uploadedBy(theirs, "remove")
		}
	}
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Deleted = &sdk.Deletion{Time: t.now(), By: t.remote.Account(), Reason: wire.ReasonOwnerRequest, InTrash: true}
		t.tell(t.applyDeleted(g, list[i]))
	}
	return nil
}

// deleteUploads destroys the keys of all versions of a file (W9).
func (t *Tree) deleteUploads(ctx context.Context, f *File) error {
	t.mu.RLock()
	g := f.group
	list := livingOf(g.names[f.raw])
	theirs := t.uploaderOf(g, list)
	t.mu.RUnlock()
	if theirs != "" {
		return uploadedBy(theirs, "delete")
	}
	list, err := t.removeWaiting(ctx, list)
	if err != nil {
		return err
	}
	var waits error // the service deletes some later: the others go on
	for i := range list {
		err := t.deleteUpload(ctx, g, &list[i])
		switch {
		case sdk.KindOf(err) == sdk.ErrPending:
			waits = err
		case err != nil:
			return err
		default:
			t.tell(t.applyDeleted(g, list[i]))
		}
	}
	return waits
}

func (t *Tree) deleteUpload(ctx context.Context, g *group, e *sdk.Entry) error {
	err := t.spend(sdk.EventDeleted, func() (sdk.Amount, error) {
		return sdk.Amount{}, t.remote.DeleteFile(ctx, g.id, e.Ref)
	})
	if err != nil && sdk.KindOf(err) != sdk.ErrDeleted {
		return err
	}
	e.Deleted = &sdk.Deletion{Time: t.now(), By: t.remote.Account(), Reason: wire.ReasonOwnerRequest}
	return nil
}
