package web

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	pathStart    = Path + "oidc/start"
	pathCallback = Path + "oidc/callback"
	// flowCookie remembers a sign-in that is at the provider.
	flowCookie = "svc_oidc"
	flowLife   = 10 * time.Minute
	// providerTimeout bounds each conversation with the provider.
	providerTimeout = 10 * time.Second
	// discoveryPause is how long the provider is not asked again after a failure.
	discoveryPause = 5 * time.Second
	// providerBytes bounds each of its answers.
	providerBytes = 1 << 20
)

// OIDC lets people sign in at an OpenID Connect provider (authorization code
// flow with PKCE). The provider's addresses come from the operator alone.
type OIDC struct {
	Issuer       string // exactly as the provider writes it; "" = off
	ClientID     string
	ClientSecret auth.Secret // none for a public client
	// Create makes an account at the first sign-in of an unknown identity, named
	// by its preferred_username. Otherwise the operator connects it.
	Create bool
}

// provider is the configured provider. Its addresses are read at the first sign-in, not
// at the start, so that the service starts without it.
type provider struct {
	OIDC
	keys     vaultwire.Vault // seals flow cookies
	redirect string
	client   *http.Client

	mu         sync.Mutex
	discovered *oidc.Provider
	failed     error     // of the last discovery
	again      time.Time // not asked before
}

func newProvider(cfg OIDC, keys vaultwire.Vault, publicURL string) (*provider, error) {
	issuer, err := url.Parse(cfg.Issuer)
	if err != nil || issuer.Host == "" || issuer.Scheme != "https" &&
		(issuer.Scheme != "http" || !isLoopback(issuer.Host)) {
		return nil, fmt.Errorf("the OpenID Connect issuer %q must be an https address", cfg.Issuer)
	}
	if cfg.ClientID == "" {
		return nil, errors.New("OpenID Connect needs the client id under which this service is registered at the " +
			"issuer")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // sign-ins are rare
	return &provider{OIDC: cfg, keys: keys, redirect: strings.TrimRight(publicURL, "/") + pathCallback,
		client: &http.Client{
			Timeout: providerTimeout, Transport: bounded{transport},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// bounded cuts answers that are too long.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, providerBytes)
	}
	return resp, err
}

// name is the host of the provider, as the page shows it.
func (o *provider) name() string {
	issuer, _ := url.Parse(o.Issuer)
	return issuer.Host
}

func (o *provider) discover() (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.discovered != nil {
		return o.discovered, nil
	}
	if time.Now().Before(o.again) {
		return nil, o.failed
	}
	// The provider keeps this context to fetch keys later.
	found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), o.client), o.Issuer)
	if err != nil {
		o.failed = &fault.Error{Code: wire.CodeUnavailable, RetryAfter: discoveryPause, Err: err,
			Text: "the identity provider " + o.name() +
				" does not answer as it should: try again later, or ask the operator for a sign-in link"}
		o.again = time.Now().Add(discoveryPause)
		return nil, o.failed
	}
	o.discovered = found
	return found, nil
}

func (o *provider) config(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), Endpoint: found.Endpoint(),
		RedirectURL: o.redirect,
		Scopes:      []string{oidc.ScopeOpenID, "profile"}}
}

// flow is a sign-in that is at the provider. It is sealed into a cookie: every process
// of the service can finish it, but only in the browser that began it.
type flow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE
	Expires  int64  `json:"e"` // s since the epoch
}

func newFlow(now time.Time) flow {
	return flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Expires: now.Add(flowLife).Unix()}
}

func (o *provider) sealFlow(ctx context.Context, f flow) (string, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	sealed, err := o.keys.SealPage(ctx, vaultwire.Text{Text: raw})
	return base64.RawURLEncoding.EncodeToString(sealed.Text), err
}

func (o *provider) openFlow(ctx context.Context, text string, now time.Time) (f flow, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return f, false
	}
	plain, err := o.keys.OpenPage(ctx, vaultwire.Text{Text: raw})
	if err != nil || json.Unmarshal(plain.Text, &f) != nil || f.Expires < now.Unix() {
		return f, false
	}
	return f, true
}

