// Package testkit is the service for tests of its clients: the real one, in the process of the test,
// over a directory of its own, and behind filters. One filter is the hosted network; the others lie.
// Whatever a client is told is so what svcd says, or differs from it as a filter says.
//
// Programs must not import it.
package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Dialect is which service a client meets.
type Dialect uint8

// The dialects.
const (
	Ours    Dialect = iota // svcd as it is
	Keyless                // svcd while its vault's key is away: it takes no sealed uploads
	Hosted                 // the hosted network: see hosted.go
)

// String names the dialect.
func (d Dialect) String() string { return [...]string{"ours", "keyless", "hosted"}[d] }

// Account is an account with its API key.
type Account = sdktest.Account

// ContractID is the ledger contract of a [Server].
const ContractID = service.DefaultContractID

// memoryDir is a folder in memory, where the system has one.
const memoryDir = "/dev/shm"

// Server is a service that ends with its test. It is safe for concurrent use.
type Server struct {
	URL     string
	Service *service.Service

	tb     testing.TB
	cfg    service.Config
	behind http.Handler // the service, or the hosted network before it
	store  func() *store.Store
	vault  vaultwire.Vault

	mu      sync.Mutex
	between map[string]func(http.Handler) http.Handler // by path
	hits    map[string]int
	shown   *Log  // instead of the service's own; nil = none
	batches []int // uploads of each finalize_uploads
	keys    map[sdk.AccountID]string

	clock atomic.Int64 // added to the time of the service, ns
}

// Start starts a service. Each change is made to its configuration before.
func Start(tb testing.TB, d Dialect, changes ...func(*service.Config)) *Server {
	tb.Helper()
	s := &Server{tb: tb, between: map[string]func(http.Handler) http.Handler{}, hits: map[string]int{},
		keys: map[sdk.AccountID]string{}}
	listening := httptest.NewUnstartedServer(s)
	s.URL = "http://" + listening.Listener.Addr().String()
	s.cfg = service.Config{Vault: vaulttest.InProcess, DataDir: dataDir(tb), PublicURL: s.URL,
		RequestRate: -1, FreeChanges: -1,
		MaxAccountBytes: -1, MaxGroupBytes: -1, Fees: ledger.DefaultFees()}
	if d == Hosted {
		s.cfg.Fees, s.cfg.PlainRefs = hostedFees(), true
	}
	for _, change := range changes {
		change(&s.cfg)
	}
	dial := s.cfg.Vault
	s.cfg.Vault = func(ctx context.Context, from, next vaultwire.Source, now func() time.Time,
		away func(error) error) (v vaultwire.Vault, err error) {
		s.vault, err = dial(ctx, from, next, now, away)
		return s.vault, err
	}
	if s.cfg.Now == nil {
		s.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }
	}
	var err error
	s.Service, err = service.Open(context.Background(), s.cfg)
	s.must(err)
	s.behind = s.Service.Handler()
	switch d {
	case Hosted:
		s.behind = s.newHosted(s.behind)
	case Keyless:
		s.behind = s.keyless(s.behind)
	}
	listening.Start()
	tb.Cleanup(func() {
		listening.Close()
		if err := s.Service.Close(); err != nil {
			tb.Error(err)
		}
	})
	s.store = sync.OnceValue(s.openStore)
	return s
}

// MaxFileBytes is a change for [Start]: the largest plaintext of a file.
func MaxFileBytes(n int64) func(*service.Config) {
	return func(cfg *service.Config) { cfg.MaxFileBytes = n }
}

// FeeOf is a change for [Start]: the price of a kind of record.
func FeeOf(kind string, fee sdk.Amount) func(*service.Config) {
	return func(cfg *service.Config) { cfg.Fees[kind] = fee }
}

// AccountsOf is a change for [Start]: what the names of accounts end in.
func AccountsOf(domain string) func(*service.Config) {
	return func(cfg *service.Config) { cfg.AccountDomain = domain }
}

// DataIn is a change for [Start]: the directory of the data, for what should not lie in memory.
func DataIn(dir string) func(*service.Config) {
	return func(cfg *service.Config) { cfg.DataDir = dir }
}

func (s *Server) must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// dataDir makes a folder that is removed behind the test.
func dataDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(memoryDir, "testkit-")
	if err != nil {
		dir, err = os.MkdirTemp("", "testkit-")
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// openStore opens the service's database beside it.
func (s *Server) openStore() *store.Store {
	s.tb.Helper()
	opened, err := store.Open(context.Background(), s.cfg.DataDir, s.cfg.Database)
	s.must(err)
	s.tb.Cleanup(func() { _ = opened.Close() })
	return opened
}

// Config points a client at the server, without a key. The client waits longer than others do: on a busy
// machine a process may stand still for half a minute.
func (s *Server) Config() sdk.Config {
	return sdk.Config{URL: s.URL, ContractID: ContractID, Timeout: time.Minute}
}

// Account creates an account with tokens such as "100".
func (s *Server) Account(name, tokens string) Account {
	s.tb.Helper()
	balance, err := wire.ParseTokens(tokens)
	s.must(err)
	made, err := s.Service.CreateAccount(context.Background(), name, balance)
	s.must(err)
	a := Account{ID: sdk.AccountID(made.AccountID), Key: sdk.NewSecret(made.APIKey.Reveal())}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[a.ID] = made.APIKey.Reveal()
	return a
}

// Client makes a client of an account, which is closed with the test. Each change is made to its
// configuration before.
func (s *Server) Client(tb testing.TB, a Account, changes ...func(*sdk.Config)) *sdk.Client {
	tb.Helper()
	cfg := s.Config()
	cfg.APIKey = a.Key
	for _, change := range changes {
		change(&cfg)
	}
	c, err := sdk.New(a.ID, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// SetClock makes the clock of the service differ from that of the machine.
func (s *Server) SetClock(by time.Duration) { s.clock.Store(int64(by)) }

// World is what the contract suite runs against.
func (s *Server) World() sdktest.World {
	s.tb.Helper()
	return sdktest.World{Config: s.Config(), Alice: s.Account("alice", "100"), Bob: s.Account("bob", "100")}
}

// AddRecords puts records of uploads into the ledger, one for each name, without content: a list shows them,
// and they take no request each.
func (s *Server) AddRecords(a Account, g sdk.GroupID, names []string) {
	s.tb.Helper()
	s.append(g, len(names), func(i int) chain.Record {
		o := OpeningFor(names[i])
		return chain.Record{Kind: chain.KindRecord, Account: string(a.ID), Group: string(g),
			Ref: fmt.Sprint("record-", i), FileHash: o.Commitment(), Detail: names[i]}
	})
}

// AddChanges puts records of a group into the ledger that are about none of its files.
func (s *Server) AddChanges(a Account, g sdk.GroupID, count int) {
	s.tb.Helper()
	s.append(g, count, func(int) chain.Record {
		return chain.Record{Kind: chain.KindKeep, Account: string(a.ID), Group: string(g)}
	})
}

// append puts records into the chain of a group. The service signs them in parts: a list waits for no more than a few
// rows.
func (s *Server) append(g sdk.GroupID, count int, record func(i int) chain.Record) {
	s.tb.Helper()
	const rows = 1000
	l := ledger.New(s.cfg.Fees, ledger.Bounds{}, s.cfg.Now)
	for from := 0; from < count; from += rows {
		s.must(s.store().Write(context.Background(), ledger.In(string(g)), func(tx *store.Tx) error {
			for i := from; i < min(from+rows, count); i++ {
				if _, err := l.Append(context.Background(), tx, record(i)); err != nil {
					return err
				}
			}
			return nil
		}))
		s.behind.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, wire.PathTlog+"checkpoint", nil))
	}
}

// Records counts the uploads in the ledger.
func (s *Server) Records() (n int) {
	err := s.store().Read(context.Background(), func(tx *store.Tx) error {
		return tx.QueryRowContext(context.Background(), "SELECT count(*) FROM ledger WHERE kind = ?",
			chain.KindRecord).Scan(&n)
	})
	if err != nil {
		s.tb.Error(err)
	}
	return n
}

// Hits counts the requests to a path.
func (s *Server) Hits(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

// Requests counts all requests.
func (s *Server) Requests() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hits := range s.hits {
		n += hits
	}
	return n
}

// Disturb puts a handler in front of a path, and nil removes it. The path may end in "*".
func (s *Server) Disturb(path string, between func(next http.Handler) http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if between == nil {
		delete(s.between, path)
		return
	}
	s.between[path] = between
}

// Answer has a handler answer a path instead of the service.
func (s *Server) Answer(path string, instead http.HandlerFunc) {
	s.Disturb(path, func(http.Handler) http.Handler { return instead })
}

// DisturbUploads puts a handler in front of every path that records files of format version 1, and nil
// removes it.
func (s *Server) DisturbUploads(between func(next http.Handler) http.Handler) {
	for _, path := range recording() {
		s.Disturb(path, between)
	}
}

func recording() []string {
	return []string{wire.PathTools + wire.OpFinalizeUpload, wire.PathTools + wire.OpFinalizeUploads,
		wire.PathSealed + "*"}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.hits[r.URL.Path]++
	h, between, shown := s.behind, s.between[r.URL.Path], s.shown
	for path, f := range s.between {
		if prefix, ok := strings.CutSuffix(path, "*"); ok && strings.HasPrefix(r.URL.Path, prefix) {
			between = f
		}
	}
	s.mu.Unlock()
	if r.URL.Path == wire.PathTools+wire.OpFinalizeUploads {
		h = s.counting(h)
	}
	if shown != nil {
		h = s.showing(shown, h)
	}
	if between != nil {
		h = between(s.proving(h))
	}
	h.ServeHTTP(w, r)
}

// counting notes how many uploads a finalize_uploads records.
func (s *Server) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := record(next, r)
		var out struct {
			Result wire.FinalizeUploadsResult `json:"result"`
		}
		if answer.Code == http.StatusOK && json.Unmarshal(answer.Body.Bytes(), &out) == nil {
			s.mu.Lock()
			s.batches = append(s.batches, len(out.Result.Uploads))
			s.mu.Unlock()
		}
		forward(w, answer)
	})
}

// Batches returns how many uploads each finalize_uploads had.
func (s *Server) Batches() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

// errNoAnswer stands for a JSON that is not what svcd answers.
var errNoAnswer = errors.New("the service's answer is not the JSON that was expected")
