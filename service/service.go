// Package service is the self-hosted service in one process over one directory:
// accounts, session tokens, groups, key custody, ciphertext and the ledger.
package service

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/api"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/metrics"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// Version is what the service says it is.
const Version = "0.1.0"

// Defaults of [Config].
const (
	DefaultContractID           = "svc.testnet"
	DefaultMaxFileBytes   int64 = 4 << 30
	DefaultTokenLifetime        = auth.MaxTokenLifetime
	DefaultMaxConnections       = 4096
	DefaultClientTimeout        = 30 * time.Second
)

// Purposes of keys derived from the master key.
const (
	purposeTokens  = "session tokens"
	purposeTickets = "transfer tickets"
	purposeName    = "name of the master key"
)

const blobDir = "blobs"

// Config configures a [Service].
type Config struct {
	DataDir       string        // made with mode 0700
	Database      string        // postgres://…; "" = SQLite in DataDir
	Blobs         string        // s3://BUCKET…, see blob.ParseLocation; "" = a directory in DataDir
	PublicURL     string        // address clients use; tokens are good for it alone
	ContractID    string        // "" = DefaultContractID; account NAME is NAME.ContractID
	MaxFileBytes  int64         // largest plaintext; 0 = DefaultMaxFileBytes
	TokenLifetime time.Duration // 0 = 24 h
	Fees          ledger.Fees   // nil = the specification's table
	Logger        *slog.Logger  // nil = none

	TLSCert, TLSKey string         // PEM files; "" = plain HTTP
	TrustedProxies  []netip.Prefix // whose X-Forwarded-For is believed
	MaxConnections  int            // open at once; 0 = DefaultMaxConnections
	ClientTimeout   time.Duration  // for a client that stands still; 0 = DefaultClientTimeout
}

// Scheme is how clients reach a service that is not behind a proxy.
func (c Config) Scheme() string {
	if c.TLSCert != "" {
		return "https"
	}
	return "http"
}

// Service is the opened service. Several processes may open one directory.
type Service struct {
	cfg      Config
	store    *store.Store
	blobs    blob.Store
	accounts *auth.Accounts
	files    *files.Files
	metrics  *metrics.Metrics
	health   *health
	handler  http.Handler

	certificate   *certificate // nil = plain HTTP
	masterKeyName string
}

// APIKey is shown once; see [auth.APIKey].
type APIKey = auth.APIKey

// NewAccount is an account with the key that was just made for it.
type NewAccount struct {
	AccountID string `json:"account_id"`
	APIKey    APIKey `json:"api_key"` // encodes as "redacted": reveal it deliberately
}

// Open opens the service in cfg.DataDir, making it at the first start.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	cfg = withDefaults(cfg)
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	v, err := vault.Open(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	tokenKey, err1 := v.Derive(purposeTokens)
	ticketKey, err2 := v.Derive(purposeTickets)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, metrics: metrics.New(Version)}
	if cfg.TLSCert != "" {
		if s.certificate, err = loadCertificate(cfg.TLSCert, cfg.TLSKey, cfg.Logger); err != nil {
			return nil, err
		}
	}
	if s.store, err = store.Open(ctx, cfg.DataDir, cfg.Database); err != nil {
		return nil, err
	}
	if err := s.checkMasterKey(ctx, v); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	if s.blobs, err = blob.Open(ctx, cfg.Blobs); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	s.observeParts()
	l := ledger.New(cfg.Fees)
	s.accounts = auth.NewAccounts(s.store, l, cfg.ContractID)
	s.files = files.New(s.store, l, v, measuredBlobs{s.blobs, s.metrics}, cfg.ContractID, cfg.MaxFileBytes)
	s.handler = api.New(api.Deps{
		Accounts: s.accounts, Tokens: auth.NewTokens(s.accounts, tokenKey, cfg.PublicURL, cfg.TokenLifetime),
		Groups: groups.New(s.store, l, s.accounts), Files: s.files, Ledger: l, TicketKey: ticketKey[:], ContractID: cfg.ContractID,
		Version: Version, MaxFileBytes: cfg.MaxFileBytes, Health: s.health.check, Metrics: s.metrics,
		Logger: cfg.Logger, TrustedProxies: cfg.TrustedProxies, ClientTimeout: cfg.ClientTimeout,
	})
	return s, nil
}

