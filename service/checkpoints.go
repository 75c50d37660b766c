package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/witness"
)

// metaLogHost is the first host that the database was served at: the name of the log has it.
const metaLogHost = "log_host"

// newLog makes the transparency log of the ledger. Its name is the first public address with the contract,
// so that two services never share one. It keeps that name under another address: the name is part of the
// key that members have pinned.
func newLog(ctx context.Context, s *store.Store, k *keys.Keys, places checkpoint.Places,
	cfg Config) (*checkpoint.Log, error) {
	host := ""
	if cfg.PublicURL != "" {
		u, err := url.Parse(cfg.PublicURL)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("public address %q: want one like https://files.example.org", cfg.PublicURL)
		}
		host = u.Host
	}
	host, err := firstNoted(ctx, s, metaLogHost, host)
	if err != nil {
		return nil, fmt.Errorf("name the log: %w", err)
	}
	var w *witness.Client
	if cfg.Witness != "" {
		if w, err = witness.NewClient(cfg.Witness, cfg.WitnessKey); err != nil {
			return nil, err
		}
	}
	return checkpoint.New(s, cfg.DataDir, checkpoint.Origin(cmp.Or(host, "localhost"), cfg.ContractID), k.Log,
		places, w, cfg.Memory, cfg.Logger, cfg.Now), nil
}

// RotateLogKey gives the ledger's log another key, with which every process signs from
// then on. Clients accept it by a statement that both keys signed.
func (s *Service) RotateLogKey(ctx context.Context) error {
	return s.replaceKeys(ctx, vaultwire.PurposeLog)
}

// RotateTokenKeys replaces the keys of session tokens, download tickets and sign-ins
// under way. Processes use the new keys from their next start on; everything that the
// old keys signed is invalid then, and clients sign in again.
func (s *Service) RotateTokenKeys(ctx context.Context) error {
	return s.replaceKeys(ctx, vaultwire.PurposeTokens, vaultwire.PurposeTickets, vaultwire.PurposePage)
}

// RotateUploadKey gives the vault another key that clients seal file keys to. Keys sealed
// to the one before are opened for [vaultwire.EpochLife].
func (s *Service) RotateUploadKey(ctx context.Context) error {
	return s.replaceKeys(ctx, vaultwire.PurposeUploads)
}

func (s *Service) replaceKeys(ctx context.Context, purposes ...string) error {
	return s.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		if pending, err := keys.NextMaster(ctx, tx); err != nil || pending != "" {
			return errors.Join(err, fault.New(wire.CodeConflict,
				"another master key is being brought in: finish that first with svcd rotate-master-key"))
		}
		return s.keys.Replace(ctx, tx, s.cfg.Now(), purposes...)
	})
}

// Audit verifies the hash chain of the ledger, compares its tree with the newest
// signed checkpoint and returns how many records there are. The error names the
// first bad row.
func (s *Service) Audit(ctx context.Context) (records int64, err error) {
	report, err := s.AuditReport(ctx)
	return report.Records, err
}

// AuditReport is [Service.Audit] with its findings.
func (s *Service) AuditReport(ctx context.Context) (checkpoint.Report, error) {
	return s.log.Audit(ctx, checkpoint.FilesAtOnce)
}
