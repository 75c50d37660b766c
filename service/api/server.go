// Package api is the service on HTTP: session tokens, the operations below
// /tools/, raw transfers and the ledger's JSON-RPC, in both generations of the
// protocol.
package api

import (
	"context"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/metrics"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/throttle"
	"github.com/svcfs/svcfs/service/watch"
	"github.com/svcfs/svcfs/service/web"
)

// Deps are the parts the API answers from.
type Deps struct {
	web.Deps // the parts of the account page, most of which the API answers from too
	Limits

	Watch       *watch.Watch
	Checkpoints Checkpoints
	Space       *space.Keeper // of the disks
	Metrics     *metrics.Metrics
	Health      func(context.Context) map[string]string // part to "ok" or "down"; answers within a second
	Ending      func() bool                             // whether the process is about to end
	SignedIn    func(context.Context) (end func())      // called with every request of an account

	Version   string
	Spool     string            // directory for files inside JSON while they come
	PutMemory func(int64) int64 // that a raw upload of so many bytes takes
}

// Limits bound how much of the process clients use.
type Limits struct {
	RequestRate    int            // requests of one account per second; 0 or less = any number
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	ClientTimeout  time.Duration  // for the next piece of a request or answer, and for a whole small request
	Memory         int64          // bytes that bodies and answers of requests under way may take
}

// Checkpoints publishes the ledger for outsiders.
type Checkpoints interface {
	Handler(refuse func(http.ResponseWriter, *http.Request, error)) http.Handler // everything below wire.PathTlog
	Problem() error                                                              // why nothing is signed any more
	Behind() bool
}

type server struct {
	Deps
	tools   map[string]web.Operation
	limits  *throttle.Throttle[string] // by account
	clients *clients

	memory   memory
	underWay *throttle.Slots[string] // requests, by account
	spools   *throttle.Slots[string] // files inside JSON that are coming, by account
	work     *semaphore.Weighted     // requests that keep a core busy for long
}

// handler answers a request, or returns why it is refused.
type handler func(w http.ResponseWriter, r *http.Request) error

// refusing answers the errors of h.
func (s *server) refusing(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := checkAddress(r)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			s.refuse(w, r, err)
		}
	}
}

// calling answers requests of accounts that sign in by their headers.
func (s *server) calling(h web.Transfer) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		account, err := s.caller(r)
		if err != nil {
			return err
		}
		return h(w, r, account)
	}
}

// New returns the handler of the whole service.
func New(d Deps) (http.Handler, error) {
	s := &server{Deps: d, limits: newLimits(d.RequestRate), clients: newClients(d.TrustedProxies, d.Logger),
		memory: newMemory(d.Memory), underWay: throttle.NewSlots[string](underWayPerAccount),
		spools: throttle.NewSlots[string](spoolsPerAccount),
		work:   semaphore.NewWeighted(int64(workPerCore * runtime.GOMAXPROCS(0)))}
	d.Files.Limit(files.Limits{Memory: s.holdForFile, Turn: s.turn})
	d.Tokens.Limit(func(ctx context.Context) (func(), error) { return s.clients.enter(traceOf(ctx).client) })
	s.tools = s.operations()
	d.Metrics.WatchParts(s.partsUp)
	reads := map[string]web.Transfer{
		wire.PathReadBlob + "{ticket}":        s.getBlob,
		wire.PathBlocks + "{ticket}":          s.getBlocks,
		wire.PathTiles + "{ticket}/{tile...}": s.getTile,
		wire.PathManifest + "{ticket}":        s.getManifest,
	}
	page, err := web.New(d.Deps, s.refuse, s.admitAccount,
		web.API{Operations: s.tools, Reads: reads, Part: s.putPart, Record: s.putPlain, Hold: s.holdMemory,
			HoldLong: s.holdLong})
	if err != nil {
		return nil, err
	}
	mux := s.routes(reads, page)
	serve := s.observed(mux)
	mux.Handle(wire.PathMCP, s.mcpHandler(serve))
	return serve, nil
}

// routes returns all paths of the service but that of the Model Context Protocol, which uses them.
func (s *server) routes(reads map[string]web.Transfer, page http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("POST "+wire.PathSessionToken, s.open(s.refusing(s.sessionToken)))
	mux.HandleFunc("GET "+wire.PathSessionToken, s.loginProbe)
	mux.Handle("POST "+wire.PathInvite, s.open(s.refusing(s.redeemInvite)))
	mux.HandleFunc("POST "+wire.PathTools+"{op}", s.refusing(s.tool))
	mux.HandleFunc("POST "+wire.PathFinalizeGenA, s.refusing(s.calling(s.finalize)))
	mux.HandleFunc("PUT "+wire.PathUploadBlob+"{id}", s.refusing(s.calling(s.putBlob)))
	mux.HandleFunc("PUT "+wire.PathSealed+"{id}", s.refusing(s.putSealed))
	mux.HandleFunc("GET "+wire.PathParts+"{id}", s.refusing(s.calling(s.getParts)))
	mux.HandleFunc("PUT "+wire.PathParts+"{id}/{part}", s.refusing(s.calling(s.putPart)))
	for path, read := range reads {
		mux.HandleFunc("GET "+path, s.refusing(s.calling(read)))
	}
	mux.HandleFunc("POST "+wire.PathRPC, s.rpc)
	mux.Handle("GET "+wire.PathCapabilities, s.open(http.HandlerFunc(s.capabilities)))
	mux.HandleFunc("GET "+wire.PathHealth, s.health)
	mux.Handle("GET "+wire.PathTlog, s.open(s.Checkpoints.Handler(s.refuse)))
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
	return mux
}

func (s *server) capabilities(w http.ResponseWriter, r *http.Request) {
	out := wire.Capabilities{Service: "svcd", Version: s.Version, ContractID: s.ContractID,
		Dialect: wire.Ours, MaxFileBytes: s.MaxWholeBytes, MaxBlocksBytes: s.MaxFileBytes, Fees: s.Ledger.Fees()}
	var err error
	if out.Vault, err = s.Files.Vault(r.Context()); err != nil { // clients can do without
		out.Vault = nil
		s.Logger.Warn("sealed uploads are not taken", "request", ledger.RequestID(r.Context()), "cause", err.Error())
	}
	writeJSON(w, http.StatusOK, out)
}