// startOIDC sends the browser to the provider.
func (p *page) startOIDC(w http.ResponseWriter, r *http.Request) {
	if plainHost(r.Host, p.public.Scheme) != p.public.Host { // the provider sends people back to the public address
		http.Redirect(w, r, strings.TrimRight(p.PublicURL, "/")+pathStart, http.StatusSeeOther)
		return
	}
	if p.public.Scheme != "https" && p.isSecure(r) {
		p.notSignedIn(w, r, fault.New(wire.CodeNotAuthorized, "from another machine the account page needs https: "+
			"the operator puts TLS in front and starts svcd serve with --public-url https://HOST"), "")
		return
	}
	found, err := p.oidc.discover()
	if err != nil {
		p.notSignedIn(w, r, err, "")
		return
	}
	f := newFlow(p.Ledger.Now())
	sealed, err := p.oidc.sealFlow(r.Context(), f)
	if err != nil {
		p.notSignedIn(w, r, err, "")
		return
	}
	http.SetCookie(w, p.flowCookie(r, sealed, int(flowLife.Seconds())))
	http.Redirect(w, r, p.oidc.config(found).AuthCodeURL(f.State, oidc.Nonce(f.Nonce),
		oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
}

// flowCookie is sent when the provider, another site, sends the browser back; a strict
// cookie would not be.
func (p *page) flowCookie(r *http.Request, value string, maxAge int) *http.Cookie {
	c := p.cookie(r, flowCookie, value, maxAge)
	c.SameSite = http.SameSiteLaxMode
	return c
}

// finishOIDC answers the browser that the provider sent back.
func (p *page) finishOIDC(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	identity, name, err := p.identify(ctx, w, r)
	if err != nil {
		p.notSignedIn(w, r, err, "")
		return
	}
	account, err := p.accountOf(ctx, identity, name)
	if err != nil {
		command := ""
		if code := fault.Of(err).Code; code == wire.CodeAccountUnknown || code == wire.CodeConflict ||
			code == wire.CodeValidation {
			command = "svcd account identity NAME " + shellQuote(identity.Issuer) + " " + shellQuote(identity.Subject)
		}
		p.notSignedIn(w, r, err, command)
		return
	}
	session, err := p.Tokens.SignedInAt(ctx, account)
	if err == nil {
		err = p.begin(w, r, account, session)
	}
	if err != nil {
		p.notSignedIn(w, r, err, "")
		return
	}
	http.Redirect(w, r, Path, http.StatusSeeOther)
}

// identify finishes the flow and returns the identity that the provider confirms. It
// requires the state and the PKCE verifier of this browser, and of the ID token
// signature, issuer, audience, times and nonce (OpenID Connect Core 3.1.3.7). An answer of another flow leaves that of
// this browser as it is.
func (p *page) identify(ctx context.Context, w http.ResponseWriter, r *http.Request) (who auth.Identity, name string,
	err error) {
	refused := func(why string) error {
		return fault.New(wire.CodeInvalidToken, "%s: start again from the account page", why)
	}
	q := r.URL.Query()
	sealed, sent := p.secretOf(r, flowCookie)
	f, ok := p.oidc.openFlow(r.Context(), sealed, p.Ledger.Now())
	if !sent || !ok || subtle.ConstantTimeCompare([]byte(f.State), []byte(q.Get("state"))) != 1 {
		return who, "", refused("this sign-in was not begun in this browser, or more than 10 minutes ago")
	}
	http.SetCookie(w, p.flowCookie(r, "", -1))
	if text := q.Get("error"); text != "" {
		return who, "", refused(fmt.Sprintf("the identity provider answered %.100q", text))
	}
	if iss := q.Get("iss"); iss != "" && iss != p.oidc.Issuer { // RFC 9207
		return who, "", refused("the answer comes from another identity provider")
	}
	token, err := p.oidc.exchange(ctx, q.Get("code"), f.Verifier)
	if err != nil {
		return who, "", err
	}
	var claims struct {
		AuthorizedParty string `json:"azp"`
		Name            string `json:"preferred_username"`
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.Nonce)) != 1:
		return who, "", refused("the identity provider's token was made for another sign-in")
	case token.Claims(&claims) != nil || token.Subject == "":
		return who, "", refused("the identity provider's token does not say who you are")
	case claims.AuthorizedParty != p.oidc.ClientID &&
		(claims.AuthorizedParty != "" || len(slices.Compact(token.Audience)) > 1):
		return who, "", refused("the identity provider's token was made for another program")
	}
	return auth.Identity{Issuer: token.Issuer, Subject: token.Subject}, claims.Name, nil
}

// exchange redeems the code of a flow at the provider, and returns the ID token once it is verified.
func (o *provider) exchange(ctx context.Context, code, verifier string) (*oidc.IDToken, error) {
	found, err := o.discover()
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, o.client)
	answer, err := o.config(found).Exchange(ctx, code, oauth2.VerifierOption(verifier))
	var answered *oauth2.RetrieveError
	if errors.As(err, &answered) { // its text is the provider's, whatever that repeats
		err = errors.New("token endpoint: " + answered.Response.Status)
	}
	if err != nil {
		return nil, &fault.Error{Code: wire.CodeInvalidToken, Err: err,
			Text: "the identity provider did not confirm the sign-in: start again from the account page"}
	}
	raw, _ := answer.Extra("id_token").(string)
	token, err := found.Verifier(&oidc.Config{ClientID: o.ClientID,
		SupportedSigningAlgs: []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.ES256, oidc.ES384,
			oidc.EdDSA}}).Verify(ctx, raw)
	if err != nil {
		return nil, &fault.Error{Code: wire.CodeInvalidToken, Err: err,
			Text: "the identity provider's token is not valid here: start again from the account page"}
	}
	return token, nil
}

// accountOf returns the account of an identity, and makes it if the configuration
// allows.
func (p *page) accountOf(ctx context.Context, who auth.Identity, name string) (string, error) {
	account, known, err := p.Accounts.AccountOf(ctx, who)
	if err != nil || known {
		return account, err
	}
	if !p.oidc.Create {
		return "", fault.New(wire.CodeAccountUnknown,
			"this identity has no account here yet: the operator connects it to one with this command")
	}
	return p.Accounts.CreateFor(ctx, name, who)
}

// shellQuote makes one word for a shell: subjects are the provider's text.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var noticePage = template.Must(template.New("notice").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Not signed in · svcfs</title>
<link rel="icon" href="../icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../style.css">
</head>
<body>
<main>
<div class="sign-in card">
<h1>Not signed in</h1>
<p>{{.Text}}</p>
{{with .Command}}<pre>{{.}}</pre>{{end}}
<p><a class="button" href="../">Back to sign-in</a></p>
</div>
</main>
</body>
</html>
`))

// notSignedIn is the page of a sign-in that failed.
func (p *page) notSignedIn(w http.ResponseWriter, r *http.Request, err error, command string) {
	e := fault.Of(err)
	p.Tokens.ProviderFailed(r.Context(), e.Code)
	if e.Err != nil {
		p.Logger.Warn("not signed in", "request", ledger.RequestID(r.Context()), "code", e.Code, "cause", e.Err.Error())
	}
	text := e.Text
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:] + "."
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(e.Status())
	_ = noticePage.Execute(w, struct{ Text, Command string }{text, command})
}
