package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/vault"
)

func (s *Service) archived() archive.Service {
	return archive.Service{Store: s.store, Blobs: s.blobs, Contract: s.cfg.ContractID, MasterKey: s.masterKeyName, Version: Version}
}

// Export writes the service to w as a stream; see [archive.Export].
func (s *Service) Export(ctx context.Context, w io.Writer) (archive.Summary, error) {
	return archive.Export(ctx, w, s.archived())
}

// Import fills this service, which must be empty, from a stream; see
// [archive.Import]. No process may serve it meanwhile.
func (s *Service) Import(ctx context.Context, r io.Reader) (archive.Summary, error) {
	return archive.Import(ctx, r, s.archived())
}

// Backup writes the service to a directory; see [archive.Backup]. The master
// key is part of it only withMasterKey: whoever holds both can read every file.
func (s *Service) Backup(ctx context.Context, dir string, withMasterKey bool) (archive.Manifest, error) {
	m, err := archive.Backup(ctx, dir, s.archived())
	if err != nil || !withMasterKey {
		return m, err
	}
	raw, err := os.ReadFile(filepath.Join(s.cfg.DataDir, vault.FileName))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, vault.FileName), raw, 0o600)
		clear(raw)
	}
	if err != nil {
		return m, fmt.Errorf("back up master key: %w", err)
	}
	return m, nil
}

// Restore makes a data directory from a backup. The master key must be in the
// directory, or in the backup.
func Restore(ctx context.Context, from, dataDir string) (archive.Manifest, error) {
	to := filepath.Join(dataDir, vault.FileName)
	raw, err := os.ReadFile(to)
	if errors.Is(err, os.ErrNotExist) {
		raw, err = os.ReadFile(filepath.Join(from, vault.FileName))
	}
	defer clear(raw)
	if errors.Is(err, os.ErrNotExist) {
		return archive.Manifest{}, fault.New(wire.CodeValidation, "the master key is needed: put it into %s with mode 0600 first", to)
	}
	if err != nil {
		return archive.Manifest{}, fmt.Errorf("read master key: %w", err)
	}
	m, err := archive.Restore(ctx, from, dataDir, func(name string) bool { return name == vault.FileName })
	if err != nil {
		return m, err
	}
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		return m, fmt.Errorf("write master key: %w", err)
	}
	s, err := Open(ctx, Config{DataDir: dataDir, ContractID: m.Contract}) // checks that the key fits
	if err != nil {
		return m, err
	}
	return m, s.Close()
}
