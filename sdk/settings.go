package sdk

import (
	"context"
	"errors"
	"strconv"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Settings are the settings of a group, and what they delay. Every member sees them; only the owner changes them.
// [Group.Settings] returns them.
type Settings struct{ g Group }

// Settings returns the settings of the group. Local, free.
func (g Group) Settings() Settings { return Settings{g} }

// SetRetention makes the service destroy each file of the group days after its upload; 0
// means at once. A service may delay a shorter window; then the Message and [Settings.Pending]
// say so. It is free on a self-hosted service. Only the owner may call it; it needs the API
// key. Errors: [ErrNotFound], [ErrNotAuthorized]. Wire protocol 3.3.
func (s Settings) SetRetention(ctx context.Context, days int64) (Change, error) {
	return s.retention(ctx, &days, "Set retention for group "+s.g.quoted()+" to "+strconv.FormatInt(days, 10)+" days")
}

// ClearRetention makes the service keep files again. It is free on a self-hosted service.
// Only the owner may call it; it needs the API key. Errors: those of [Settings.SetRetention].
func (s Settings) ClearRetention(ctx context.Context) (Change, error) {
	return s.retention(ctx, nil, "Cleared retention window for group "+s.g.quoted())
}

func (s Settings) retention(ctx context.Context, days *int64, done string) (Change, error) {
	request := wire.RetentionRequest{GroupID: string(s.g.ID), RetentionDays: days}
	change, err := s.g.change(ctx, wire.OpSetGroupRetention, request, done)
	return change, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, s.g.wrap("set retention", err))
}

// Retention returns after how many days the service destroys a file of the group. set is
// false if the service keeps files. Free, no authentication. Errors: [ErrUnavailable],
// [ErrTimeout], [ErrCorrupt].
func (s Settings) Retention(ctx context.Context) (days int64, set bool, err error) {
	var told *int64
	if err := s.g.c.rpc.view(ctx, "get_group_retention", groupArgs{GroupID: s.g.ID}, &told); err != nil || told == nil {
		return 0, false, s.g.wrap("ask retention", err)
	}
	if *told < 0 {
		return 0, false, s.g.wrap("ask retention", call.Malformed(errors.New("the retention is negative")))
	}
	return *told, true, nil
}

// Versions returns which older versions of its names the group keeps, and the
// setting that is delayed. It is free and needs the API key and membership. Errors:
// [ErrUnsupported] at a service that always keeps all, [ErrNotFound], [ErrNotAuthorized],
// [ErrCorrupt]. Only svcd has it.
func (s Settings) Versions(ctx context.Context) (wire.VersionSettings, error) {
	var told wire.VersionsResult
	err := s.g.c.read(ctx, wire.OpGetGroupVersions, s.g.request(), &told)
	var set wire.VersionSettings
	if err == nil {
		set, err = settingsOf(told.Keep, told.Next, told.At)
	}
	return set, s.g.wrap("ask which versions are kept", err)
}

func settingsOf(keep, next, at string) (s wire.VersionSettings, err error) {
	if s.Keep, err = wire.ParseKeep(keep); err == nil && next != "" {
		s.Next, err = wire.ParseKeep(next)
		s.NextAt = parseTime(at)
	}
	if err == nil && next != "" && s.NextAt.IsZero() {
		err = errors.New("a setting that waits has no time")
	}
	if err != nil {
		return wire.VersionSettings{}, call.Malformed(err)
	}
	return s, nil
}

// SetVersions makes the service destroy older versions of the names of the group, from then
// on, and those that are there. A version goes only if its client knew that names have
// versions, as this package does: files of the JavaScript SDKs, and files from before the
// service had this setting, stay. Versions in the trash stay there. A service may delay a
// setting that keeps less; then the Message and [Settings.Pending] tell when it begins, and
// [Settings.Keep] cancels it. [Settings.TryVersions] tells before what would go.
//
// SetVersions is free unless the operator set a price. Only the owner may call it; it needs
// the API key. Errors: [ErrInvalid], and those of [Settings.Versions]. Only svcd has it.
func (s Settings) SetVersions(ctx context.Context, keep wire.Keep) (Change, error) {
	request := wire.SetVersionsRequest{GroupID: string(s.g.ID), Keep: keep.String()}
	done, err := s.g.change(ctx, wire.OpSetGroupVersions, request, "Set which versions group "+s.g.quoted()+" keeps")
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, s.g.wrap("set which versions are kept", err))
}

