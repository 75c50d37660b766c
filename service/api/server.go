// Package api is the service on HTTP: session tokens, the operations below
// /tools/, raw transfers and the ledger's JSON-RPC, in both generations of the
// protocol.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/metrics"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/throttle"
	"github.com/svcfs/svcfs/service/watch"
	"github.com/svcfs/svcfs/service/web"
)

// Deps are the parts the API answers from.
type Deps struct {
	Accounts     *auth.Accounts
	Tokens       *auth.Tokens
	Groups       *groups.Groups
	Files        *files.Files
	Watch        *watch.Watch
	Ledger       *ledger.Ledger
	TicketKey    []byte // signs raw transfer tickets
	ContractID   string
	Version      string
	MaxFileBytes int64
	RequestRate  int                                     // of one account per second; 0 = no bound
	Health       func(context.Context) map[string]string // part to "ok" or "down"; answers within a second
	Space        *space.Keeper                           // of the disks
	Metrics      *metrics.Metrics
	Checkpoints  Checkpoints
	Page         *web.Page // the account page
	Logger       *slog.Logger

	TrustedProxies []netip.Prefix        // whose X-Forwarded-For is believed
	ClientTimeout  time.Duration         // for the next piece of a request or answer, and for a whole small request
	Memory         int64                 // bytes that bodies and answers of requests under way may take
	Spool          string                // directory for files inside JSON while they come
	PutMemory      func(int64) int64     // that a raw upload of so many bytes takes
	SignedIn       func(context.Context) // told of every request of an account; may be nil
}

// Checkpoints publishes the ledger for outsiders.
type Checkpoints interface {
	Handler(refuse func(http.ResponseWriter, *http.Request, error)) http.Handler // everything below wire.PathTlog
	Problem() error                                                              // why nothing is signed any more
	Behind() bool
}

type server struct {
	Deps
	tools   map[string]tool
	special map[string]http.HandlerFunc // operations that carry content or long lists, or wait
	limits  *throttle.Throttle[string]  // by account
	clients *clients

	memory   memory
	underWay *throttle.Slots[string] // requests, by account
	spools   *throttle.Slots[string] // files inside JSON that are coming, by account
	work     *semaphore.Weighted     // what keeps a core busy for long
}

// workPerCore is how many requests may keep one core busy for long at the same time:
// the checksum of a large file, the length of a long view. Others wait for their turn,
// so that what is small, such as /health, gets a core at once.
const workPerCore = 4

// turn waits until a request may keep a core busy; call done when it does not any more,
// and before it waits for a client.
func (s *server) turn(ctx context.Context) (done func(), err error) {
	if err := s.work.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.work.Release(1) }, nil
}

// tool is one operation: it decodes its request and returns its result.
type tool func(ctx context.Context, account string, body []byte) (any, error)

