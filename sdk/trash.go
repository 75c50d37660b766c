package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Removal is what [Group.Remove] or [Group.Restore] changed.
type Removal struct {
	Versions int64 // that were changed now; 0 when nothing was left to do
	// Until is the first time at which a removed key may be destroyed; zero when the
	// owner of the group decides, or nothing was removed now.
	Until time.Time
}

// TrashSettings are those of a group, and what is in its trash.
type TrashSettings struct {
	Days  int64 // how long a removed file can be brought back
	Who   string
	Files int64 // in the trash, versions counted one by one
	Bytes int64 // of their ciphertext
	Held  int64 // of the files, those that wait for the owner of the group
}

// Who removes files of a group.
const (
	TrashUploader = wire.TrashUploader // the uploader, while a writer, and the owner of the group
	TrashWriters  = wire.TrashWriters  // every writer; files of others then wait for the owner
)

// Remove puts all living versions of a name, as [Group.Stat] finds it, into the trash:
// nobody sees them any more, and no key is destroyed. Until the trash time of the group
// is over ([Entry].Deleted says when) [Group.Restore] brings them back; then the keys
// are destroyed as by [Group.Delete]. Who has read a file keeps what it read.
//
// Free of charge unless the operator chose otherwise. For who uploaded every version,
// the owner, and each writer where the group is set so; needs the API key. It may be
// repeated after a lost answer. Errors: [ErrUnsupported] where the service has no
// trash, which is asked before anything is sent, [ErrNotFound], [ErrNotAuthorized].
// Our extension.
func (g Group) Remove(ctx context.Context, name string) (Removal, error) {
	if err := g.needTrash(ctx, "remove"); err != nil {
		return Removal{}, err
	}
	entries, err := g.Entries(ctx)
	if err != nil {
		return Removal{}, err
	}
	list := names.List(entries, (*Entry).Named)
	recorded := list.Resolve(name)
	versions := versionsOf(entries, func(e *Entry) bool { return e.Deleted == nil && e.Named().Recorded == recorded })
	if len(versions) == 0 {
		return Removal{}, g.absent("name " + quote(name))
	}
	return g.RemoveVersions(ctx, versions)
}

// RemoveVersions is [Group.Remove] of the living versions of one name, as they were
// listed; it does not list again. What changed since then stays as it is: a later
// version, or one that was brought back. Free of charge, needs the API key, and errors,
// like it.
func (g Group) RemoveVersions(ctx context.Context, versions []Entry) (Removal, error) {
	return g.changeVersions(ctx, wire.OpRemoveFile, "remove", versions)
}

// Trash lists the files in the trash of the group, from proven records like
// [Group.List]: what was removed and can still be brought back. Free,
// needs the API key, and errors, like it.
func (g Group) Trash(ctx context.Context) ([]Entry, error) {
	if err := g.needTrash(ctx, "list the trash"); err != nil {
		return nil, err
	}
	entries, err := g.Entries(ctx)
	return versionsOf(entries, func(e *Entry) bool { return e.Deleted != nil && e.Deleted.InTrash }), err
}

// Restore takes those versions of a name out of the trash that the caller may remove.
// Where the name has a living file they become older or newer versions of it, in the
// order of their uploads. Free of charge, needs the API key, and errors, like
// [Group.Remove].
func (g Group) Restore(ctx context.Context, name string) (Removal, error) {
	trash, err := g.Trash(ctx)
	if err != nil {
		return Removal{}, err
	}
	versions := versionsOf(trash, func(e *Entry) bool {
		f := e.Named()
		return f.Recorded == name || names.Show(f.Recorded, f.Ref) == name
	})
	if len(versions) == 0 {
		return Removal{}, g.absent("name " + quote(name) + " in the trash")
	}
	return g.RestoreVersions(ctx, versions)
}

// RestoreVersions is [Group.Restore] of the versions of one name, as they were listed
// in the trash; it does not list again. What changed since then stays as it is. Free of
// charge, needs the API key, and errors, like it.
func (g Group) RestoreVersions(ctx context.Context, versions []Entry) (Removal, error) {
	return g.changeVersions(ctx, wire.OpRestoreFile, "bring back", versions)
}

// TrashSettings tells how long removed files of the group can be brought back, who
// removes files, and how much is in the trash. Free; needs the API key and membership.
// Errors: [ErrUnsupported] where the service has no trash, [ErrNotFound],
// [ErrNotAuthorized], [ErrCorrupt]. Our extension.
func (g Group) TrashSettings(ctx context.Context) (TrashSettings, error) {
	var told wire.TrashResult
	if err := g.needTrash(ctx, "ask about the trash"); err != nil {
		return TrashSettings{}, err
	}
	err := g.c.read(ctx, wire.OpGetTrash, g.request(), &told)
	if err == nil && (told.Days < 1 || told.Files < 0 || told.Bytes < 0 || told.Held < 0) {
		err = malformed(errors.New("the trash has no size or time"))
	}
	if err != nil {
		return TrashSettings{}, g.wrap("ask about the trash", err)
	}
	return TrashSettings{told.Days, told.Who, told.Files, told.Bytes, told.Held}, nil
}

// SetTrash sets how many days removed files can be brought back, 1 to 3650, and who
// removes files, [TrashUploader] or [TrashWriters]; 0 and "" leave what there is. A new
// time is for what is removed from then on. Free of charge unless the operator chose
// otherwise. Owner only; needs the API key. Errors: [ErrInvalid], and those of
// [Group.TrashSettings]. Our extension.
func (g Group) SetTrash(ctx context.Context, days int64, who string) (Change, error) {
	if err := g.needTrash(ctx, "set the trash"); err != nil {
		return Change{}, err
	}
	request := wire.SetTrashRequest{GroupID: string(g.ID), Who: who}
	if days != 0 {
		request.Days = &days
	}
	done, err := g.change(ctx, wire.OpSetGroupTrash, request, "Set the trash of group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("set the trash", err))
}

func (g Group) needTrash(ctx context.Context, op string) error {
	return g.wrap(op, g.c.need(ctx, wire.CapTrash, "keep removed files"))
}

func versionsOf(entries []Entry, is func(*Entry) bool) (list []Entry) {
	for i := range entries {
		if is(&entries[i]) {
			list = append(list, entries[i])
		}
	}
	return list
}

// changeVersions sends a request for each recorded name of versions, which is one but
// where an upload without a name looks like one that has it.
func (g Group) changeVersions(ctx context.Context, op, does string, versions []Entry) (done Removal, err error) {
	if err := g.needTrash(ctx, does); err != nil {
		return done, err
	}
	var seen Seq
	requests := map[string]*wire.NameRequest{}
	for i := range versions {
		e := &versions[i]
		seen = max(seen, e.ChangedSeq)
		request := &wire.NameRequest{GroupID: string(g.ID), Filename: e.Name}
		if e.Name == "" {
			request.IPFSHash = string(e.Ref)
		}
		requests[e.Name] = request
	}
	for _, request := range requests {
		request.Seq = int64(seen)
		for more := true; more; {
			var answer wire.NameResult
			err := g.c.read(ctx, op, request, &answer) // may be repeated: it names what was seen
			if err == nil && answer.More && answer.Files <= 0 {
				err = malformed(fmt.Errorf("it changed %d versions and has more", answer.Files))
			}
			if err != nil {
				return done, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.c.wrap(does, g.ID, versions[0].Ref, err))
			}
			if done.Until.IsZero() {
				done.Until = parseTime(answer.Until)
			}
			done.Versions, more = done.Versions+max(answer.Files, 0), answer.More
		}
	}
	return done, nil
}
