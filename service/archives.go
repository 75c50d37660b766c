package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

func (s *Service) archived() (archive.Service, error) {
	master := s.vault.Master()
	name, err := master.Name()
	if err != nil {
		return archive.Service{}, err
	}
	seal, err := master.ArchiveSeal()
	return archive.Service{Store: s.store, Blobs: s.blobs, Contract: s.cfg.ContractID, MasterKey: name, SealKey: archive.NewSealKey(seal), Version: Version}, err
}

// Export writes the service to w as a stream; see [archive.Export].
func (s *Service) Export(ctx context.Context, w io.Writer) (archive.Summary, error) {
	a, err := s.archived()
	if err != nil {
		return archive.Summary{}, err
	}
	return archive.Export(ctx, w, a)
}

// Import fills this service, which must be empty, from a stream; see [archive.Import].
// No process may serve it meanwhile. Afterwards it has the imported keys; serving needs
// a new Open.
func (s *Service) Import(ctx context.Context, r io.Reader) (archive.Summary, error) {
	a, err := s.archived()
	if err != nil {
		return archive.Summary{}, err
	}
	sum, err := archive.Import(ctx, r, a)
	if err != nil {
		return sum, err
	}
	return sum, s.store.Read(ctx, func(tx *store.Tx) error { return s.vault.Reload(ctx, tx) })
}

// Backup writes the service to a directory; see [archive.Backup]. The backup holds the
// master key only withMasterKey: with both, one can read every file.
func (s *Service) Backup(ctx context.Context, dir string, withMasterKey bool) (archive.Manifest, error) {
	a, err := s.archived()
	if err != nil {
		return archive.Manifest{}, err
	}
	if withMasterKey && !s.cfg.MasterKey.Make {
		return archive.Manifest{}, fault.New(wire.CodeValidation, "the master key is not in the data directory: copy it from where it is kept")
	}
	m, err := archive.Backup(ctx, dir, a)
	if err != nil || !withMasterKey {
		return m, err
	}
	return m, copyKey(s.cfg.DataDir, dir)
}

// copyKey copies the master key from one directory to another.
func copyKey(from, to string) error {
	raw, err := ownfile.Read(filepath.Join(from, vault.FileName), ownfile.Secret, vault.MaxFileBytes)
	if err == nil {
		err = os.WriteFile(filepath.Join(to, vault.FileName), raw, 0o600)
		clear(raw)
	}
	if err != nil {
		return fmt.Errorf("copy master key: %w", err)
	}
	return nil
}

// Restore makes a data directory from a backup. The master key must be in the
// directory, in the backup, or where master says.
func Restore(ctx context.Context, from, dataDir string, master MasterKey) (archive.Manifest, error) {
	to, found := filepath.Join(dataDir, vault.FileName), master
	if master == (MasterKey{}) {
		found.File = to
		if _, err := os.Stat(to); errors.Is(err, os.ErrNotExist) {
			found.File = filepath.Join(from, vault.FileName)
		}
		if _, err := os.Stat(found.File); errors.Is(err, os.ErrNotExist) {
			return archive.Manifest{}, fault.New(wire.CodeValidation, "the master key is needed: put it into %s with mode 0600 first", to)
		}
	}
	key, err := found.Read(ctx)
	if err != nil {
		return archive.Manifest{}, err
	}
	seal, err := key.ArchiveSeal()
	if err != nil {
		return archive.Manifest{}, err
	}
	m, err := archive.Restore(ctx, from, dataDir, archive.NewSealKey(seal))
	if err != nil {
		return m, err
	}
	if filepath.Dir(found.File) == filepath.Clean(from) {
		if err := copyKey(from, dataDir); err != nil {
			return m, err
		}
	}
	s, err := Open(ctx, Config{DataDir: dataDir, ContractID: m.Contract, MasterKey: master}) // checks that the key fits
	if err != nil {
		return m, err
	}
	return m, s.Close()
}
