package service

import (
	"context"
	"errors"
	"io"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/files"
)

// Sweep sweeps at once what [Service.Serve] sweeps by and by.
func (s *Service) Sweep(ctx context.Context) error {
	return errors.Join(s.files.Sweep(ctx), s.files.SweepBlobs(ctx), s.files.SweepBlobs(ctx))
}

// SweepBlobs looks at all blobs once.
func (s *Service) SweepBlobs(ctx context.Context) error { return s.files.SweepBlobs(ctx) }

// CountFiles counts at once what [Service.Serve] counts for the metrics now and then.
func (s *Service) CountFiles(ctx context.Context) { s.countFiles(ctx) }

// ExportFrom is a full Export that reads the blobs through wrap.
func (s *Service) ExportFrom(ctx context.Context, w io.Writer, wrap func(blob.Store) blob.Store) (archive.Summary,
	error) {
	a, err := s.archived(ctx)
	if err != nil {
		return archive.Summary{}, err
	}
	a.Blobs = wrap(a.Blobs)
	return archive.Export(ctx, w, a, nil)
}

// OpenBlocks opens a file in blocks as a download of a member does.
func (s *Service) OpenBlocks(ctx context.Context, account, group, ref string) (*files.InBlocks, error) {
	return s.files.OpenBlocks(ctx, account, group, ref)
}

// AuditInParts is [Service.Audit] with so few files at once that their tables are compared in many parts.
func (s *Service) AuditInParts(ctx context.Context) error {
	_, err := s.log.Audit(ctx, 1)
	return err
}

// FindAndRetrieve looks for a file as a retrieval of a member does, calls between, and hands out its key.
func (s *Service) FindAndRetrieve(ctx context.Context, account, group, ref string, between func()) error {
	found, err := s.files.Find(ctx, auth.Checked(account), wire.PrepareRetrieveRequest{GroupID: group, IPFSHash: ref,
		Formats: []int{1, 2}})
	if err != nil {
		return err
	}
	between()
	_, err = s.files.Retrieve(ctx, found, 0)
	return err
}
