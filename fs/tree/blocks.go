package tree

import (
	"context"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/sdk"
)

// Blocks is an open file of format version 2.
type Blocks = content.Blocks

// BlockUpload is an upload of format version 2 in progress.
type BlockUpload = save.Upload

// BlockRemote is the part of a service that knows files of format version 2. [Client]
// implements it.
type BlockRemote interface {
	// OpenBlocks opens a file, see [sdk.Group.OpenBlocks]. Costs one claim.
	OpenBlocks(ctx context.Context, e sdk.Entry, ahead ...int64) (Blocks, error)
	// BeginBlocks begins an upload. base is nil, or an earlier version of the name that OpenBlocks
	// opened. Free.
	BeginBlocks(ctx context.Context, g sdk.GroupID, base Blocks, blockBytes int64) (BlockUpload, error)
}

// OpenBlocks is [sdk.Group.OpenBlocks].
func (c Client) OpenBlocks(ctx context.Context, e sdk.Entry, ahead ...int64) (Blocks, error) {
	b, err := c.Group(e.Group).OpenBlocks(ctx, e, ahead...)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// BeginBlocks is [sdk.Group.BeginBlocks].
func (c Client) BeginBlocks(ctx context.Context, g sdk.GroupID, base Blocks, blockBytes int64) (BlockUpload, error) {
	from, _ := base.(*sdk.Blocks)
	u, err := c.Group(g).BeginBlocks(ctx, from, blockBytes)
	if err != nil {
		return nil, err
	}
	return upload{u}, nil
}

// upload is an upload as the tree uses it.
type upload struct{ *sdk.BlockUpload }

// Opened is [sdk.BlockUpload.Opened].
func (u upload) Opened() Blocks {
	if b := u.BlockUpload.Opened(); b != nil {
		return b
	}
	return nil
}

var _ BlockRemote = Client{}
