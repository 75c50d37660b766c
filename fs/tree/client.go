package tree

import (
	"context"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/view"
)

// Client makes a client of the service the [Remote] and [GroupMemory] of a tree, with the
// prices and the storage for [Config].
type Client struct{ *sdk.Client }

// IsAuthorized is [sdk.Group.IsAuthorized].
func (c Client) IsAuthorized(ctx context.Context, g sdk.GroupID, account sdk.AccountID) (bool, error) {
	return c.Group(g).IsAuthorized(ctx, account)
}

// Entries is [sdk.Group.News].
func (c Client) Entries(ctx context.Context, g sdk.GroupID, since *view.View) ([]sdk.Entry, error) {
	return c.Group(g).News(ctx, since)
}

// PartOfName implements [PartRemote].
func (c Client) PartOfName(ctx context.Context, g sdk.GroupID, path string) (sdk.Part, error) {
	return c.Group(g).PartOfName(ctx, path)
}

// PartOfFolder implements [PartRemote].
func (c Client) PartOfFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Part, error) {
	return c.Group(g).PartOfFolder(ctx, folder)
}

// Changes implements [PartRemote].
func (c Client) Changes(ctx context.Context, g sdk.GroupID, at sdk.Cursor,
	known *view.Partial) (sdk.Changes, error) {
	return c.Group(g).Changes(ctx, at, known)
}

// Retrieve is [sdk.Group.Retrieve].
func (c Client) Retrieve(ctx context.Context, e sdk.Entry, into *mem.Buffer) (fee sdk.Amount, err error) {
	return c.Group(e.Group).Retrieve(ctx, e, into)
}

// Upload is [sdk.Group.Upload].
func (c Client) Upload(ctx context.Context, g sdk.GroupID, name string, b *mem.Buffer,
	o sdk.PutOptions) (sdk.Receipt, error) {
	return c.Group(g).Upload(ctx, name, b, o)
}

// SetAttributes is [sdk.Group.SetAttributes].
func (c Client) SetAttributes(ctx context.Context, g sdk.GroupID, ref sdk.Ref, a sdk.Attributes) (sdk.Entry, error) {
	return c.Group(g).SetAttributes(ctx, ref, a)
}

// RegisterGroup is [sdk.Group.Register].
func (c Client) RegisterGroup(ctx context.Context, g sdk.GroupID) error {
	_, err := c.Group(g).Register(ctx)
	return err
}

// GroupMembers is [sdk.Group.Members], without the roles.
func (c Client) GroupMembers(ctx context.Context, g sdk.GroupID) ([]sdk.AccountID, error) {
	members, err := c.Group(g).Members(ctx)
	names := make([]sdk.AccountID, len(members))
	for i, m := range members {
		names[i] = m.ID
	}
	return names, err
}

// GroupOwner is [sdk.Group.Owner].
func (c Client) GroupOwner(ctx context.Context, g sdk.GroupID) (sdk.AccountID, error) {
	return c.Group(g).Owner(ctx)
}

// GroupChecksum is [sdk.Group.Checksum].
func (c Client) GroupChecksum(ctx context.Context, g sdk.GroupID) (string, error) {
	return c.Group(g).Checksum(ctx)
}

// GroupAppends is what [sdk.Settings.Get] says of appends.
func (c Client) GroupAppends(ctx context.Context, g sdk.GroupID) (string, error) {
	set, err := c.Group(g).Settings().Get(ctx)
	return set.Appends, err
}

// RenameFile is [sdk.Group.Rename].
func (c Client) RenameFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref, name string) (sdk.Entry, error) {
	return c.Group(g).Rename(ctx, ref, name)
}

// RenameFolder is [sdk.Group.RenameFolder].
func (c Client) RenameFolder(ctx context.Context, g sdk.GroupID, folder, to string,
	seen sdk.Seq) (sdk.FolderRename, error) {
	return c.Group(g).RenameFolder(ctx, folder, to, seen)
}

// MakeFolder is [sdk.Group.MakeFolder].
func (c Client) MakeFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Entry, error) {
	return c.Group(g).MakeFolder(ctx, folder)
}

// RemoveFolder is [sdk.Group.RemoveFolder].
func (c Client) RemoveFolder(ctx context.Context, g sdk.GroupID, folder string) (sdk.Entry, error) {
	return c.Group(g).RemoveFolder(ctx, folder)
}

// RemoveVersions is [sdk.Group.RemoveVersions].
func (c Client) RemoveVersions(ctx context.Context, g sdk.GroupID, versions []sdk.Entry) ([]sdk.Entry, error) {
	done, err := c.Group(g).RemoveVersions(ctx, versions)
	return done.Entries, err
}

// RestoreVersions is [sdk.Group.RestoreVersions].
func (c Client) RestoreVersions(ctx context.Context, g sdk.GroupID, versions []sdk.Entry) ([]sdk.Entry, error) {
	done, err := c.Group(g).RestoreVersions(ctx, versions)
	return done.Entries, err
}

// DeleteFile is [sdk.Group.Delete].
func (c Client) DeleteFile(ctx context.Context, g sdk.GroupID, ref sdk.Ref) (sdk.Entry, error) {
	return c.Group(g).Delete(ctx, ref)
}

// GroupOrder is [sdk.Group.Order].
func (c Client) GroupOrder(g sdk.GroupID) int64 { return c.Group(g).Order() }

// ReadPrice is [sdk.Group.ReadPrice], with "" [sdk.Client.ReadPrice].
func (c Client) ReadPrice(ctx context.Context, g sdk.GroupID) (sdk.Amount, error) {
	if g == "" {
		return c.Client.ReadPrice(ctx)
	}
	return c.Group(g).ReadPrice(ctx)
}

// Storage is [sdk.Group.Storage], with "" [sdk.Client.Storage].
func (c Client) Storage(ctx context.Context, g sdk.GroupID) (sdk.Storage, error) {
	if g == "" {
		return c.Client.Storage(ctx)
	}
	return c.Group(g).Storage(ctx)
}
