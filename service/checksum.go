package service

import (
	"context"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// Checksum returns what the checksum of a group, which anybody may ask for, is computed from.
func (s *Service) Checksum(ctx context.Context, group string) (c chain.GroupChecksum, err error) {
	var g groups.Group
	err = s.store.Read(ctx, func(tx *store.Tx) (err error) {
		g, err = groups.Get(ctx, tx, group)
		return err
	})
	if err != nil {
		return c, err
	}
	return s.files.Checksum(ctx, g)
}

// Measurement is hex SHA-256 of the program that keeps the keys, as it says itself.
func (s *Service) Measurement() string { return s.keys.Measurement() }