// checkMasterKey refuses a database whose keys were wrapped under another
// master key. The database keeps a name of the key that says nothing about it.
func (s *Service) checkMasterKey(ctx context.Context, v *vault.Vault) error {
	raw, err := v.Derive(purposeName)
	if err != nil {
		return err
	}
	name, known := hex.EncodeToString(raw[:]), ""
	err = s.store.Write(ctx, func(tx *store.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'master_key'").Scan(&known)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		known = name
		_, err = tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('master_key', ?)", name)
		return err
	})
	if err != nil {
		return fmt.Errorf("check master key: %w", err)
	}
	s.masterKeyName = name
	if known != name {
		return fmt.Errorf("the database was written under another master key: put that master.key into %s, with mode 0600", s.cfg.DataDir)
	}
	return nil
}

func withDefaults(cfg Config) Config {
	if cfg.ContractID == "" {
		cfg.ContractID = DefaultContractID
	}
	if cfg.MaxFileBytes <= 0 {
		cfg.MaxFileBytes = DefaultMaxFileBytes
	}
	if cfg.Fees == nil {
		cfg.Fees = ledger.DefaultFees()
	}
	if cfg.MaxConnections <= 0 {
		cfg.MaxConnections = DefaultMaxConnections
	}
	if cfg.ClientTimeout <= 0 {
		cfg.ClientTimeout = DefaultClientTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Blobs == "" {
		cfg.Blobs = filepath.Join(cfg.DataDir, blobDir)
	}
	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	return cfg
}

// Handler answers HTTP.
func (s *Service) Handler() http.Handler { return s.handler }

// Close closes the stores.
func (s *Service) Close() error { return errors.Join(s.store.Close(), s.blobs.Close()) }

// CreateAccount makes account name with a balance and returns its key, once.
func (s *Service) CreateAccount(ctx context.Context, name string, balance wire.Amount) (NewAccount, error) {
	id, key, err := s.accounts.Create(ctx, name, balance)
	return NewAccount{id, key}, err
}

// RotateKey replaces the key of an account; the old one is dead at once, and so
// are the session tokens made with it.
func (s *Service) RotateKey(ctx context.Context, name string) (NewAccount, error) {
	id, key, err := s.accounts.Rotate(ctx, name)
	return NewAccount{id, key}, err
}

// Fund adds tokens to an account and returns its balance.
func (s *Service) Fund(ctx context.Context, name string, amount wire.Amount) (wire.Amount, error) {
	return s.accounts.Fund(ctx, name, amount)
}

// Accounts lists all accounts.
func (s *Service) Accounts(ctx context.Context) ([]auth.Listed, error) { return s.accounts.List(ctx) }

// Audit verifies the hash chain of the ledger and returns how many records it has.
func (s *Service) Audit(ctx context.Context) (records int64, err error) {
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		records, err = ledger.Audit(ctx, tx)
		return err
	})
	return records, err
}

// Verify checks that every living file can be served, with readData byte by
// byte; see [files.Files.Verify].
func (s *Service) Verify(ctx context.Context, readData bool, report func(ref string, err error)) (int, error) {
	return s.files.Verify(ctx, readData, report)
}

// BlobPath returns where the ciphertext of a reference lies: a file, or an s3://
// address.
func (s *Service) BlobPath(ctx context.Context, ref string) (string, error) {
	id, err := s.files.BlobID(ctx, ref)
	if err != nil {
		return "", err
	}
	return s.blobs.Where(id), nil
}
