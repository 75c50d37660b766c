// Package web is the account page of the service: static files without a build
// step, and JSON below /account/api/ for the account that is signed in there: operations and
// content as programs get them, and lists as the page draws them.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Path is the path of the page.
const Path = "/account/"

const (
	pathAPI     = Path + "api"
	pathSignIn  = pathAPI + "/sign-in"
	pathSignOut = pathAPI + "/sign-out"
)

const (
	// maxRequest bounds a request of the page, in bytes.
	maxRequest = 64 << 10
	// requestMemory is what a request and what becomes of it take, in bytes; answerMemory bounds an answer that
	// the page draws: a page of the longest names as JSON.
	requestMemory = 3 * maxRequest
	answerMemory  = 3 << 20
	// maxSignIn bounds a request without a session, in bytes.
	maxSignIn = 4 << 10
	// headerPage marks requests of the page's own script. A form cannot send it; another
	// origin would need CORS, which is never granted here.
	headerPage = "X-Svc-Page"
	// headerWho names the account that a tab shows.
	headerWho = "X-Svc-Account"
	policy    = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; " +
		"trusted-types 'none'"
)

// Deps are the parts the page answers from.
type Deps struct {
	Store        *store.Store
	Accounts     *auth.Accounts
	Groups       *groups.Groups
	Files        *files.Files
	Ledger       *ledger.Ledger
	PublicURL    string
	ContractID   string
	MaxFileBytes int64 // largest plaintext

	MaxWholeBytes int64 // largest plaintext in one piece

	LogKey func(context.Context) (string, error) // verifier key of the log
	OIDC   OIDC
	Keys   *keys.Keys
	Tokens *auth.Tokens
	Logger *slog.Logger
}

// Refuse answers an error as JSON and logs its cause.
type Refuse func(http.ResponseWriter, *http.Request, error)

// Admit counts a request of an account that is signed in, or refuses it when
// there are too many.
type Admit func(r *http.Request, account string) error

// Transfer answers a request of an account, or returns why it is refused.
type Transfer func(w http.ResponseWriter, r *http.Request, account string) error

// Operation answers a request of a session, which read decodes.
type Operation func(w http.ResponseWriter, r *http.Request, by *auth.Session, read func(request any) error) error

// API is what the page shares with programs, which sign in otherwise: the same answers, with the same checks.
type API struct {
	Operations map[string]Operation // of the wire protocol 3.3, by name
	Reads      map[string]Transfer  // GETs of content by the addresses that prepare_retrieve hands out, by pattern
	// Part and Record take parts, and frames whose key came with them. The path value "id" names the upload, "part" a
	// part.
	Part, Record Transfer
	// Hold takes memory of the process until the request is answered, or refuses the request. HoldLong is for one with
	// a long answer.
	Hold, HoldLong func(r *http.Request, bytes int64) error
}

// page is the account page of a service.
type page struct {
	Deps
	refuse Refuse
	admit  Admit
	api    API
	public *url.URL  // address users type; host in lower case, without a default port
	oidc   *provider // nil = not configured
}

// OpenPaths are the patterns below [Path] that need no session and cost work.
func OpenPaths() []string {
	return []string{"POST " + pathSignIn, "POST " + pathSignOut, "GET " + pathStart, "GET " + pathCallback}
}

// New returns the handler of everything below [Path].
func New(d Deps, refuse Refuse, admit Admit, api API) (http.Handler, error) {
	public, err := url.Parse(strings.ToLower(d.PublicURL))
	if err != nil {
		return nil, errors.New("the public URL is not a URL: give --public-url https://HOST")
	}
	public.Host = plainHost(public.Host, public.Scheme)
	p := &page{Deps: d, refuse: refuse, admit: admit, api: api, public: public}
	if d.OIDC.Issuer != "" {
		if p.oidc, err = newProvider(d.OIDC, d.Keys, d.PublicURL); err != nil {
			return nil, err
		}
	}
	static, err := staticFiles()
	if err != nil {
		return nil, err
	}
	return p.guarded(p.routes(static)), nil
}

