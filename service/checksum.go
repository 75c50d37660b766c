package service

import (
	"context"

	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
)

// Checksum distinguishes versions of a group's key, and has its inputs. It attests
// nothing.
type Checksum struct {
	Sum         string // hex SHA-256 of Input
	Measurement string // of the code that handles keys
	Group       string
	KeyVersion  int64 // 1, and one more for each revocation
	Input       []byte
}

// Checksum returns the checksum of a group that its members see, with its inputs.
func (s *Service) Checksum(ctx context.Context, group string) (c Checksum, err error) {
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(ctx, tx, group)
		c = Checksum{keys.Checksum(g.ID, g.KeyVersion), keys.Measurement(), g.ID, g.KeyVersion,
			keys.ChecksumInput(g.ID, g.KeyVersion)}
		return err
	})
	return c, err
}
