package sdk

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Storage is the ciphertext that the service keeps for an account or a group, in bytes: all
// versions of living files, and unfinished uploads.
type Storage struct {
	Bytes int64
	Max   int64 // limit of Bytes; 0 = no limit
	Left  int64 // largest next upload; -1 = no limit is known
}

// Storage returns what the service keeps for the caller in all groups, and how large the
// next upload may be. It is free and needs the API key. Errors: [ErrUnsupported] at
// the hosted service, where nothing is sent, [ErrCorrupt]. Only svcd has it.
func (c *Client) Storage(ctx context.Context) (Storage, error) { return c.storage(ctx, "") }

// Storage returns what the service keeps for all members of the group, and how large the
// next upload of the caller may be. It is free and needs the API key and membership.
// Errors: those of [Client.Storage], [ErrNotFound], [ErrNotAuthorized]. Only svcd has it.
func (g Group) Storage(ctx context.Context) (Storage, error) { return g.c.storage(ctx, g.ID) }

func (c *Client) storage(ctx context.Context, g GroupID) (Storage, error) {
	var a wire.StorageResult
	if err := c.read(ctx, wire.OpGetStorage, wire.GroupRequest{GroupID: string(g)}, &a); err != nil {
		return Storage{}, c.wrap("ask storage", g, "", err)
	}
	of := &a.Account
	if g != "" {
		of = a.Group
	}
	s := Storage{Left: -1}
	if of != nil {
		s.Bytes, s.Max = of.Bytes, of.Max
	}
	if a.Left != nil {
		s.Left = *a.Left
	}
	if of == nil || s.Bytes < 0 || s.Max < 0 || a.Left != nil && s.Left < 0 {
		err := &Error{Kind: ErrCorrupt, Err: errors.New("the answer has no sizes")}
		return Storage{}, c.wrap("ask storage", g, "", err)
	}
	return s, nil
}