func (p *page) routes(static map[string]http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	for pattern, file := range static {
		mux.HandleFunc(pattern, file)
	}
	mux.HandleFunc("POST "+pathSignIn, p.change(p.answering(p.signIn)))
	mux.HandleFunc("POST "+pathSignOut, p.change(p.answering(p.signOut)))
	mux.HandleFunc("GET "+pathAPI+"/session", p.answering(p.session))
	mux.HandleFunc("POST "+pathAPI+"/key", p.change(p.signedIn(p.newKey)))
	for path, read := range p.reads() {
		mux.HandleFunc("GET "+pathAPI+"/"+path, p.signedIn(read))
	}
	for _, op := range operations() {
		mux.HandleFunc("POST "+pathAPI+wire.PathTools+op, p.change(p.operation(op)))
	}
	for path, read := range p.api.Reads {
		mux.HandleFunc("GET "+pathAPI+path, p.transfer(read))
	}
	mux.HandleFunc("PUT "+pathAPI+"/uploads/{id}", p.content(p.api.Record))
	mux.HandleFunc("PUT "+pathAPI+"/uploads/{id}/{part}", p.content(p.api.Part))
	if p.oidc != nil {
		mux.HandleFunc("GET "+pathStart, p.startOIDC)
		mux.HandleFunc("GET "+pathCallback, p.finishOIDC)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.refuse(w, r, fault.New(wire.CodeUnsupported, "not found: no such path or method here"))
	})
	return mux
}

// WantsPage reports whether a request for / comes from a browser, not from a program.
func WantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// guarded refuses foreign host names (DNS rebinding) and requests that another site
// caused, and forbids the browser everything that the page does not need.
func (p *page) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !p.isOwnHost(r) {
			http.Error(w, "This service is not called "+strings.ToValidUTF8(r.Host, "?")+
				".\nOpen the address the operator gave you; the operator sets it with: svcd serve --public-url URL",
				http.StatusMisdirectedRequest)
			return
		}
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		site := r.Header.Get("Sec-Fetch-Site")
		if strings.HasPrefix(r.URL.Path, pathAPI+"/") && site != "" && site != "same-origin" {
			p.refuse(w, r, fault.New(wire.CodeNotAuthorized, "not authorized: another site caused this request"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// action is what the page alone asks for a signed-in account; the result is answered as JSON.
type action func(r *http.Request, account string) (any, error)

// signedIn runs an action for the account of the session cookie.
func (p *page) signedIn(do action) http.HandlerFunc {
	return p.answering(func(_ http.ResponseWriter, r *http.Request) (any, error) {
		by, err := p.caller(r)
		if err != nil {
			return nil, err
		}
		if err := p.api.HoldLong(r, answerMemory); err != nil {
			return nil, err
		}
		return do(r, by.Account)
	})
}

// answering answers what do returns, as JSON.
func (p *page) answering(do func(w http.ResponseWriter, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := do(w, r)
		var raw []byte
		if err == nil {
			raw, err = json.Marshal(value)
		}
		if err != nil {
			p.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw) // the caller may be gone
	}
}

// transfer answers requests of the account of the session cookie as do does.
func (p *page) transfer(do Transfer) http.HandlerFunc {
	return p.bySession(func(w http.ResponseWriter, r *http.Request, by *auth.Session) error {
		return do(w, r, by.Account)
	})
}

// bySession answers requests of the session cookie as do does.
func (p *page) bySession(do func(http.ResponseWriter, *http.Request, *auth.Session) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, err := p.caller(r)
		if err == nil {
			err = do(w, r, by)
		}
		if err != nil {
			p.refuse(w, r, err)
		}
	}
}

// change guards a state change that is told as JSON.
func (p *page) change(next http.HandlerFunc) http.HandlerFunc {
	return p.ours("application/json", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		next(w, r)
	})
}

// content guards ciphertext that a signed-in account sends. take bounds it.
func (p *page) content(take Transfer) http.HandlerFunc {
	return p.ours("application/octet-stream", p.transfer(take))
}

// ours guards every state change: of one content type, from this origin, by our script.
func (p *page) ours(contentType string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != contentType {
			p.refuse(w, r, fault.New(wire.CodeValidation, "Content-Type must be %s", contentType))
			return
		}
		if r.Header.Get(headerPage) != "1" {
			p.refuse(w, r, fault.New(wire.CodeNotAuthorized,
				"not authorized: only the account page may send this request"))
			return
		}
		if err := p.checkOrigin(r); err != nil {
			p.refuse(w, r, err)
			return
		}
		next(w, r)
	}
}

// decode reads a request into its shape; unknown fields are refused, and what is too long.
func decode(r *http.Request, request any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(request); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return err
		}
		return fault.New(wire.CodeInvalidJSON, "the request is not the JSON that was expected")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault.New(wire.CodeInvalidJSON, "the request holds more than one JSON value")
	}
	return fault.Invalid(wire.CheckBounds(request))
}
