package service

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/url"

	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// newLog makes the transparency log of the ledger. Its name is the address
// clients use with the contract, so that two services never share one.
func newLog(s *store.Store, v *vault.Vault, cfg Config) (*checkpoint.Log, error) {
	seed, err := v.Key(vault.PurposeLog)
	if err != nil {
		return nil, err
	}
	host := "localhost" // for the commands that never sign
	if cfg.PublicURL != "" {
		u, err := url.Parse(cfg.PublicURL)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("public address %q: want one like https://files.example.org", cfg.PublicURL)
		}
		host = u.Host
	}
	return checkpoint.New(s, cfg.DataDir, checkpoint.Origin(host, cfg.ContractID), ed25519.NewKeyFromSeed(seed[:]), cfg.Logger, cfg.Now), nil
}

// Audit verifies the hash chain of the ledger, compares its tree with the newest
// signed checkpoint and returns how many records there are. The error names the
// first bad row.
func (s *Service) Audit(ctx context.Context) (records int64, err error) {
	report, err := s.AuditReport(ctx)
	return report.Records, err
}

// AuditReport is [Service.Audit] with what it compared.
func (s *Service) AuditReport(ctx context.Context) (checkpoint.Report, error) {
	return s.log.Audit(ctx)
}
