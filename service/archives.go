package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

func (s *Service) archived(ctx context.Context) (archive.Service, error) {
	with, err := s.keys.Archive(ctx, vaultwire.Nothing{})
	if err != nil {
		return archive.Service{}, err
	}
	defer clear(with.Key)
	return archive.Service{Store: s.store, Blobs: s.blobs, Dir: s.cfg.DataDir, Contract: s.cfg.ContractID,
		MasterKey: with.Master, SealKey: archive.NewSealKey([vaultwire.KeyBytes]byte(with.Key)),
		Version: wire.Version()}, nil
}

// Export writes the service to w as an archive, which continues an earlier one if that is not nil; see
// [archive.Export].
func (s *Service) Export(ctx context.Context, w io.Writer, earlier io.Reader) (archive.Summary, error) {
	a, err := s.archived(ctx)
	if err == nil {
		err = s.log.Settle(ctx) // the newest records have places, too
	}
	if err != nil {
		return archive.Summary{}, err
	}
	return archive.Export(ctx, w, a, earlier)
}

// Import fills this service, which must be empty, from a full archive and its increments; see [archive.Import].
// No process may serve it meanwhile. Afterwards it has the imported keys; serving needs
// a new Open.
func (s *Service) Import(ctx context.Context, archives ...io.Reader) (archive.Summary, error) {
	return s.load(ctx, false, archives)
}

func (s *Service) load(ctx context.Context, salvage bool, archives []io.Reader) (archive.Summary, error) {
	a, err := s.archived(ctx)
	if err != nil {
		return archive.Summary{}, err
	}
	if err := s.log.ForgetEmpty(ctx); err != nil {
		return archive.Summary{}, fmt.Errorf("remove the tree of the empty ledger: %w", err)
	}
	sum, imported := archive.Import(ctx, a, salvage, archives...)
	if imported != nil && !errors.Is(imported, archive.ErrImported) { // which may be of one killed before it signed
		return sum, imported
	}
	if err := s.keys.Imported(ctx, s.store); err != nil {
		return sum, fmt.Errorf("the keys of the service: %w", err)
	}
	err = s.signImported(ctx)
	if err != nil && salvage { // a ledger that is damaged cannot be signed
		sum.Damage, err = append(sum.Damage, err.Error()), nil
	}
	return sum, cmp.Or(err, imported)
}

// signImported signs what was imported, with the key and under the name that the log had: who starts the
// service, or audits it, finds a checkpoint of every record. A witness signs when the service starts.
func (s *Service) signImported(ctx context.Context) (err error) {
	cfg := s.cfg
	cfg.Witness = ""
	if s.log, err = newLog(ctx, s.store, s.keys, s.sequencer, cfg); err != nil {
		return err
	}
	s.closeLater(s.log.Close)
	if err := s.log.Update(ctx); err != nil {
		return fmt.Errorf("sign the imported ledger: %w", err)
	}
	return nil
}

// Salvage is Import of all that is whole in archives that may be damaged. It calls missing with each file that cannot
// be read then; why is empty where the ledger has the file and no row was left.
func (s *Service) Salvage(ctx context.Context, missing func(group, name, ref string, why error),
	archives ...io.Reader) (archive.Summary, error) {
	sum, err := s.load(ctx, true, archives)
	if err != nil || len(sum.Damage) == 0 {
		return sum, err
	}
	bad := make(map[string]error)
	note := func(ref string, err error) { bad[ref] = cmp.Or(bad[ref], err) }
	if _, err := s.files.Verify(ctx, false, note); err != nil {
		return sum, err
	}
	return sum, s.store.Read(ctx, func(tx *store.Tx) error {
		type file struct{ group, name, ref string }
		for x, err := range store.Each(ctx, tx, "list files",
			func(x *file) []any { return []any{&x.group, &x.name, &x.ref} },
			"SELECT group_id, filename, ref FROM files WHERE deleted_ns IS NULL ORDER BY group_id, seq") {
			if err != nil {
				return err
			}
			if bad[x.ref] != nil {
				missing(x.group, x.name, x.ref, bad[x.ref])
			}
		}
		return ledger.Rowless(ctx, tx, func(group, name, ref string) { missing(group, name, ref, nil) })
	})
}
