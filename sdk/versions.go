package sdk

import (
	"context"
	"errors"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Keep is which older versions of its names a group keeps: the newest Last versions of each
// name, 1 to 10000, or the versions that were replaced less than Days ago, 1 to 3650. At
// most one of both is set. The zero Keep keeps all, which is the default. The newest version
// of a name always stays.
type Keep = wire.Keep

// ParseKeep reads a [Keep] as its String prints it: "all", "5" or "30d". Local, free.
func ParseKeep(text string) (Keep, error) { return wire.ParseKeep(text) }

// VersionSettings is which older versions a group keeps.
type VersionSettings struct {
	Keep   Keep
	Next   Keep      // the setting that is delayed
	NextAt time.Time // when Next begins; zero = none is delayed
}

// Thinning is what a [Keep] would destroy.
type Thinning struct {
	Files    int64 // names that would lose versions
	Versions int64 // that would be destroyed, of all names
	Bytes    int64 // their ciphertext that comes free at once: without what they share with versions that stay
	// Names is the page of the names, in byte order. More follow if More is set.
	Names []ThinnedName
	More  bool
}

// ThinnedName is a name that would lose versions.
type ThinnedName struct {
	Name     string // as recorded: hostile input
	Versions int64
	Bytes    int64 // ciphertext that comes free at once
}

// VersionSettings returns which older versions of its names the group keeps, and the
// setting that is delayed. It is free and needs the API key and membership. Errors:
// [ErrUnsupported] at a service that always keeps all, [ErrNotFound], [ErrNotAuthorized],
// [ErrCorrupt]. Only svcd has it.
func (g Group) VersionSettings(ctx context.Context) (VersionSettings, error) {
	var told wire.VersionsResult
	err := g.c.read(ctx, wire.OpGetGroupVersions, g.request(), &told)
	var s VersionSettings
	if err == nil {
		s, err = settingsOf(told.Keep, told.Next, told.At)
	}
	return s, g.wrap("ask which versions are kept", err)
}

func settingsOf(keep, next, at string) (s VersionSettings, err error) {
	if s.Keep, err = ParseKeep(keep); err == nil && next != "" {
		s.Next, err = ParseKeep(next)
		s.NextAt = parseTime(at)
	}
	if err == nil && next != "" && s.NextAt.IsZero() {
		err = errors.New("a setting that waits has no time")
	}
	if err != nil {
		return VersionSettings{}, call.Malformed(err)
	}
	return s, nil
}

// SetVersions makes the service destroy older versions of the names of the group, from then
// on, and those that are there. A version goes only if its client knew that names have
// versions, as this package does: files of the JavaScript SDKs, and files from before the
// service had this setting, stay. Versions in the trash stay there. A service may delay a
// setting that keeps less; then the Message and [Group.Pending] tell when it begins, and
// [Group.Keep] cancels it. [Group.TryVersions] tells before what would go.
//
// SetVersions is free unless the operator set a price. Only the owner may call it; it needs
// the API key. Errors: [ErrInvalid], and those of [Group.VersionSettings]. Only svcd has it.
func (g Group) SetVersions(ctx context.Context, keep Keep) (Change, error) {
	request := wire.SetVersionsRequest{GroupID: string(g.ID), Keep: keep.String()}
	done, err := g.change(ctx, wire.OpSetGroupVersions, request, "Set which versions group "+g.quoted()+" keeps")
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("set which versions are kept", err))
}

// TryVersions returns what [Group.SetVersions] would destroy first, if nothing else changed
// until then, and a page of the names that sort after the name after; "" begins. Nothing
// changes. It is free. Only the owner may call it; it needs the API key. The slice belongs
// to the caller. Errors: those of [Group.SetVersions], [ErrCorrupt]. Only svcd has it.
func (g Group) TryVersions(ctx context.Context, keep Keep, after string) (Thinning, error) {
	var told wire.TryVersionsResult
	err := g.c.read(ctx, wire.OpTryGroupVersions, wire.SetVersionsRequest{GroupID: string(g.ID), Keep: keep.String(), After: after}, &told)
	t := Thinning{Files: told.Files, Versions: told.Versions, Bytes: told.Bytes, More: told.More}
	sane := t.Files >= int64(len(told.Names)) && t.Versions >= t.Files && t.Bytes >= 0 && (len(told.Names) > 0 || !t.More)
	for _, n := range told.Names {
		sane = sane && n.Versions > 0 && n.Bytes >= 0 && n.Filename > after
		t.Names = append(t.Names, ThinnedName{n.Filename, n.Versions, n.Bytes})
		after = n.Filename
	}
	if err == nil && !sane {
		err = call.Malformed(errors.New("what would go does not add up"))
	}
	if err != nil {
		return Thinning{}, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("try which versions would go", err))
	}
	return t, nil
}
