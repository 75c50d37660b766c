package sdktest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Flavour is a dialect of the protocol.
type Flavour uint8

// The flavours.
const (
	// Hosted is the hosted service: status 500 for every refusal, no error codes, quoted record
	// ids, no extensions.
	Hosted Flavour = iota
	// Ours has error codes, extensions and a signed ledger: it proves what it lists.
	Ours
)

// String names the flavour.
func (f Flavour) String() string { return [...]string{"hosted", "ours"}[f] }

// Account is an account with its API key.
type Account struct {
	ID  sdk.AccountID
	Key sdk.Secret
}

// ContractID is the ledger contract of a [Server].
const ContractID = "svc.testnet"

// Server is an honest service that keeps everything in memory. It is safe for
// concurrent use.
type Server struct {
	URL     string
	flavour Flavour
	routes  map[string]route
	state   state

	mu      sync.Mutex
	between map[string]func(http.Handler) http.Handler // by path
	hits    map[string]int
}

// route answers one path. Its error becomes a refusal in the flavour's form.
type route struct {
	open bool // without authentication
	bare bool // without an envelope
	run  func(call) (any, error)
}

// call is one request.
type call struct {
	account string
	body    []byte
	cut     bool // the body broke off
	r       *http.Request
}

func (c call) decode(into any) error {
	if json.Unmarshal(c.body, into) != nil {
		return refuse(http.StatusBadRequest, wire.CodeInvalidJSON, "the request is not the JSON that was expected")
	}
	return nil
}

// asked decodes the request of an operation, which runs with the state to itself.
func asked[T any](s *state, run func(call, T) (any, error)) func(call) (any, error) {
	return func(c call) (any, error) {
		var request T
		if err := c.decode(&request); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return run(c, request)
	}
}

// refusal is an error answer.
type refusal struct {
	status     int
	code, text string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, code, format string, args ...any) error {
	return &refusal{status, code, fmt.Sprintf(format, args...)}
}

// NewServer starts a service, which ends with the test.
func NewServer(tb testing.TB, f Flavour) *Server {
	tb.Helper()
	s := &Server{flavour: f, between: map[string]func(http.Handler) http.Handler{}, hits: map[string]int{}}
	s.state = newState(f)
	s.routes = s.table()
	h := httptest.NewServer(s)
	tb.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Config points a client at the server, without a key.
func (s *Server) Config() sdk.Config { return sdk.Config{URL: s.URL, ContractID: ContractID} }

// Account creates an account with tokens such as "100".
func (s *Server) Account(name, tokens string) Account {
	balance, err := wire.ParseTokens(tokens)
	if err != nil {
		panic(err) // a mistake of the test
	}
	a := Account{ID: sdk.AccountID(name + "." + ContractID), Key: sdk.NewSecret("svc_sk_" + strings.ReplaceAll(uuid.NewString()+uuid.NewString(), "-", "")[:43])}
	s.state.addAccount(string(a.ID), a.Key.Reveal(), balance)
	return a
}

// Client makes a client of an account, which is closed with the test. Each change
// is made to its configuration before.
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

// Records counts the uploads in the ledger.
func (s *Server) Records() int { return s.state.records() }

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

// Disturb puts a handler in front of a path, and nil removes it. The path may
// end in "*".
func (s *Server) Disturb(path string, between func(next http.Handler) http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if between == nil {
		delete(s.between, path)
		return
	}
	s.between[path] = between
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.hits[r.URL.Path]++
	between := s.between[r.URL.Path]
	for path, f := range s.between {
		if prefix, ok := strings.CutSuffix(path, "*"); ok && strings.HasPrefix(r.URL.Path, prefix) {
			between = f
		}
	}
	s.mu.Unlock()
	var h http.Handler = http.HandlerFunc(s.serve)
	if between != nil {
		h = between(h)
	}
	h.ServeHTTP(w, r)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<30))
	if err != nil && !strings.HasPrefix(r.URL.Path, wire.PathParts) {
		return // the client is gone
	}
	c := call{body: body, cut: err != nil, r: r}
	found, ok := s.routes[r.URL.Path]
	if !ok {
		found, ok = s.rawRoute(r)
	}
	if !ok {
		http.Error(w, "<!doctype html><h1>404</h1>", http.StatusNotFound)
		return
	}
	var value any
	if err = nil; !found.open {
		c.account, err = s.state.authenticate(r.Header)
	}
	if err == nil {
		value, err = found.run(c)
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	if a, ok := value.(rangeAnswer); ok {
		a.send(w, r)
		return
	}
	if a, ok := value.(firstBlocks); ok {
		a.send(w)
		return
	}
	s.answer(w, value, found.bare)
}

func (s *Server) refuse(w http.ResponseWriter, err error) {
	e, ok := err.(*refusal)
	if !ok {
		e = &refusal{http.StatusInternalServerError, wire.CodeInternal, "internal error"}
	}
	body := wire.Error{Error: e.text}
	status := e.status
	switch s.flavour {
	case Ours:
		body.Code = e.code
	case Hosted:
		if status != http.StatusUnauthorized && e.code != wire.CodeAccountUnknown {
			status = http.StatusInternalServerError
		}
	}
	writeJSON(w, status, body)
}

