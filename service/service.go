// Package service is the self-hosted service in one process over one directory:
// accounts, session tokens, groups, key custody, ciphertext and the ledger.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/api"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/legacy"
	"github.com/svcfs/svcfs/service/metrics"
	"github.com/svcfs/svcfs/service/sequencer"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/throttle"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/watch"
	"github.com/svcfs/svcfs/service/web"
)

// Defaults of [Config].
const (
	DefaultContractID             = "svc.testnet"
	DefaultMaxFileBytes     int64 = 64 << 30
	DefaultMaxWholeBytes    int64 = 4 << 30
	DefaultTokenLifetime          = vaultwire.MaxTokenLifetime
	DefaultMaxConnections         = 4096
	DefaultRequestRate            = 500
	DefaultFreeChanges            = 100_000
	DefaultClientTimeout          = 30 * time.Second
	DefaultDestructionDelay       = 24 * time.Hour
)

// addressShare is the share of all connections that one address has.
const addressShare = 8

const blobDir = "blobs"

// Config configures a [Service].
type Config struct {
	DataDir       string           // made with mode 0700
	MasterKey     MasterKey        // zero = in DataDir, made at the first start
	NextMasterKey MasterKey        // that RotateMasterKey brings in; zero = this service does not replace it
	Vault         vaultwire.Dialer // gives the vault that reads it
	Database      string           // postgres://…; "" = SQLite in DataDir
	Blobs         string           // s3://BUCKET…, see blob.ParseLocation; "" = a directory in DataDir
	PublicURL     string           // address clients use; tokens are good for it alone
	ContractID    string           // "" = DefaultContractID
	AccountDomain string           // account NAME is NAME.AccountDomain; "" = as before, at first ContractID
	MaxFileBytes  int64            // largest plaintext; 0 = DefaultMaxFileBytes
	MaxWholeBytes int64            // largest plaintext in one piece, at most MaxFileBytes; 0 = DefaultMaxWholeBytes
	MaxOpenBytes  int64            // of the uploads an account has begun and not finished; 0 = see files.Config
	// requests of one account per second, twice as many at once; 0 = DefaultRequestRate, negative = any number
	RequestRate int
	// that one account makes a day without paying; 0 = DefaultFreeChanges, negative = any number
	FreeChanges int
	// of changes that destroy many files; 0 = DefaultDestructionDelay, negative = none
	DestructionDelay time.Duration
	PlainRefs        bool // references of new files do not start with bafy, which SDK 1.0.3 needs
	// https://HOST/ipfs/, asked for the bytes of legacy references that are not kept here; "" = none
	Gateway       string
	TokenLifetime time.Duration    // 0 = 24 h
	Fees          ledger.Fees      // nil = the specification's table
	OIDC          OIDC             // sign-in at an identity provider; zero = none
	Logger        *slog.Logger     // nil = none
	SignInLogger  *slog.Logger     // of sign-ins and those that failed; nil = Logger
	Now           func() time.Time // nil = time.Now; the time of tokens and records

	// address and verifier key of the witness without whose signature no checkpoint is published; "" = none
	Witness, WitnessKey string

	// the largest ciphertext that lies in the database; 0 = files.SmallBytes, negative = none does
	SmallBytes int64
	// of ciphertext kept for an account; 0 = a files.QuotaShare-th of the disk, negative = any number
	MaxAccountBytes int64
	MaxGroupBytes   int64 // and for a group
	ReserveBytes    int64 // of the disks that uploads leave alone, see space.New

	TLSCert, TLSKey string         // PEM files; "" = plain HTTP
	TrustedProxies  []netip.Prefix // whose X-Forwarded-For is believed
	MaxConnections  int            // open at once; 0 = DefaultMaxConnections
	MaxPerAddress   int            // of them, from one address that is no trusted proxy; 0 = an eighth
	ClientTimeout   time.Duration  // of a client that stands still; 0 = DefaultClientTimeout
	// DrainDelay is for how long a service that is about to end says so at /health, and answers, before it takes
	// no more connections: a load balancer asks meanwhile, and sends nothing more
	DrainDelay time.Duration
	// bytes that bodies and answers of requests under way may take; 0 = a quarter of the machine's
	Memory int64
}

// Scheme is the scheme of the service without a proxy.
func (c Config) Scheme() string {
	if c.TLSCert != "" {
		return "https"
	}
	return "http"
}

// Service is the opened service. Several processes may open one directory.
type Service struct {
	cfg       Config
	store     *store.Store
	blobs     blob.Store
	ledger    *ledger.Ledger
	accounts  *auth.Accounts
	files     *files.Files
	groups    *groups.Groups
	log       *checkpoint.Log
	watch     *watch.Watch
	sequencer *sequencer.Sequencer
	metrics   *metrics.Metrics
	counted   atomic.Pointer[metrics.Stored] // nil = not yet
	health    *health
	space     *space.Keeper
	handler   http.Handler

	connections *throttle.Connections
	signIns     *auth.SignIns
	certificate *certificate // nil = plain HTTP
	ending      atomic.Bool  // a signal came
	keys        *keys.Keys

	closers []func() error // of the parts, in the order in which they were opened
}

// APIKey is shown once; see [auth.APIKey].
type APIKey = auth.APIKey

// NewAccount is an account with its new key.
type NewAccount struct {
	AccountID string `json:"account_id"`
	APIKey    APIKey `json:"api_key"`   // encodes as "redacted": reveal it deliberately
	MemberOf  int64  `json:"member_of"` // groups it was added to before it existed
}

// Open opens the service in cfg.DataDir, making it at the first start.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	cfg = withDefaults(cfg)
	if err := ownfile.MakeFolder(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	v, err := cfg.Vault(ctx, cfg.MasterKey, cfg.NextMasterKey, cfg.Now, vaultAway) // before anything else is made
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, signIns: auth.NewSignIns(cfg.SignInLogger, time.Now), metrics: metrics.New(wire.Version()),
		space: space.New(cfg.ReserveBytes, map[string]string{space.Database: cfg.DataDir,
			space.Files: blobDisk(cfg)}),
		connections: throttle.NewConnections(cfg.MaxConnections, cfg.MaxPerAddress, cfg.TrustedProxies)}
	if c, ok := v.(io.Closer); ok {
		s.closeLater(c.Close)
	}
	if err = s.open(ctx, v); err == nil {
		s.handler, err = s.newHandler()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the parts, each after those it needs.
func (s *Service) open(ctx context.Context, v vaultwire.Vault) (err error) {
	cfg := s.cfg
	if cfg.TLSCert != "" {
		if s.certificate, err = loadCertificate(cfg.TLSCert, cfg.TLSKey, cfg.Logger); err != nil {
			return err
		}
	}
	var gateway *legacy.Gateway
	if cfg.Gateway != "" {
		if gateway, err = legacy.NewGateway(cfg.Gateway); err != nil {
			return err
		}
		s.closeLater(func() error { gateway.Close(); return nil })
	}
	if isOfAnotherDatabase(cfg) { // and no new one is left in it
		return otherDatabase(cfg, checkpoint.ErrOtherLedger)
	}
	if s.store, err = store.Open(ctx, cfg.DataDir, cfg.Database); err != nil {
		return err
	}
	s.closeLater(s.store.Close)
	s.observeStore()
	s.sequencer = sequencer.New(s.store, ledger.NewRequestID("process-"), cfg.Logger)
	s.closeLater(func() error { s.sequencer.Close(); return nil })
	if err = checkContract(ctx, s.store, cfg.ContractID); err != nil {
		return err
	}
	domain, err := accountDomain(ctx, s.store, cfg.AccountDomain, cfg.ContractID)
	if err != nil {
		return err
	}
	if s.keys, err = openKeys(ctx, s.store, cfg.MasterKey, v, cfg.Now()); err != nil {
		return err
	}
	mark, err := firstNoted(ctx, s.store, archive.MetaMark, blob.NewMark())
	if err != nil {
		return fmt.Errorf("mark what is stored: %w", err)
	}
	if s.blobs, err = blob.Open(ctx, cfg.Blobs, mark); err != nil {
		return err
	}
	s.closeLater(s.blobs.Close)
	if s.log, err = newLog(ctx, s.store, s.keys, s.sequencer, cfg); err != nil {
		return err
	}
	s.closeLater(s.log.Close)
	if err := s.log.IsOwn(ctx); errors.Is(err, checkpoint.ErrOtherLedger) {
		return otherDatabase(cfg, err)
	} else if err != nil {
		return err
	}
	s.watch = watch.New(s.store, s.sequencer)
	s.closeLater(func() error { s.watch.Close(); return nil })
	s.observeParts()
	s.assemble(domain, gateway)
	return nil
}

// assemble makes the parts that hold nothing open.
func (s *Service) assemble(domain string, gateway *legacy.Gateway) {
	cfg := s.cfg
	s.ledger = ledger.New(cfg.Fees, ledger.Bounds{Late: s.sequencer.Late,
		PerDay: cfg.FreeChanges, Room: s.space.RoomForRecord,
		Reserve: func() int64 { return s.space.Reserve(cfg.Database != "") },
		MayKeep: func(ctx context.Context, tx *store.Tx, account, group string, bytes int64) error {
			return s.files.MayKeep(ctx, tx, account, group, bytes)
		}}, cfg.Now)
	s.accounts = auth.NewAccounts(s.store, s.ledger, s.keys, domain, s.signIns)
	s.groups = groups.New(s.store, s.ledger, s.accounts, cfg.DestructionDelay)
	s.files = files.New(s.store, s.ledger, s.log, s.keys, measuredBlobs{s.blobs, s}, files.Config{
		ContractID: cfg.ContractID, MaxFileBytes: cfg.MaxFileBytes, MaxWholeBytes: cfg.MaxWholeBytes,
		PlainRefs: cfg.PlainRefs, Gateway: gateway, DestructionDelay: cfg.DestructionDelay,
		MaxOpenBytes: cfg.MaxOpenBytes, SmallBytes: cfg.SmallBytes, MaxAccountBytes: cfg.MaxAccountBytes,
		MaxGroupBytes: cfg.MaxGroupBytes, Space: s.space})
}

// isOfAnotherDatabase reports that a data directory has signed checkpoints, but not the database that they are of.
func isOfAnotherDatabase(cfg Config) bool {
	return cfg.Database == "" && checkpoint.IsSigned(cfg.DataDir) &&
		!isThere(filepath.Join(cfg.DataDir, store.FileName))
}

func otherDatabase(cfg Config, err error) error {
	step := "name the database that the directory belongs to with --db, or give this one a new, empty data directory"
	if file := filepath.Join(cfg.DataDir, store.FileName); cfg.Database != "" && isThere(file) {
		step += fmt.Sprintf("; it belongs to %s now: leave --db and SVCD_DB out to use that; if a start without --db "+
			"made it, and it has no account, move it and %s away", file, filepath.Join(cfg.DataDir, checkpoint.Dir))
	}
	return &refusal{fmt.Errorf("%w: %s belongs to another database", err, cfg.DataDir), step}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// vaultAway is the error of a vault that does not answer.
func vaultAway(err error) error {
	return &fault.Error{Code: wire.CodeUnavailable, RetryAfter: time.Second, Err: err,
		Text: "the vault, which keeps the keys, does not answer: try again in a moment"}
}

func openKeys(ctx context.Context, s *store.Store, source MasterKey, v vaultwire.Vault,
	now time.Time) (*keys.Keys, error) {
	k, err := keys.Open(ctx, s, v, now)
	switch {
	case errors.Is(err, vaultwire.ErrOtherMaster):
		err = &refusal{err, source.WhereToPut()}
	case errors.Is(err, vaultwire.ErrOtherKeys):
		err = &refusal{err, "if this service takes the place of the one that the vault served before, restart " +
			"svcvault; otherwise start one of its own for it"}
	}
	return k, err
}

// newHandler makes the HTTP side of the parts.
func (s *Service) newHandler() (http.Handler, error) {
	cfg := s.cfg
	spool, err := makeSpool(cfg)
	if err != nil {
		return nil, err
	}
	return api.New(api.Deps{
		Deps: web.Deps{Store: s.store, Accounts: s.accounts, Groups: s.groups, Files: s.files,
			Ledger: s.ledger, PublicURL: cfg.PublicURL, ContractID: cfg.ContractID, MaxFileBytes: cfg.MaxFileBytes,
			MaxWholeBytes: cfg.MaxWholeBytes, LogKey: s.log.VerifierKey, OIDC: cfg.OIDC, Keys: s.keys,
			Tokens: auth.NewTokens(s.accounts, cfg.PublicURL, cfg.TokenLifetime, cfg.Now), Logger: cfg.Logger},
		Limits: api.Limits{RequestRate: cfg.RequestRate, TrustedProxies: cfg.TrustedProxies,
			ClientTimeout: cfg.ClientTimeout, Memory: cfg.Memory},
		Watch:       s.watch,
		Checkpoints: s.log, Space: s.space,
		Metrics: s.metrics, Health: s.health.check, Ending: s.ending.Load,
		SignedIn: s.connections.SignedIn, Version: wire.Version(),
		Spool: spool, PutMemory: s.blobs.PutMemory,
	})
}

// makeSpool makes the directory for files inside JSON that are arriving: that of uploads
// under way, even when ciphertext goes to a bucket.
func makeSpool(cfg Config) (string, error) {
	dir := cfg.Blobs
	if strings.Contains(dir, "://") {
		dir = filepath.Join(cfg.DataDir, blobDir)
	}
	dir = filepath.Join(dir, blob.TmpDir)
	if err := ownfile.MakeFolder(dir); err != nil {
		return "", fmt.Errorf("make directory for uploads: %w", err)
	}
	return dir, nil
}

func withDefaults(cfg Config) Config {
	cfg.MasterKey = cmp.Or(cfg.MasterKey, vaultwire.InDirectory(cfg.DataDir))
	cfg.ContractID = cmp.Or(cfg.ContractID, DefaultContractID)
	cfg.MaxFileBytes = orPositive(cfg.MaxFileBytes, DefaultMaxFileBytes)
	cfg.MaxWholeBytes = min(orPositive(cfg.MaxWholeBytes, DefaultMaxWholeBytes), cfg.MaxFileBytes)
	cfg.RequestRate = cmp.Or(cfg.RequestRate, DefaultRequestRate)
	cfg.FreeChanges = cmp.Or(cfg.FreeChanges, DefaultFreeChanges)
	cfg.DestructionDelay = cmp.Or(cfg.DestructionDelay, DefaultDestructionDelay)
	if cfg.Fees == nil {
		cfg.Fees = ledger.DefaultFees()
	}
	cfg.MaxConnections = orPositive(cfg.MaxConnections, DefaultMaxConnections)
	cfg.MaxPerAddress = orPositive(cfg.MaxPerAddress, max(cfg.MaxConnections/addressShare, 1))
	if cfg.Memory <= 0 {
		cfg.Memory = defaultMemory()
	}
	cfg.ClientTimeout = orPositive(cfg.ClientTimeout, DefaultClientTimeout)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.SignInLogger = cmp.Or(cfg.SignInLogger, cfg.Logger)
	cfg.Blobs = cmp.Or(cfg.Blobs, filepath.Join(cfg.DataDir, blobDir))
	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	return cfg
}

// orPositive returns v, or other unless v is positive.
func orPositive[T int | int64 | time.Duration](v, other T) T {
	if v > 0 {
		return v
	}
	return other
}

// Handler answers HTTP.
func (s *Service) Handler() http.Handler { return s.handler }

func (s *Service) closeLater(f func() error) { s.closers = append(s.closers, f) }

// Close ends waiting calls and closes the stores.
func (s *Service) Close() (err error) {
	for _, end := range slices.Backward(s.closers) {
		err = errors.Join(err, end())
	}
	return err
}

// IsAccountName reports whether a new account may have the name, without its ending.
func IsAccountName(name string) bool { return auth.IsName(name) }

// CreateAccount makes account name with a balance and returns its key, once.
func (s *Service) CreateAccount(ctx context.Context, name string, balance wire.Amount) (NewAccount, error) {
	id, key, err := s.accounts.Create(ctx, name, balance)
	if err != nil {
		return NewAccount{}, err
	}
	n, err := s.accounts.MemberOf(ctx, id)
	return NewAccount{id, key, n}, err
}

// DisableAccount blocks an account until EnableAccount; see [auth.Accounts.Disable].
func (s *Service) DisableAccount(ctx context.Context, name string) (id string, err error) {
	return s.accounts.Disable(ctx, name)
}

// OwnedGroups returns how many groups an account owns. Nobody manages those of a disabled account.
func (s *Service) OwnedGroups(ctx context.Context, id string) (int64, error) {
	return s.accounts.Owns(ctx, id)
}

// OfferGroups offers the groups of a disabled account to a member; see [groups.Groups.OfferAll].
func (s *Service) OfferGroups(ctx context.Context, owner, member string) (groups.Offered, error) {
	return s.groups.OfferAll(ctx, s.cfg.ContractID, owner, member)
}

// DeleteAccount ends a disabled account for good; see [groups.Groups.DeleteAccount].
func (s *Service) DeleteAccount(ctx context.Context, name string) (groups.DeletedAccount, error) {
	return s.groups.DeleteAccount(ctx, name)
}

// EnableAccount unblocks a disabled account, which keeps its key.
func (s *Service) EnableAccount(ctx context.Context, name string) (id string, err error) {
	return s.accounts.Enable(ctx, name)
}

// RotateKey replaces the key of an account. The old key is dead at once, and so are
// session tokens made with it, sign-in links and sessions of the page.
func (s *Service) RotateKey(ctx context.Context, name string) (NewAccount, error) {
	id, key, err := s.accounts.Rotate(ctx, name, "")
	return NewAccount{AccountID: id, APIKey: key}, err
}

// Fund adds tokens to an account and returns the balance.
func (s *Service) Fund(ctx context.Context, name string, amount wire.Amount) (wire.Amount, error) {
	return s.accounts.Fund(ctx, name, amount)
}

// Transfer moves tokens between two accounts and returns the rest of the payer.
func (s *Service) Transfer(ctx context.Context, from, to string, amount wire.Amount) (wire.Amount, error) {
	return s.accounts.Transfer(ctx, from, to, amount)
}

// Accounts lists all accounts.
func (s *Service) Accounts(ctx context.Context) ([]auth.Listed, error) { return s.accounts.List(ctx) }

// Verify checks that every living file can be served, with readData byte by
// byte; see [files.Files.Verify].
func (s *Service) Verify(ctx context.Context, readData bool, report func(ref string, err error)) (int, error) {
	return s.files.Verify(ctx, readData, report)
}

// Orphans calls visit with the place and the size of every blob without a file and
// without an upload. A running service removes those that it stored. Blobs younger than ten
// minutes are left out: their uploads may be arriving.
func (s *Service) Orphans(ctx context.Context, visit func(where string, size int64)) error {
	return s.files.Orphans(ctx, func(id string, size int64) { visit(s.blobs.Where(id), size) })
}

// CheckStored compares the counted bytes of accounts and groups with the stored ones;
// see [files.Files.CheckStored].
func (s *Service) CheckStored(ctx context.Context, report func(what string, err error)) error {
	return s.files.CheckStored(ctx, report)
}

// Expired lists the files that are older than their groups keep files.
func (s *Service) Expired(ctx context.Context) ([]files.Expired, error) {
	return s.files.Expired(ctx, "", -1)
}

// Surplus lists the older versions that their groups keep no longer.
func (s *Service) Surplus(ctx context.Context) ([]files.Surplus, error) { return s.files.Surplus(ctx) }

// Waiting lists the destructions that wait; see [files.Files.Waiting].
func (s *Service) Waiting(ctx context.Context) ([]files.Waiting, error) { return s.files.Waiting(ctx) }

// RemoveExpired deletes expired files and carries out due deletions, and returns how
// many; see [files.Files.RemoveExpired].
func (s *Service) RemoveExpired(ctx context.Context) (int, error) { return s.files.RemoveExpired(ctx) }

// LegacyFile describes a file from before this service.
type LegacyFile = files.LegacyFile

// Imported describes an imported file.
type Imported = files.Imported

// ImportPlain imports a file in the clear; see [files.Files.ImportPlain].
func (s *Service) ImportPlain(ctx context.Context, l LegacyFile, plain []byte,
	cidVersion int) (out Imported, err error) {
	if l.Account, err = s.uploader(l.Account); err != nil {
		return out, err
	}
	return s.files.ImportPlain(ctx, l, plain, cidVersion)
}

// ImportSealed imports ciphertext; see [files.Files.ImportSealed].
func (s *Service) ImportSealed(ctx context.Context, l LegacyFile, data []byte, cid string,
	cidVersion int) (out Imported, err error) {
	if l.Account, err = s.uploader(l.Account); err != nil {
		return out, err
	}
	return s.files.ImportSealed(ctx, l, data, cid, cidVersion)
}

// ImportReference imports a reference alone; see [files.Files.ImportReference].
func (s *Service) ImportReference(ctx context.Context, l LegacyFile, cid, fileHash string) (out Imported, err error) {
	if l.Account, err = s.uploader(l.Account); err != nil {
		return out, err
	}
	return s.files.ImportReference(ctx, l, cid, fileHash)
}

func (s *Service) uploader(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return s.accounts.FullID(name)
}

// BlobBegin returns the first bytes of the ciphertext behind a reference, at most limit.
func (s *Service) BlobBegin(ctx context.Context, ref string, limit int64) ([]byte, error) {
	return s.files.BlobBegin(ctx, ref, limit)
}

// BlobPath returns the place of the ciphertext behind a reference: a file, an s3://
// address, or a row of the database.
func (s *Service) BlobPath(ctx context.Context, ref string) (string, error) {
	id, err := s.files.BlobID(ctx, ref)
	if err != nil {
		return "", err
	}
	where := s.blobs.Where(id)
	if row, ok := files.SmallRow(id); ok {
		where = fmt.Sprintf("row %d of the table small_contents", row)
	}
	if where == "" {
		return "", fault.New(wire.CodeFileNotFound, "file not found: its bytes are not kept here")
	}
	return where, nil
}