// New returns the handler of the whole service.
func New(d Deps) http.Handler {
	s := &server{Deps: d, limits: newLimits(d.RequestRate), clients: newClients(d.TrustedProxies, d.Logger),
		memory: newMemory(d.Memory), underWay: throttle.NewSlots[string](underWayPerAccount), spools: throttle.NewSlots[string](spoolsPerAccount),
		work: semaphore.NewWeighted(int64(workPerCore * runtime.GOMAXPROCS(0)))}
	s.tools = s.operations()
	s.special = map[string]http.HandlerFunc{wire.OpFinalizeUpload: s.finalize, wire.OpPrepareRetrieve: s.retrieve, wire.OpWatch: s.watch,
		wire.OpGetOwnedGroups: s.names(d.Groups.Owned), wire.OpGetMemberGroups: s.names(d.Groups.Of), wire.OpGetGroupTransactions: s.transactions}
	mux := http.NewServeMux()
	mux.Handle("POST "+wire.PathSessionToken, s.open(http.HandlerFunc(s.sessionToken)))
	mux.HandleFunc("GET "+wire.PathSessionToken, s.loginProbe)
	mux.HandleFunc("POST "+wire.PathTools+"{op}", s.tool)
	mux.HandleFunc("POST "+wire.PathFinalizeGenA, func(w http.ResponseWriter, r *http.Request) { s.finalize(w, r) })
	mux.HandleFunc("PUT "+wire.PathUploadBlob+"{id}", s.putBlob)
	mux.HandleFunc("GET "+wire.PathReadBlob+"{ticket}", s.getBlob)
	mux.HandleFunc("POST "+wire.PathRPC, s.rpc)
	mux.HandleFunc("GET "+wire.PathCapabilities, s.capabilities)
	mux.HandleFunc("GET "+wire.PathHealth, s.health)
	mux.Handle("GET "+wire.PathTlog, s.open(d.Checkpoints.Handler(s.refuse)))
	page := d.Page.Handler(s.refuse, s.admitPage)
	mux.Handle(web.Path, page)
	for _, path := range web.OpenPaths() {
		mux.Handle(path, s.open(page))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if web.WantsPage(r) {
			http.Redirect(w, r, web.Path, http.StatusSeeOther)
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "service": "svcd"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, fault.New(wire.CodeUnsupported, "not found: no such path or method here"))
	})
	return s.observed(mux)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"error":"internal error","code":"`+wire.CodeInternal+`"}`)
	}
	writeRaw(w, status, raw)
}

func writeRaw(w http.ResponseWriter, status int, parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.WriteHeader(status)
	for _, p := range parts {
		_, _ = w.Write(p) // the caller may be gone
	}
}

// refuse answers an error and logs its cause.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = fault.New(wire.CodeTooLarge, "request too large: at most %d bytes here; use the raw transfer for large files", tooLarge.Limit)
		w.Header().Set("Connection", "close") // the rest is not wanted
	}
	if errors.Is(err, blob.ErrFull) || errors.Is(err, store.ErrFull) {
		err = &fault.Error{Code: wire.CodeStorageFull, Text: "the service's storage is full: nothing was recorded or charged", Err: err}
	}
	if errors.Is(err, store.ErrUnavailable) {
		err = &fault.Error{Code: wire.CodeUnavailable, Text: "the service's database is unavailable: try again in a moment", RetryAfter: time.Second, Err: err}
	}
	if errors.Is(err, blob.ErrUnavailable) {
		err = &fault.Error{Code: wire.CodeUnavailable, Text: "the service's file store is unavailable: nothing was recorded or charged; try again in a moment",
			RetryAfter: 2 * time.Second, Err: err}
	}
	if errors.Is(err, store.ErrInvalidText) {
		err = fault.New(wire.CodeValidation, "a name or id holds a NUL character")
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.Header().Set("Connection", "close")
		writeJSON(w, http.StatusRequestTimeout, wire.Error{Error: "the request came too slowly: send it again", Code: wire.CodeUnavailable})
		return
	}
	switch {
	case r.Context().Err() == nil:
	case errors.Is(err, context.Canceled): // the caller left: nobody's fault
		err = fault.New(wire.CodeUnavailable, "the request was given up")
	default:
		err = &fault.Error{Code: wire.CodeUnavailable, Text: "the request was given up", Err: err}
	}
	e, t := fault.Of(err), traceOf(r.Context())
	if isFailedSignIn(e) && !s.clients.mayFail(t.client) {
		e = &fault.Error{Code: wire.CodeRateLimited, Text: "too many requests: too many failed sign-ins from your address, try again in a minute", RetryAfter: time.Minute}
	}
	t.code = e.Code
	level := slog.LevelError
	if r.Context().Err() != nil { // a caller who left is no failure
		level = slog.LevelDebug
	}
	if e.Err != nil {
		s.Logger.Log(r.Context(), level, "failed", "request", ledger.RequestID(r.Context()), "code", e.Code, "cause", e.Err.Error())
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	writeJSON(w, e.Status(), wire.Error{Error: e.Text, Code: e.Code})
}

// isFailedSignIn tells whether a refusal is one of somebody who could not sign in.
func isFailedSignIn(e *fault.Error) bool {
	return e.Status() == http.StatusUnauthorized || e.Code == wire.CodeAccountUnknown
}

// result answers the result of an operation in the form both generations read:
// an object as {"result": {…}, …}, a sentence as {"result": s, "message": s}, a
// list as {"result": […]}; what an extension tells beside it has its own field.
func result(w http.ResponseWriter, v any) {
	switch v := v.(type) {
	case groups.Listing:
		answer := map[string]any{"result": v.Names, "roles": v.Roles}
		if v.More {
			answer["more"] = true
		}
		writeJSON(w, http.StatusOK, answer)
		return
	case groups.Added:
		writeJSON(w, http.StatusOK, map[string]any{"result": v.Text, "message": v.Text, "exists": v.Exists})
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, wire.Error{Error: "internal error", Code: wire.CodeInternal})
		return
	}
	writeRaw(w, http.StatusOK, bothForms(raw)...)
}

// bothForms is a result as [result] answers it.
func bothForms(raw []byte) [][]byte {
	switch {
	case raw[0] == '"':
		return [][]byte{[]byte(`{"result":`), raw, []byte(`,"message":`), raw, []byte(`}`)}
	case raw[0] == '{' && len(raw) > 2:
		return [][]byte{[]byte(`{"result":`), raw, []byte(`,`), raw[1:]}
	default:
		return [][]byte{[]byte(`{"result":`), raw, []byte(`}`)}
	}
}

// authenticate returns who sent a request, from its headers alone. A Bearer token, if present, decides alone; an
// API key needs its account beside it.
func (s *server) authenticate(r *http.Request) (account string, err error) {
	if len(r.Header.Values("Authorization")) > 1 || len(r.Header.Values(wire.HeaderAPIKey)) > 1 || len(r.Header.Values(wire.HeaderAccountID)) > 1 {
		return "", fault.New(wire.CodeInvalidToken, "Auth failed: malformed credential: a header was sent twice")
	}
	claimed := r.Header.Get(wire.HeaderAccountID)
	if headers := r.Header.Values("Authorization"); len(headers) > 0 { // also an empty one
		token, ok := strings.CutPrefix(headers[0], "Bearer ")
		if !ok {
			return "", fault.New(wire.CodeInvalidToken, "Auth failed: malformed credential")
		}
		if account, err = s.Tokens.Verify(r.Context(), token); err != nil {
			return "", err
		}
		if claimed != "" && claimed != account {
			return "", fault.New(wire.CodeInvalidToken, "Auth failed: account ID mismatch")
		}
		return account, nil
	}
	key := r.Header.Get(wire.HeaderAPIKey)
	switch {
	case key == "":
		return "", fault.New(wire.CodeAuthRequired, "Auth required: missing Bearer session token")
	case claimed == "":
		return "", fault.New(wire.CodeAuthRequired, "Auth required: x-account-id must accompany the X-API-Key credential")
	}
	_, err = s.Accounts.CheckKey(r.Context(), claimed, key)
	return claimed, err
}

// body reads a JSON request. A missing or malformed body counts as {}, as at
// the hosted service; one nested too deep is refused.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit { // before a byte of it is read
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var all bytes.Buffer
	all.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	if _, err := all.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return nil, err
	}
	return wellFormed(all.Bytes())
}

// wellFormed is the JSON of a body.
func wellFormed(raw []byte) ([]byte, error) {
	if wire.DeeperThan(raw, maxDepth) {
		return nil, fault.New(wire.CodeInvalidJSON, "the request is nested deeper than %d", maxDepth)
	}
	if len(raw) == 0 || !json.Valid(raw) || strings.TrimLeft(string(raw[:1]), " \t\r\n{") != "" {
		return []byte("{}"), nil
	}
	return raw, nil
}

// decode reads a request into its shape; a field of the wrong type is refused.
func decode[T any](raw []byte) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return v, fault.New(wire.CodeInvalidJSON, "field %.60q has the wrong type", wrong.Field)
		}
		return v, fault.New(wire.CodeInvalidJSON, "the request is not the JSON that was expected")
	}
	return v, nil
}

// sessionToken exchanges an API key for a token. Without a key in the headers the
// body is not read; which account it is for, only the body tells.
func (s *server) sessionToken(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(wire.HeaderAPIKey)
	if key == "" {
		s.refuse(w, r, errNoKey())
		return
	}
	raw, err := body(w, r, maxSignInBytes)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	req, err := decode[wire.SessionTokenRequest](raw)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if req.AccountID == "" {
		s.refuse(w, r, errNoKey())
		return
	}
	generation, err := s.Accounts.CheckKey(r.Context(), req.AccountID, key)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	token, err := s.Tokens.Issue(req.AccountID, generation)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	traceOf(r.Context()).account = req.AccountID
	if s.SignedIn != nil {
		s.SignedIn(r.Context())
	}
	writeJSON(w, http.StatusOK, wire.SessionTokenResult{Token: token, AccountID: req.AccountID, ExpiresIn: s.Tokens.Lifetime()})
}

func errNoKey() error {
	return fault.New(wire.CodeAuthRequired, "API key required: send X-API-Key and account_id; the operator makes a key with: svcd account create NAME")
}

func (s *server) loginProbe(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"authenticated": false, "message": "no session"})
}

func (s *server) capabilities(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, wire.Capabilities{Service: "svcd", Version: s.Version, ContractID: s.ContractID,
		Features: []string{wire.CapRows, wire.CapPaging, wire.CapGroupPaging, wire.CapRaw, wire.CapIdempotentFinalize, wire.CapIdempotentRetrieve, wire.CapLateName,
			wire.CapDelete, wire.CapRename, wire.CapWatch, wire.CapCheckpoints, wire.CapRoles, wire.CapDelay, wire.CapStorage,
			wire.CapChains},
		MaxFileBytes: s.MaxFileBytes, Fees: s.Ledger.Fees()})
}