func (s *Server) answer(w http.ResponseWriter, value any, bare bool) {
	if raw, ok := value.([]byte); ok {
		_, _ = w.Write(raw)
		return
	}
	if !bare {
		if _, whole := value.(provenRows); !whole {
			value = map[string]any{"result": value}
		}
	}
	writeJSON(w, http.StatusOK, value)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own shapes
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the caller may be gone
}

// table is what the flavour offers.
func (s *Server) table() map[string]route {
	st := &s.state
	t := map[string]route{
		wire.PathSessionToken: {open: true, bare: true, run: asked(st, st.sessionToken)},
		wire.PathHealth:       {open: true, bare: true, run: func(call) (any, error) { return map[string]string{"status": "ok"}, nil }},
		wire.PathRPC:          {open: true, bare: true, run: st.rpc},
	}
	for op, run := range map[string]func(call) (any, error){
		wire.OpAuthStatus: asked(st, st.authStatus), wire.OpRegisterGroup: asked(st, st.register), wire.OpAddGroupMember: asked(st, st.add),
		wire.OpRevokeGroupMember: asked(st, st.revoke), wire.OpJoinGroup: asked(st, st.join), wire.OpCreateHackathonGroup: asked(st, st.open),
		wire.OpCloseHackathonJoin: asked(st, st.close), wire.OpSetGroupRetention: asked(st, st.retention), wire.OpPrepareUpload: asked(st, st.prepare),
		wire.OpPrepareRetrieve: asked(st, st.retrieve), wire.OpGetOwnedGroups: st.owned, wire.OpGetMemberGroups: st.memberOf,
		wire.OpGetGroupMembers: asked(st, st.members), wire.OpGetGroupTransactions: asked(st, st.transactions),
	} {
		t[wire.PathTools+op] = route{run: run}
	}
	t[wire.PathTools+wire.OpFinalizeUpload] = route{run: asked(st, st.finalize)}
	if s.flavour == Ours {
		t[wire.PathTools+wire.OpDeleteFile] = route{run: asked(st, st.delete)}
		t[wire.PathTools+wire.OpRenameFile] = route{run: asked(st, st.rename)}
		t[wire.PathTools+wire.OpSetAttributes] = route{run: asked(st, st.setAttributes)}
		t[wire.PathTools+wire.OpSetGroupFormat] = route{run: asked(st, st.setFormat)}
		t[wire.PathTools+wire.OpGetGroupFormat] = route{run: asked(st, st.getFormat)}
		t[wire.PathTools+wire.OpWatch] = route{run: st.watch}
		t[wire.PathCapabilities] = route{open: true, bare: true, run: func(call) (any, error) {
			features := []string{wire.CapRows, wire.CapPaging, wire.CapRaw, wire.CapIdempotentFinalize, wire.CapIdempotentRetrieve, wire.CapLateName,
				wire.CapDelete, wire.CapRename, wire.CapWatch, wire.CapAttributes, wire.CapCheckpoints, wire.CapChains, wire.CapRenameFolder}
			vault := st.vaultKey()
			if vault != nil {
				features = append(features, wire.CapSealedUpload)
			}
			if st.offersChunks() {
				features = append(features, wire.CapChunks, wire.CapFirstBlock, wire.CapFirstBlocks)
			}
			return wire.Capabilities{Service: "sdktest", Version: "1", ContractID: ContractID, Fees: st.fees(), MaxFileBytes: 64 << 20, Features: features, Vault: vault}, nil
		}}
		t[wire.PathTools+wire.OpFinalizeUploads] = route{run: st.finalizeUploads}
		t[wire.PathTools+wire.OpOpenSealedKey] = route{run: asked(st, st.openSealedKey)}
		t[wire.PathTools+wire.OpRenameFolder] = route{run: asked(st, st.renameFolder)}
		for _, path := range []string{"key", "checkpoint", wire.TlogKeys} {
			t[wire.PathTlog+path] = route{open: true, bare: true, run: func(call) (any, error) { return st.tlog(path), nil }}
		}
	}
	return t
}

// rawRoute answers the raw transfers.
func (s *Server) rawRoute(r *http.Request) (route, bool) {
	if s.flavour == Hosted {
		return route{}, false
	}
	if id, ok := strings.CutPrefix(r.URL.Path, wire.PathUploadBlob); ok && r.Method == http.MethodPut {
		return route{run: func(c call) (any, error) { return s.state.putBlob(c, id) }}, true
	}
	if ticket, ok := strings.CutPrefix(r.URL.Path, wire.PathReadBlob); ok && r.Method == http.MethodGet {
		return route{run: func(c call) (any, error) { return s.state.readBlob(c, ticket) }}, true
	}
	if id, ok := strings.CutPrefix(r.URL.Path, wire.PathSealed); ok && r.Method == http.MethodPut && s.state.vaultKey() != nil {
		return route{run: func(c call) (any, error) { return s.state.putSealed(c, id) }}, true
	}
	if s.state.offersChunks() {
		return s.blockRoute(r)
	}
	return route{}, false
}

func encode64(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }
