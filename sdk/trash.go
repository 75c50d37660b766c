package sdk

import (
	"context"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Removal is the result of [Group.Remove] or [Group.Restore].
type Removal struct {
	Versions int64 // number of versions changed by this call; 0 = they were changed before
	// Until is when the service may destroy the first of the removed keys; zero when the
	// owner of the group decides, or when this call removed nothing.
	Until time.Time
	// Entries are the versions as they are now, as [Group.List] lists them, without Tx: those of the
	// records that the service answered, which are fewer than Versions where a name has very many.
	Entries []Entry
}

// Remove moves all living versions of a name, see [Group.Stat], to the trash. Lists and
// mounts stop showing them, and no key is destroyed. [Group.Restore] brings them back until
// the time in Entry.Deleted.Until; then the service destroys the keys like [Group.Delete].
// Accounts keep the content that they read before.
//
// Remove is free unless the operator set a price. The owner may call it, an account that
// uploaded every version, and with [wire.TrashWriters] each writer. It needs the API key. It may
// be repeated after a lost answer. Errors: [ErrUnsupported] at a service without trash,
// where nothing is sent, [ErrNotFound], [ErrNotAuthorized]. Only svcd has it.
func (g Group) Remove(ctx context.Context, name string) (Removal, error) {
	if err := g.offers(ctx, "remove", wire.OpRemoveFile); err != nil {
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

// RemoveVersions is [Group.Remove] for listed living versions of one name, without another
// list. Changes since that list stay: a later version remains, and so does a restored one.
// The price is that of [Group.Remove]: mostly free. It needs the API key. Errors: those of
// [Group.Remove].
func (g Group) RemoveVersions(ctx context.Context, versions []Entry) (Removal, error) {
	return g.changeVersions(ctx, wire.OpRemoveFile, "remove", versions)
}

// Trash lists the files in the trash of the group, verified like [Group.List]: files that
// were removed and can still be restored. The slice belongs to the caller. Trash is free
// and needs the API key. Errors: those of [Group.List], [ErrUnsupported] at a service
// without trash.
func (g Group) Trash(ctx context.Context) ([]Entry, error) {
	if err := g.offers(ctx, "list the trash", wire.OpGetTrash); err != nil {
		return nil, err
	}
	entries, err := g.Entries(ctx)
	return versionsOf(entries, func(e *Entry) bool { return e.Deleted != nil && e.Deleted.InTrash }), err
}

// Restore brings back the versions of a name that the caller may remove. If the name has a
// living file, they become versions of that file, in the order of their uploads. The price
// is that of [Group.Remove]: mostly free. It needs the API key. Errors: those of
// [Group.Remove].
func (g Group) Restore(ctx context.Context, name string) (Removal, error) {
	trash, err := g.Trash(ctx)
	if err != nil {
		return Removal{}, err
	}
	list := names.List(trash, func(e *Entry) names.File {
		f := e.Named()
		f.Deleted = false
		return f
	})
	recorded := list.Resolve(name) // one name: another account may have removed a file that is shown so too
	versions := versionsOf(trash, func(e *Entry) bool { return e.Named().Recorded == recorded })
	if len(versions) == 0 {
		return Removal{}, g.absent("name " + quote(name) + " in the trash")
	}
	return g.RestoreVersions(ctx, versions)
}

// RestoreVersions is [Group.Restore] for versions of one name as [Group.Trash] listed them,
// without another list. Changes since that list stay. The price is that of [Group.Remove]:
// mostly free. It needs the API key. Errors: those of [Group.Remove].
func (g Group) RestoreVersions(ctx context.Context, versions []Entry) (Removal, error) {
	return g.changeVersions(ctx, wire.OpRestoreFile, "bring back", versions)
}

func versionsOf(entries []Entry, is func(*Entry) bool) (list []Entry) {
	for i := range entries {
		if is(&entries[i]) {
			list = append(list, entries[i])
		}
	}
	return list
}

// changeVersions sends one request for each recorded name of versions, or each content
// without a name. There is more than one only if an upload without a name shows as a name
// that another upload has.
func (g Group) changeVersions(ctx context.Context, op, does string, versions []Entry) (done Removal, err error) {
	var seen Seq
	type recorded struct {
		name, contentType string
		hash              Digest
	}
	requests := map[recorded]*wire.NameRequest{}
	for i := range versions {
		e := &versions[i]
		seen = max(seen, e.ChangedSeq)
		what, request := recorded{name: e.Name}, &wire.NameRequest{GroupID: string(g.ID), Filename: e.Name}
		if e.Name == "" { // a name made of a part of the hash may show another content too
			what, request.IPFSHash = recorded{hash: e.Hash, contentType: e.ContentType}, string(e.Ref)
		}
		requests[what] = request
	}
	for _, request := range requests {
		request.Seq = int64(seen)
		if err := g.changeName(ctx, op, request, &done); err != nil {
			return done, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.c.wrap(does, g.ID, versions[0].Ref, err))
		}
	}
	return done, nil
}

// changeName sends a request until no versions of its name are left, and adds what changed to done.
func (g Group) changeName(ctx context.Context, op string, request *wire.NameRequest, done *Removal) error {
	kind := EventRemoved
	if op == wire.OpRestoreFile {
		kind = EventRestored
	}
	for more := true; more; {
		after := g.c.memory.Group(string(g.ID)).Number
		var answer wire.NameResult
		err := g.c.read(ctx, op, request, &answer) // may be repeated, because the request names the versions
		if err != nil {
			return err
		}
		if told := int64(len(answer.Records)); answer.Files < told || answer.Files > 0 && told == 0 || answer.More &&
			told == 0 {
			return call.Malformed(fmt.Errorf("it changed %d versions with %d records", answer.Files, told))
		}
		entries, err := g.changedFiles(ctx, after, answer.Recorded, func(r *chain.Record) bool {
			return r.Kind == kind && r.Tag(chain.TagName) == request.Filename
		})
		if err != nil {
			return err
		}
		if done.Until.IsZero() {
			done.Until = parseTime(answer.Until)
		}
		done.Versions, done.Entries, more = done.Versions+answer.Files, append(done.Entries, entries...), answer.More
	}
	return nil
}