// TryVersions returns what [Settings.SetVersions] would destroy first, if nothing else changed
// until then, and a page of the names that sort after the name after; "" begins. Nothing
// changes. It is free. Only the owner may call it; it needs the API key. The slice belongs
// to the caller; names are hostile input. Errors: those of [Settings.SetVersions], [ErrCorrupt]. Only svcd has it.
func (s Settings) TryVersions(ctx context.Context, keep wire.Keep, after string) (wire.TryVersionsResult, error) {
	request := wire.TryVersionsRequest{GroupID: string(s.g.ID), Keep: keep.String(), After: after}
	var would wire.TryVersionsResult
	err := s.g.c.read(ctx, wire.OpTryGroupVersions, request, &would)
	if err == nil && !addsUp(&would, after) {
		err = call.Malformed(errors.New("what would go does not add up"))
	}
	if err != nil {
		err = withCode(ErrNotAuthorized, wire.CodeOwnerOnly, s.g.wrap("try which versions would go", err))
		return wire.TryVersionsResult{}, err
	}
	return would, nil
}

// addsUp reports whether an answer with a page of the names after one makes sense.
func addsUp(t *wire.TryVersionsResult, after string) bool {
	sane := t.Files >= int64(len(t.Names)) && t.Versions >= t.Files && t.Bytes >= 0 && (len(t.Names) > 0 || !t.More)
	for _, n := range t.Names {
		sane = sane && n.Versions > 0 && n.Bytes >= 0 && n.Filename > after
		after = n.Filename
	}
	return sane
}

// Trash returns for how long removed files of the group can be restored, which
// accounts may remove files, and how much is in the trash. It is free and needs the API key
// and membership. Errors: [ErrUnsupported] at a service without trash, [ErrNotFound],
// [ErrNotAuthorized], [ErrCorrupt]. Only svcd has it.
func (s Settings) Trash(ctx context.Context) (wire.TrashResult, error) {
	var told wire.TrashResult
	err := s.g.c.read(ctx, wire.OpGetTrash, s.g.request(), &told)
	if err == nil && (told.Days < 1 || told.Files < 0 || told.Bytes < 0 || told.Held < 0) {
		err = call.Malformed(errors.New("the trash has no size or time"))
	}
	if err != nil {
		return wire.TrashResult{}, s.g.wrap("ask about the trash", err)
	}
	return told, nil
}

// SetTrash sets for how many days removed files can be restored, 1 to 3650, and which
// accounts may remove files, [wire.TrashUploader] or [wire.TrashWriters]. 0 and "" keep the present
// setting. A new time applies to later removals. SetTrash is free unless the operator set a
// price. Only the owner may call it; it needs the API key. Errors: [ErrInvalid], and those
// of [Settings.Trash]. Only svcd has it.
func (s Settings) SetTrash(ctx context.Context, days int64, who string) (Change, error) {
	request := wire.SetTrashRequest{GroupID: string(s.g.ID), Who: who}
	if days != 0 {
		request.Days = &days
	}
	done, err := s.g.change(ctx, wire.OpSetGroupTrash, request, "Set the trash of group "+s.g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, s.g.wrap("set the trash", err))
}

// Get returns the settings of the group that have one value and apply at once; the others have methods of
// their own.
//
//   - Format is the newest format version that new files may have: 2, the default, or 1. Files of version 2
//     have any size and are read and changed in part; the JavaScript SDKs and the hosted service read version 1 only.
//   - Appends is what mounts make of an append to a file that others saved meanwhile: [wire.AppendsApart], the
//     default, or [wire.AppendsMerge].
//   - Keys is how keys of files are given: [wire.KeysAny], the default, or [wire.KeysSealed].
//
// Get is free and needs the API key and membership. Errors: [ErrUnsupported] at a service without these settings,
// [ErrNotFound], [ErrNotAuthorized], [ErrCorrupt]. Only svcd has it.
func (s Settings) Get(ctx context.Context) (wire.GroupSettings, error) {
	var told wire.GroupSettings
	err := s.g.c.read(ctx, wire.OpGetGroupSettings, s.g.request(), &told)
	if err == nil && (told.Check() != nil || told.Format == 0 || told.Appends == "" || told.Keys == "") {
		err = call.Malformed(errors.New("the group has a setting that nobody could set"))
	}
	if err != nil {
		return wire.GroupSettings{}, s.g.wrap("ask for the settings", err)
	}
	return told, nil
}

// Set changes settings that [Settings.Get] returns: all that are not zero, or none of them. Files that are there,
// and uploads that were begun, keep their format. With [wire.KeysSealed] files are saved and read through sealed
// sessions alone, such as this client has: programs that get keys in the clear are refused, and the vault gives the
// key of a file that is saved from then on to no such program, also after [wire.KeysAny].
//
// Set is free unless the operator set a price for one of the settings. Only the owner may call it; it needs the API
// key. Errors: [ErrInvalid], and those of [Settings.Get]. Only svcd has it.
func (s Settings) Set(ctx context.Context, to wire.GroupSettings) (Change, error) {
	request := wire.SetGroupSettingsRequest{GroupID: string(s.g.ID), GroupSettings: to}
	done, err := s.g.change(ctx, wire.OpSetGroupSettings, request, "Changed the settings of group "+s.g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, s.g.wrap("change the settings", err))
}
