package tree

import (
	"context"
	"errors"
	"slices"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
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
	for _, e := range v.waiting {
		list = append(list, *e)
	}
	return list
}

// uploaderOf returns an account whose upload the service would not rename or delete for
// this account, or "". The service obeys the uploader and the owner of the group. Needs Tree.mu.
func (g *group) uploaderOf(list []sdk.Entry) sdk.AccountID {
	me := g.dir.t.remote.Account()
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

// renameUploads has the service rename uploads, one by one (W8), and returns them as they are then. When
// one fails, those that have their new names are shown under them.
func (g *group) renameUploads(ctx context.Context, list []sdk.Entry,
	rename func(old string) string) (rows []sdk.Entry, err error) {
	t := g.dir.t
	for i := range list {
		row := list[i]
		row.Name = rename(row.Name)
		if isWaiting(&row) {
			base := g.refOf(row.Name)
			if i > 0 {
				base = list[i-1].Ref
			}
			err = t.queue.Rename(ctx, outbox.IDOf(row.Ref), row.Name, base)
		} else {
			err = t.spent.Spend(sdk.EventRenamed, func() (_ sdk.Amount, err error) {
				row, err = t.remote.RenameFile(ctx, g.id, row.Ref, row.Name)
				return sdk.Amount{}, err
			})
		}
		if err != nil {
			t.change(func() []notice { return g.placeAll(g.mergeOwn(rows)) })
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// mergeOwn merges what a change of this mount made of uploads, and returns the names that it touches. A row
// with the number of the known one has another name without a record of its own that is known. Needs Tree.mu.
func (g *group) mergeOwn(rows []sdk.Entry) map[*versions]bool {
	touched := make(map[*versions]bool)
	for i := range rows {
		row := rows[i]
		known := g.entry(row.Ref)
		if known == nil { // it waited, and was recorded meanwhile, under its new name
			continue
		}
		if known.Number == row.Number {
			name, at := row.Name, row.ChangedSeq
			row = *known
			row.Name, row.ChangedSeq = name, max(row.ChangedSeq, at)
		}
		if !row.Folder { // also where others renamed the upload once more, and a listing was faster
			touched[g.version(recordedName(known))], touched[g.version(recordedName(&row))] = true, true
		}
		g.mergeSave(touched, row)
	}
	for v := range touched {
		v.base = max(v.base, v.saved) // moving history about is no conflict
	}
	return touched
}

// trashUploads puts all versions of a file into the trash of its group (W9).
func (f *File) trashUploads(ctx context.Context) error {
	f.t.mu.RLock()
	g := f.group
	list := livingOf(g.names[f.raw])
	f.t.mu.RUnlock()
	return g.trashVersions(ctx, list)
}

// trashVersions puts the versions of a name into the trash, with one request. The
// service knows whether every writer may.
func (g *group) trashVersions(ctx context.Context, list []sdk.Entry) error {
	t := g.dir.t
	list, err := t.queue.RemoveFrom(ctx, list)
	if err != nil || len(list) == 0 {
		return err
	}
	var removed []sdk.Entry
	err = t.spent.Spend(sdk.EventRemoved, func() (_ sdk.Amount, err error) {
		removed, err = t.remote.RemoveVersions(ctx, g.id, list)
		return sdk.Amount{}, err
	})
	if sdk.KindOf(err) == sdk.ErrNotAuthorized {
		t.mu.RLock()
		theirs := g.uploaderOf(list)
		t.mu.RUnlock()
		if theirs != "" {
			return uploadedBy(theirs, "remove")
		}
	}
	if err != nil {
		return err
	}
	g.applyOwn(ctx, list, removed)
	return nil
}

// applyOwn shows what a change of this mount made of the uploads of list. Where the answer does not have one of them,
// others changed it as well, an answer was lost, or there are very many: then the group is listed.
func (g *group) applyOwn(ctx context.Context, list, answered []sdk.Entry) {
	answered = slices.DeleteFunc(answered, func(e sdk.Entry) bool { return e.Ref == "" })
	g.dir.t.change(func() []notice { return g.mergeEntries(answered) })
	for i := range list {
		if !slices.ContainsFunc(answered, func(e sdk.Entry) bool { return e.Ref == list[i].Ref }) {
			_ = g.list.Refresh(ctx, 0) // the next look brings it
			return
		}
	}
}

// deleteUploads destroys the keys of all versions of a file (W9).
func (f *File) deleteUploads(ctx context.Context) error {
	t := f.t
	t.mu.RLock()
	g := f.group
	list := livingOf(g.names[f.raw])
	theirs := g.uploaderOf(list)
	t.mu.RUnlock()
	if theirs != "" {
		return uploadedBy(theirs, "delete")
	}
	list, err := t.queue.RemoveFrom(ctx, list)
	if err != nil {
		return err
	}
	var waits error // the service deletes some later: the others go on
	var tried, deleted []sdk.Entry
	defer func() { g.applyOwn(ctx, tried, deleted) }()
	for i := range list {
		e, err := g.deleteUpload(ctx, list[i].Ref)
		switch {
		case sdk.KindOf(err) == sdk.ErrPending:
			waits = err
		case err != nil:
			return err
		default:
			tried, deleted = append(tried, list[i]), append(deleted, e)
		}
	}
	return waits
}

// deleteUpload returns an entry without Ref if the upload was deleted before.
func (g *group) deleteUpload(ctx context.Context, ref sdk.Ref) (e sdk.Entry, err error) {
	err = g.dir.t.spent.Spend(sdk.EventDeleted, func() (_ sdk.Amount, err error) {
		e, err = g.dir.t.remote.DeleteFile(ctx, g.id, ref)
		return sdk.Amount{}, err
	})
	if sdk.KindOf(err) == sdk.ErrDeleted {
		return sdk.Entry{}, nil
	}
	return e, err
}
