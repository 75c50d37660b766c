package sdk

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Format returns the newest format version that new files of the group may have: 2, the
// default, or 1. Files of version 2 have any size and are read and changed in part; the JavaScript
// SDKs and the hosted service read version 1 only. It is free and needs the API key and
// membership. Errors: [ErrUnsupported] at a service that has version 1 only, [ErrNotFound],
// [ErrNotAuthorized], [ErrCorrupt]. Only svcd has it.
func (g Group) Format(ctx context.Context) (int64, error) {
	var told wire.FormatResult
	err := g.c.read(ctx, wire.OpGetGroupFormat, g.request(), &told)
	if err == nil && told.Format != format.Version && told.Format != format.VersionBlocks {
		err = call.Malformed(errors.New("the group has a format that nobody could set"))
	}
	if err != nil {
		return 0, g.wrap("ask for the format", err)
	}
	return told.Format, nil
}

// SetFormat sets the newest format version that new files of the group may have, 1 or 2.
// Files that are there, and uploads that were begun, stay as they are. SetFormat is free unless the
// operator set a price. Only the owner may call it; it needs the API key. Errors:
// [ErrInvalid], and those of [Group.Format]. Only svcd has it.
func (g Group) SetFormat(ctx context.Context, newest int64) (Change, error) {
	done, err := g.change(ctx, wire.OpSetGroupFormat, wire.FormatRequest{GroupID: string(g.ID), Format: newest}, "Set the format of new files of group "+g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("set the format", err))
}
