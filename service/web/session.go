package web

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
)

// cookieName is the name of the session cookie. Cookies do not know ports. Several
// services may run on loopback, so there the port is part of the name.
const cookieName = "svc_session"

// plainHost is a host in lower case without the default port of the scheme.
func plainHost(host, scheme string) string {
	host = strings.ToLower(host)
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// isOwnHost reports whether a request names the public address, or the very address of
// its connection. A name that an attacker points at this machine is neither.
func (p *page) isOwnHost(r *http.Request) bool {
	if plainHost(r.Host, p.public.Scheme) == p.public.Host {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return false
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = strings.Trim(r.Host, "[]"), "80"
		if r.TLS != nil {
			port = "443"
		}
	}
	if port != strconv.Itoa(local.Port) {
		return false
	}
	return strings.EqualFold(host, "localhost") && local.IP.IsLoopback() || local.IP.Equal(net.ParseIP(host))
}

// isLoopback reports whether a browser treats a host as this machine. Then no network is
// in between, and WebCrypto works without TLS.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
}

// checkOrigin refuses a change that another origin sent, and any change over plain http
// from another machine: the browser would not keep a Secure cookie.
func (p *page) checkOrigin(r *http.Request) error {
	values := r.Header.Values("Origin")
	if len(values) != 1 {
		return fault.New(wire.CodeNotAuthorized, "not authorized: the request must carry one Origin header")
	}
	origin, err := url.Parse(values[0])
	if err != nil || plainHost(origin.Host, origin.Scheme) != plainHost(r.Host, origin.Scheme) {
		return fault.New(wire.CodeNotAuthorized, "not authorized: another site sent this request")
	}
	if origin.Scheme != "https" && (p.isSecure(r) || origin.Scheme != "http") {
		return fault.New(wire.CodeNotAuthorized, "not authorized: from another machine the account page needs https: "+
			"the operator puts TLS in front and starts svcd serve with --public-url https://HOST")
	}
	return nil
}

// isSecure reports whether the cookies of this request are for https alone: always,
// except for plain http on this machine.
func (p *page) isSecure(r *http.Request) bool {
	return !isLoopback(r.Host) || r.TLS != nil || p.public.Scheme == "https" &&
		plainHost(r.Host, "https") == p.public.Host
}

func (p *page) cookie(r *http.Request, name, value string, maxAge int) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
	if p.isSecure(r) {
		c.Name, c.Secure = "__Host-"+name, true
	} else if _, port, err := net.SplitHostPort(r.Host); err == nil {
		c.Name += "_" + port
	}
	return c
}

// secretOf returns the value of a cookie that was sent exactly once. Two cookies of one
// name mean that another site planted one.
func (p *page) secretOf(r *http.Request, name string) (string, bool) {
	sent := r.CookiesNamed(p.cookie(r, name, "", 0).Name)
	if len(sent) != 1 || sent[0].Value == "" {
		return "", false
	}
	return sent[0].Value, true
}

// caller returns the session of an account that is signed in. It refuses a tab that shows another account: since that
// was drawn, somebody signed in in another tab.
func (p *page) caller(r *http.Request) (*auth.Session, error) {
	token, ok := p.secretOf(r, cookieName)
	if !ok {
		return nil, fault.New(wire.CodeAuthRequired, "not signed in: open a sign-in link")
	}
	by, err := p.Tokens.Page(r.Context(), token)
	if err == nil {
		err = p.admit(r, by.Account)
	}
	if shown := r.Header.Get(headerWho); err == nil && shown != "" && shown != by.Account {
		err = fault.New(wire.CodeOtherAccount, "%s is signed in now: load the page again", by.Account)
	}
	return by, err
}

// signIn exchanges a one-time link for a session. The link's secret came in the
// fragment of the page's address, which no browser sends and no log keeps.
func (p *page) signIn(w http.ResponseWriter, r *http.Request) (any, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	var req struct {
		Link string `json:"link"`
		Look bool   `json:"look"` // whose it is; it stays good
	}
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.Look {
		account, err := p.Tokens.LinkOf(r.Context(), req.Link)
		return map[string]string{"account_id": account}, err
	}
	account, session, err := p.Tokens.UseLink(r.Context(), req.Link)
	if err != nil {
		return nil, err
	}
	return map[string]string{"account_id": account}, p.begin(w, r, account, session)
}

// begin replaces the browser's session, if it had one.
func (p *page) begin(w http.ResponseWriter, r *http.Request, account string, session auth.Secret) error {
	if old, ok := p.secretOf(r, cookieName); ok {
		if err := p.Tokens.EndPage(r.Context(), old); err != nil {
			return err
		}
	}
	http.SetCookie(w, p.cookie(r, cookieName, session.Reveal(), int(auth.PageLifetime.Seconds())))
	return nil
}

func (p *page) signOut(w http.ResponseWriter, r *http.Request) (any, error) {
	if secret, ok := p.secretOf(r, cookieName); ok {
		if err := p.Tokens.EndPage(r.Context(), secret); err != nil {
			return nil, err // with the cookie, or nobody could end the session any more
		}
	}
	http.SetCookie(w, p.cookie(r, cookieName, "", -1))
	return struct{}{}, nil
}

// session answers the signed-in account, or an empty one.
func (p *page) session(_ http.ResponseWriter, r *http.Request) (any, error) {
	by, err := p.caller(r)
	switch {
	case err == nil:
		return p.describe(r, by.Account)
	case fault.Of(err).Code == wire.CodeAuthRequired:
		return sessionView{OIDC: p.providerName(), NowMS: p.Ledger.Now().UnixMilli()}, nil
	}
	return nil, err
}

// sessionView is shown on every part of the page.
type sessionView struct {
	AccountID    string            `json:"account_id"` // "" = not signed in
	Balance      string            `json:"balance"`    // tokens
	HasKey       bool              `json:"has_key"`
	ContractID   string            `json:"contract_id"`
	MaxFileBytes int64             `json:"max_file_bytes"`
	Fees         map[string]string `json:"fees"`           // tokens by action
	OIDC         string            `json:"oidc,omitempty"` // host of the identity provider
	NowMS        int64             `json:"now_ms"`         // by the clock of the service
}

func (p *page) providerName() string {
	if p.oidc == nil {
		return ""
	}
	return p.oidc.name()
}

func (p *page) describe(r *http.Request, account string) (any, error) {
	balance, err := p.Accounts.Balance(r.Context(), account)
	if err != nil {
		return nil, err
	}
	hasKey, err := p.Accounts.HasKey(r.Context(), account)
	if err != nil {
		return nil, err
	}
	v := sessionView{AccountID: account, Balance: balance.Tokens(), HasKey: hasKey, ContractID: p.ContractID,
		MaxFileBytes: p.MaxFileBytes, OIDC: p.providerName(), NowMS: p.Ledger.Now().UnixMilli(),
		Fees: map[string]string{}}
	for action := range p.Ledger.Fees() {
		v.Fees[action] = p.Ledger.Fee(action).Tokens()
	}
	return v, nil
}
