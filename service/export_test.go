package service

import (
	"context"

	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/blob"
)

// Sweep sweeps at once what [Service.Serve] sweeps once a minute.
func (s *Service) Sweep(ctx context.Context) error { return s.files.Sweep(ctx) }

// BackupFrom is Backup that reads the blobs through wrap.
func (s *Service) BackupFrom(ctx context.Context, dir string, wrap func(blob.Store) blob.Store) (archive.Manifest, error) {
	a, err := s.archived()
	if err != nil {
		return archive.Manifest{}, err
	}
	a.Blobs = wrap(a.Blobs)
	return archive.Backup(ctx, dir, a)
}
